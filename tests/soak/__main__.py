"""`python -m tests.soak [NAME[=COUNT] ...]`: run long checks, all without names, and record their figures."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.outcome import Check, Work
from tests.soak.record import PAGE, keep
from tests.soak.registry import CHECKS

DEFAULT_SEED = 20260401
SHOWN_FAILURES = 5


def main(arguments: list[str] | None = None) -> int:
    listed = "\n".join(
        f"  {check.name:<12} {check.count} {check.unit}, about {check.minutes:g} minutes" for check in CHECKS.values()
    )
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description="Run the long checks and record their figures in docs/soak.md.",
        epilog=f"checks:\n{listed}\n\nexample: python -m tests.soak kills=5 corruption",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checks", nargs="*", metavar="NAME[=COUNT]", help="which checks; all when none is named")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help="another seed makes other tries")
    options = parser.parse_args(arguments)
    try:
        wanted = [_wanted(text) for text in options.checks or CHECKS]
    except ValueError as error:
        parser.error(str(error))
    failed = 0
    with tempfile.TemporaryDirectory(prefix="quintet-soak-") as folder:
        work = Work(Path(folder), options.seed, lambda text: print(f"  {text}", flush=True))
        for check, count in wanted:
            failed += not _passed(check, count, work)
    print(f"figures: {PAGE}")
    return 1 if failed else 0


def _wanted(text: str) -> tuple[Check, int]:
    """NAME or NAME=COUNT as a check and a number of tries. Raises ValueError."""
    name, given, count = text.partition("=")
    if name not in CHECKS:
        raise ValueError(f"there is no check {name!r}; there are: {', '.join(CHECKS)}")
    if given and (not count.isdigit() or int(count) < 1):
        raise ValueError(f"{text!r} asks for no number of tries; an example: {name}={CHECKS[name].count}")
    return CHECKS[name], int(count) if given else CHECKS[name].count


def _passed(check: Check, count: int, work: Work) -> bool:
    print(f"{check.name}: {count} {check.unit}", flush=True)
    started = time.monotonic()
    outcome = check.function(work, count)
    seconds = time.monotonic() - started
    keep(check, count, work.seed, seconds, outcome)
    for figure, value in outcome.figures.items():
        print(f"  {figure}: {value}")
    for failure in outcome.failures[:SHOWN_FAILURES]:
        print(f"  FAILED {failure}")
    print(f"{check.name}: {len(outcome.failures)} failures in {seconds / 60:.1f} minutes", flush=True)
    return not outcome.failures


if __name__ == "__main__":
    sys.exit(main())
