"""Run one stage: `dvc repro -s ADDRESS` in a process group of its own, its output in a log, its end told in a word."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from components.errors import LockedError
from components.files import read_json
from pipelines.dvclocks import BUSY_SECONDS, busy_message, clear_dead_entries, is_busy
from pipelines.processes import ProcessIdentity, end_group, last_line
from pipelines.watch import RUNNER_VARIABLE

POLL_SECONDS = 0.1
BUSY_POLL_SECONDS = 1.0
# What a stage gets to end in order before it is killed.
GRACE_SECONDS = 5.0


class Outcome(StrEnum):
    """What became of a stage."""

    RAN = "ran"
    CACHED = "cached"
    RESTORED = "restored"
    FAILED = "failed"
    NOT_RUN = "not run"


# What DVC prints when it does not run the command.
SKIPPED_TEXT = "didn't change, skipping"
RESTORED_TEXT = "is cached - skipping run, checking out outputs"


@dataclass(frozen=True)
class StageResult:
    """The end of one stage. `why` is the reason for its outcome, the error in one line for a failed one."""

    address: str
    outcome: Outcome
    seconds: float
    why: str


class ProcessGroups:
    """The process groups that run now, so that one call ends them all."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._lock = threading.Lock()
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def add(self, group: int) -> None:
        with self._lock:
            self._groups.add(group)
        if self._closed:
            end_group(group, signal.SIGKILL, 0)

    def discard(self, group: int) -> None:
        with self._lock:
            self._groups.discard(group)

    def end_all(self) -> None:
        """End every group, and each that is added later."""
        self._closed = True
        with self._lock:
            groups = list(self._groups)
        threads = [
            # an interrupt, as from a keyboard: the stage stops, and DVC gives its locks back
            threading.Thread(target=end_group, args=(group, signal.SIGINT, GRACE_SECONDS))
            for group in groups
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def log_path(root: Path, address: str) -> Path:
    return root / "run_info" / "logs" / f"{address}.log"


def info_path(root: Path, address: str) -> Path:
    """Where a stage says how it went."""
    return root / "run_info" / "stages" / f"{address}.json"


def run_stage(
    root: Path,
    address: str,
    *,
    force: bool = False,
    groups: ProcessGroups | None = None,
    on_line: Callable[[str], None] = lambda line: None,
    busy_seconds: float = BUSY_SECONDS,
) -> StageResult:
    """Bring one stage up to date, without its ancestors. `on_line` gets the newest line of its log now and then.

    Raises LockedError when another process held DVC's files for `busy_seconds`; a stage that fails is a result.
    """
    started = time.monotonic()
    written = time.time()
    log = log_path(root, address)
    while True:
        clear_dead_entries(root)
        command = ["-m", "dvc", "--wait-for-lock", "repro", "-s", *(["--force"] if force else []), address]
        code = run_logged(root, command, log, groups or ProcessGroups(), on_line)
        text = log.read_text(encoding="utf-8", errors="replace")
        if code == 0 or not is_busy(text):
            break
        if time.monotonic() - started > busy_seconds:
            raise LockedError(busy_message(root, busy_seconds))
        time.sleep(BUSY_POLL_SECONDS)
    seconds = time.monotonic() - started
    if code != 0:
        return StageResult(address, Outcome.FAILED, seconds, failure(root, address, text, code, since=written))
    for sign, outcome, why in (
        (SKIPPED_TEXT, Outcome.CACHED, "what it depends on came out the same"),
        (RESTORED_TEXT, Outcome.RESTORED, "an earlier run with these inputs is in the cache"),
    ):
        if f"'{address}' {sign}" in text:
            return StageResult(address, outcome, seconds, why)
    return StageResult(address, Outcome.RAN, seconds, "")


def failure(root: Path, address: str, log: str, code: int, since: float) -> str:
    """One line that says why a stage failed: its own word, or the last line it wrote, or how DVC ended.

    `since` is in seconds since the epoch: what the stage said before is about another run.
    """
    info = info_path(root, address)
    with contextlib.suppress(FileNotFoundError, ValueError):
        said = read_json(info)
        # files may carry a time some milliseconds behind the clock
        if info.stat().st_mtime >= since - 1 and said.get("state") == "failed" and said.get("error"):
            return str(said["error"])
    ended = re.search(r"failed to run: .*, exited with (-?\d+)", log)
    if ended and not 0 <= int(ended[1]) <= 128:
        # negative from DVC itself, above 128 from a shell between DVC and the stage
        number = abs(int(ended[1])) % 128
        return f"the stage's process was ended by signal {number} ({signal_name(number)})"
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    of_stage = [line for line in lines if not line.startswith(("ERROR: failed to reproduce", "> ", "Running stage"))]
    if of_stage:
        return of_stage[-1].removeprefix("error: ").removeprefix("ERROR: ")
    if code < 0:
        return f"DVC was ended by signal {-code} ({signal_name(-code)})"
    return lines[-1] if lines else f"DVC ended with code {code} and said nothing"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unnamed"


def run_logged(
    root: Path, arguments: Sequence[str], log: Path, groups: ProcessGroups, on_line: Callable[[str], None]
) -> int:
    """Run Python with `arguments` in a process group of its own; returns its code. What it says goes into `log`."""
    environment = os.environ | {RUNNER_VARIABLE: str(ProcessIdentity.current()), "PYTHONUNBUFFERED": "1"}
    log.parent.mkdir(parents=True, exist_ok=True)
    # the log is a file rather than a pipe: nothing that outlives the stage can keep us reading
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    groups.add(process.pid)
    try:
        shown = ""
        while _runs(process):
            line = last_line(log)
            if line != shown:
                on_line(line)
                shown = line
        return process.wait()
    finally:
        # whatever the process has left in its group ends with it
        end_group(process.pid, signal.SIGKILL, 0)
        groups.discard(process.pid)
        process.wait()


def _runs(process: "subprocess.Popen[bytes]") -> bool:
    """Wait a moment; False at the end of a process. It is not collected, so that its number stays its own so long."""
    time.sleep(POLL_SECONDS)
    return psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE
