"""The record of the long checks: each with the date and commit of its last time, in `docs/soak.md`."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from components.files import read_json, write_json, write_text
from tests.endtoend.copies import REPOSITORY
from tests.soak.outcome import Check, Outcome

RECORD = REPOSITORY / "docs" / "soak.json"
PAGE = REPOSITORY / "docs" / "soak.md"

HEAD = """# The long checks

What is too long for every change is run by `make soak`; one check alone by `python -m tests.soak NAME`, and with
another number of tries by `NAME=COUNT`. This page is written by them.
"""


def keep(check: Check, count: int, seed: int, seconds: float, outcome: Outcome) -> None:
    """Put the outcome in the place of the check's last one, and write the page anew."""
    known: dict[str, Any] = read_json(RECORD) if RECORD.is_file() else {}
    known[check.name] = {
        "shows": check.shows,
        "unit": check.unit,
        "count": count,
        "seed": seed,
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(REPOSITORY),
        "minutes": round(seconds / 60, 1),
        "figures": outcome.figures,
        "failures": len(outcome.failures),
    }
    write_json(RECORD, known)
    write_text(PAGE, page(known))


def page(known: dict[str, Any]) -> str:
    lines = [HEAD, "| check | tries | failures | date | commit | minutes |", "|---|---|---|---|---|---|"]
    for name, entry in sorted(known.items()):
        tries = f"{entry['count']} {entry['unit']}"
        lines.append(
            f"| {name} | {tries} | {entry['failures']} | {entry['date']} | {entry['commit']} | {entry['minutes']} |"
        )
    for name, entry in sorted(known.items()):
        lines += [
            "",
            f"## {name}",
            "",
            f"{entry['shows']} Seed {entry['seed']}.",
            "",
            "| figure | value |",
            "|---|---|",
        ]
        lines += [f"| {figure} | {value} |" for figure, value in entry["figures"].items()]
    return "\n".join(lines) + "\n"


def commit(root: Path) -> str:
    """The commit that is checked out, with a plus sign when files that git knows differ from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "components", "pipelines", "conf", "deploy")
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
