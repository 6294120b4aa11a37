"""One run per checkout.

The lock is the operating system's own on an open file, so it ends with its holder, however that ends. Beside it lies a
file that says who holds it. Processes started by the holder carry a token in their environment and pass through; when a
holder was killed, the next one first ends whatever still carries the dead holder's token.
"""

import contextlib
import os
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from components.errors import LockedError
from components.files import read_json, write_json
from pipelines.environment import state_folder
from pipelines.guard import guarded
from pipelines.processes import ProcessIdentity, kill, processes_with

# names a run, protects nothing
TOKEN_VARIABLE = "QUINTET_RUN_TOKEN"  # noqa: S105
POLL_SECONDS = 0.5
# Between taking the lock and writing the owner file a holder is nameless for a moment.
OWNER_GRACE_SECONDS = 2.0


@dataclass(frozen=True)
class RunOwner:
    """Who holds a checkout. `started` is in UTC, `created` the process's time of creation in seconds."""

    pid: int
    created: float
    host: str
    command: str
    started: str
    token: str

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(self.pid, self.created)

    def __str__(self) -> str:
        return f"`{self.command}` (process {self.pid} on {self.host}, since {self.started})"


def lock_path(root: Path) -> Path:
    return state_folder(root) / "run.lock"


def owner_path(root: Path) -> Path:
    return state_folder(root) / "run.owner.json"


def read_owner(root: Path) -> RunOwner | None:
    """Who holds the checkout, or held it when it was killed; None when the last holder ended in order."""
    try:
        return RunOwner(**read_json(owner_path(root)))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        # written by another version: it names nobody we could wait for or clean up after
        return None


def is_held(root: Path) -> bool:
    """Whether some process holds the lock now."""
    if not lock_path(root).exists():
        return False
    lock = FileLock(lock_path(root), is_singleton=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return True
    lock.release()
    return False


def within_run(root: Path) -> RunOwner | None:
    """The running holder that this process belongs to by the token in its environment; None otherwise."""
    token = os.environ.get(TOKEN_VARIABLE)
    owner = read_owner(root) if token else None
    return owner if owner and owner.token == token and owner.identity.alive() else None


@contextlib.contextmanager
def hold_run_lock(
    root: Path,
    *,
    wait: bool = True,
    command: str | None = None,
    on_wait: Callable[[str], None] = lambda message: print(message, file=sys.stderr),
    guard: bool = False,
) -> Iterator[RunOwner]:
    """Hold the checkout `root` for the duration of the block, or pass through when its holder started this process.

    `wait`: wait for another holder, telling `on_wait` for whom; otherwise raise LockedError at once.
    `guard`: start a watchman that ends the processes of this run should this process be killed.
    """
    owner = within_run(root)
    if owner:
        yield owner
        return
    state_folder(root).mkdir(parents=True, exist_ok=True)
    lock = FileLock(lock_path(root), is_singleton=False)
    _acquire(lock, root, wait, on_wait)
    try:
        end_leftovers(root)
        owner = _new_owner(command or " ".join(["quintet", *sys.argv[1:]]))
        write_json(owner_path(root), asdict(owner))
        with _token(owner.token), guarded(owner.identity, TOKEN_VARIABLE, owner.token, enabled=guard):
            yield owner
    finally:
        owner_path(root).unlink(missing_ok=True)
        lock.release()


def end_leftovers(root: Path) -> list[int]:
    """End the processes that a killed holder left behind. Only the holder of the lock may call this."""
    previous = read_owner(root)
    if previous is None or previous.host != socket.gethostname() or previous.identity.alive():
        return []
    leftovers = processes_with(TOKEN_VARIABLE, previous.token)
    kill(leftovers, grace_seconds=1.0)
    return [process.pid for process in leftovers]


def _acquire(lock: FileLock, root: Path, wait: bool, on_wait: Callable[[str], None]) -> None:
    told: str | None = None
    while True:
        try:
            lock.acquire(blocking=False)
        except Timeout:
            holder = _holder(root)
        else:
            return
        if not wait:
            raise LockedError(
                f"{root} is in use by {holder}: one run per checkout; wait for it to end, or stop it, and repeat"
            )
        if holder != told:
            on_wait(f"waiting for {holder}, which holds this checkout")
            told = holder
        time.sleep(POLL_SECONDS)


def _holder(root: Path) -> str:
    deadline = time.monotonic() + OWNER_GRACE_SECONDS
    while time.monotonic() < deadline:
        owner = read_owner(root)
        if owner and owner.identity.alive():
            return str(owner)
        if not is_held(root):
            break
        time.sleep(0.05)
    return "a process that has not said its name yet"


def _new_owner(command: str) -> RunOwner:
    identity = ProcessIdentity.current()
    return RunOwner(
        pid=identity.pid,
        created=identity.created,
        host=socket.gethostname(),
        command=command,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        token=secrets.token_hex(16),
    )


@contextlib.contextmanager
def _token(token: str) -> Iterator[None]:
    before = os.environ.get(TOKEN_VARIABLE)
    os.environ[TOKEN_VARIABLE] = token
    try:
        yield
    finally:
        if before is None:
            del os.environ[TOKEN_VARIABLE]
        else:
            os.environ[TOKEN_VARIABLE] = before
