"""The processes that make the runs of a study: each in a group of its own, its log kept, its death survived."""

import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from components.files import write_json
from components.studies.plan import Run
from components.studies.running import account, account_path, finished
from pipelines.processes import last_line
from pipelines.runner import ProcessGroups, log_path, run_logged, signal_name
from pipelines.studies.parts import Part, write_part


def make_part(root: Path, part: Part, groups: ProcessGroups, on_line: Callable[[str], None]) -> int:
    """Make the runs of `part` in a process; returns how many of them have no result in the end.

    A process that dies takes one run with it, which is then a failed one; the runs behind it get a new process.
    """
    waiting = part.runs
    log = log_path(root, f"study-{part.study}-{part.number}")
    started = time.time()
    while waiting and not groups.closed:
        path = write_part(root, replace(part, runs=waiting))
        code = run_logged(root, ["-m", "pipelines.cli", "study-part", str(path)], log, groups, on_line)
        if code in (0, 1) or groups.closed:
            break
        # one that died before its first run would die again
        died_at = next((run for run in waiting if _state_since(root, run, started) == "running"), waiting[0])
        _note_death(root, died_at, code)
        begun = waiting.index(died_at)
        waiting = tuple(run for run in waiting[begun + 1 :] if finished(root, run.digest) is None)
    if not groups.closed:
        for run in part.runs:
            if finished(root, run.digest) is None and _state_since(root, run, started) != "failed":
                _note(root, run, f"its process ended before it was made: {last_line(log) or 'it said nothing'}")
    return sum(finished(root, run.digest) is None for run in part.runs)


def _note_death(root: Path, run: Run, code: int) -> None:
    how = f"was ended by signal {-code} ({signal_name(-code)})" if code < 0 else f"ended with code {code}"
    hint = "; it may have run out of memory" if code == -signal.SIGKILL else ""
    _note(root, run, f"its process {how}{hint}")


def _state_since(root: Path, run: Run, started: float) -> str | None:
    """What a run without a result has said of itself since `started` (seconds since the epoch): running or failed."""
    path = account_path(root, run.digest)
    # files may carry a time some milliseconds behind the clock; what is older is of another start
    new = path.is_file() and path.stat().st_mtime >= started - 1
    return account(root, run.digest).get("state") if new and finished(root, run.digest) is None else None


def _note(root: Path, run: Run, error: str) -> None:
    write_json(account_path(root, run.digest), {**account(root, run.digest), "state": "failed", "error": error})
