"""`python -m benchmarks`: run them all and write benchmarks/results.md; with names, run these and write nothing."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

RESULTS = Path(__file__).parent / "results.md"
# Set before anything that would start threads or report home is imported.
SETTINGS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "ORT_DISABLE_TELEMETRY": "1"}


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when all was measured; 1 when a contest is refused or its input is absent; 2 for a name that does not exist."""
    from benchmarks.registry import BENCHMARKS
    from components.errors import QuintetError, UsageError

    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all without any")
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds, at least 2 (default 15)")
    options = parser.parse_args(arguments)
    try:
        lines = report(options.names or list(BENCHMARKS), options.rounds)
    except QuintetError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    if not options.names:
        from components.files import write_text

        write_text(RESULTS, "\n".join(lines))
        print(f"written to {RESULTS.parent.name}/{RESULTS.name}")
    return 0


def report(names: Sequence[str], rounds: int) -> list[str]:
    """The lines of results.md, printed as they come. Raises QuintetError before anything of a refused contest shows."""
    import torch

    from benchmarks.contest import measure, table
    from benchmarks.machine import description
    from benchmarks.registry import BENCHMARKS, contests
    from components.errors import UsageError

    if rounds < 2:
        raise UsageError(f"--rounds is {rounds}, which shows no spread; give 2 or more")
    torch.set_num_threads(1)
    lines: list[str] = []

    def say(*added: str) -> None:
        lines.extend(added)
        print("\n".join(added), flush=True)

    say(
        "# Benchmarks",
        "",
        f"Made by `python -m benchmarks`: {rounds} interleaved rounds on one thread, warm-ups before them. A ratio",
        "above 1 means slower than the yardstick in the first row of its table; it is the median over rounds, with its",
        "quartiles. Accuracy stands beside it, for a fast answer that is worse is another trade, not a gain.",
        "",
        f"Machine: {description()}.",
        "",
    )
    for name in names:
        for position, contest in enumerate(contests(name)):
            timings = measure(contest, rounds)
            if position == 0:
                say(f"## {name}", "", BENCHMARKS[name].question, "", BENCHMARKS[name].note, "")
            say(f"### {contest.title}", "", *table(contest, timings), "")
    return lines


if __name__ == "__main__":
    os.environ.update(SETTINGS)
    sys.exit(main())
