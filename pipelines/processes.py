"""Which process is meant: a number alone is not enough, since the system gives numbers out again."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

# A clock that is set while a process runs shifts its reported time of creation by a little.
CREATION_TOLERANCE_SECONDS = 2.0
TAIL_BYTES = 4096


@dataclass(frozen=True)
class ProcessIdentity:
    """A process by its number and its time of creation (seconds since the epoch)."""

    pid: int
    created: float

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """The identity of the running process `pid`; None when there is none."""
        try:
            return cls(pid, psutil.Process(pid).create_time())
        except psutil.Error:
            return None

    @classmethod
    def current(cls) -> Self:
        return cls(os.getpid(), psutil.Process().create_time())

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of `str`. Raises ValueError."""
        pid, _, created = text.partition("@")
        return cls(int(pid), float(created))

    def __str__(self) -> str:
        return f"{self.pid}@{self.created:.3f}"

    def alive(self) -> bool:
        """Whether this very process still runs; one that ended and was not collected yet does not."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.created) < CREATION_TOLERANCE_SECONDS
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


def processes_with(variable: str, value: str) -> list[psutil.Process]:
    """All other processes of this user that were started with the environment variable `variable` set to `value`."""
    found = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        # processes of other users, and those that end meanwhile, cannot be ours
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(variable) == value:
                found.append(process)
    return found


def kill(processes: Iterable[psutil.Process], grace_seconds: float = 0.0) -> None:
    """End `processes`: wait `grace_seconds` for them to end by themselves, then kill, and wait until they are gone."""
    _, remaining = psutil.wait_procs(list(processes), timeout=grace_seconds)
    for process in remaining:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(remaining, timeout=5)


def group_members(group: int) -> list[psutil.Process]:
    """The processes of a process group that still run."""
    members = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
    return members


def end_group(group: int, first: signal.Signals, grace_seconds: float) -> None:
    """Send `first` to a process group, wait `grace_seconds` for all members to end, and kill those that did not."""
    deadline = time.monotonic() + grace_seconds
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, first)
    while time.monotonic() < deadline and group_members(group):
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def last_line(path: Path) -> str:
    """The last line of a log that is not empty, or an empty string. Only the end of a long log is read."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        text = file.read().decode("utf-8", errors="replace")
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
