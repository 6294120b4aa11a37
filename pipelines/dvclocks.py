"""DVC's own locks, and what a killed DVC leaves in them.

DVC's repository lock (`.dvc/tmp/lock`) belongs to the operating system and ends with its holder. Its table of readers
and writers (`.dvc/tmp/rwlock`) is a plain file: a killed DVC leaves its entries there, or half of the file, and its
process number may since have gone to another program. DVC asks the user to delete the file; here it is mended.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

from components.errors import LockedError

Result = TypeVar("Result")

BUSY_SECONDS = 60.0
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Entry:
    """One line of DVC's table: a process that reads or writes `path`."""

    pid: int
    command: str
    mode: str
    path: str

    def alive(self) -> bool:
        """Whether the process still is the one that made the entry, and not another with its number."""
        try:
            process = psutil.Process(self.pid)
            arguments = process.cmdline()
            ended = process.status() == psutil.STATUS_ZOMBIE
        except psutil.AccessDenied:
            return True
        except psutil.Error:
            return False
        # DVC notes the arguments without the interpreter and, for `python -m dvc`, with a file for the module
        tail = self.command.split(" ")[1:]
        return not ended and (not tail or " ".join(arguments).endswith(" ".join(tail)))


def entries(root: Path) -> list[Entry]:
    """The entries of DVC's table. Raises ValueError when the file is not whole."""
    try:
        return _entries(json.loads(_table(root).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return []


def clear_dead_entries(root: Path) -> list[Entry]:
    """Remove what dead processes left in DVC's table, and return it. A table that is not whole is emptied."""
    if not _table(root).exists():
        return []
    with _editing(root):
        try:
            content = json.loads(_table(root).read_text(encoding="utf-8"))
            found = _entries(content)
        except (ValueError, AttributeError, KeyError, TypeError):
            # whoever writes it holds the guard that we hold now, so a broken table is a dead writer's
            _table(root).write_text("{}", encoding="utf-8")
            return []
        dead = [entry for entry in found if not entry.alive()]
        if dead:
            _table(root).write_text(json.dumps(_without(content, dead)), encoding="utf-8")
        return dead


def retry_while_busy(root: Path, action: Callable[[], Result], seconds: float = BUSY_SECONDS) -> Result:
    """`action()`, tried again while DVC says that another DVC holds what it needs.

    Raises LockedError naming the holders when they are still there after `seconds`.
    """
    deadline = time.monotonic() + seconds
    while True:
        clear_dead_entries(root)
        try:
            return action()
        except Exception as error:
            if not is_busy(str(error)):
                raise
            if time.monotonic() > deadline:
                raise LockedError(busy_message(root, seconds)) from error
        time.sleep(POLL_SECONDS)


def is_busy(text: str) -> bool:
    """Whether `text` is DVC saying that another process holds a lock."""
    return "is busy, it is being blocked by" in text or "Unable to acquire lock" in text


def busy_message(root: Path, seconds: float) -> str:
    holders = sorted({f"process {entry.pid} (`{entry.command}`)" for entry in entries(root) if entry.alive()})
    return (
        f"DVC's files in {root} were held for more than {seconds:.0f} s by {', '.join(holders) or 'another DVC'}; "
        "wait for it to end, or stop it, and repeat"
    )


def _table(root: Path) -> Path:
    return root / ".dvc" / "tmp" / "rwlock"


@contextlib.contextmanager
def _editing(root: Path) -> Iterator[None]:
    from dvc.lock import make_lock

    # the guard that DVC itself takes for every edit of the table
    with make_lock(str(_table(root).with_name("rwlock.lock")), tmp_dir=str(_table(root).parent), wait=True):
        yield


def _entries(content: dict[str, Any]) -> list[Entry]:
    writers = [
        Entry(info["pid"], info["cmd"], "write", path) for path, info in content.get("write", {}).items() if info
    ]
    readers = [
        Entry(info["pid"], info["cmd"], "read", path)
        for path, infos in content.get("read", {}).items()
        for info in infos
    ]
    return writers + readers


def _without(content: dict[str, Any], dead: list[Entry]) -> dict[str, Any]:
    def kept(info: dict[str, Any], mode: str, path: str) -> bool:
        return Entry(info["pid"], info["cmd"], mode, path) not in dead

    write = {path: info for path, info in content.get("write", {}).items() if info and kept(info, "write", path)}
    read = {
        path: [info for info in infos if kept(info, "read", path)] for path, infos in content.get("read", {}).items()
    }
    return {"write": write, "read": {path: infos for path, infos in read.items() if infos}}
