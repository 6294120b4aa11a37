"""The processes that make the runs of a study: each in a group of its own, its log kept, its death survived."""

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from components.files import write_json
from components.studies.plan import Run
from components.studies.running import account, account_path, finished
from pipelines.runner import ProcessGroups, log_path, run_logged, signal_name
from pipelines.studies.parts import Part, write_part


def make_part(root: Path, part: Part, groups: ProcessGroups, on_line: Callable[[str], None]) -> int:
    """Make the runs of `part` in a process; returns how many of them have no result in the end.

    A process that dies takes one run with it, which is then a failed one; the runs behind it get a new process.
    """
    waiting = part.runs
    log = log_path(root, f"study-{part.study}-{part.number}")
    while waiting and not groups.closed:
        path = write_part(root, replace(part, runs=waiting))
        code = run_logged(root, ["-m", "pipelines.cli", "study-part", str(path)], log, groups, on_line)
        if code in (0, 1) or groups.closed:
            break
        # one that died before its first run would die again
        died_at = next((run for run in waiting if _was_begun(root, run)), waiting[0])
        _note_death(root, died_at, code)
        begun = waiting.index(died_at)
        waiting = tuple(run for run in waiting[begun + 1 :] if finished(root, run.digest) is None)
    return sum(finished(root, run.digest) is None for run in part.runs)


def _was_begun(root: Path, run: Run) -> bool:
    return account(root, run.digest).get("state") == "running" and finished(root, run.digest) is None


def _note_death(root: Path, run: Run, code: int) -> None:
    how = f"was ended by signal {-code} ({signal_name(-code)})" if code < 0 else f"ended with code {code}"
    hint = "; it may have run out of memory" if code == -signal.SIGKILL else ""
    said = {**account(root, run.digest), "state": "failed", "error": f"its process {how}{hint}"}
    write_json(account_path(root, run.digest), said)
