"""A stage ends with the process that wanted it.

When DVC is killed, nobody tells the stage it had started: it would run on, and write its output when a later run has
long begun. A thread looks after the ancestors instead.
"""

import os
import threading
from collections.abc import Sequence

import psutil

from pipelines.processes import ProcessIdentity, kill

RUNNER_VARIABLE = "QUINTET_RUNNER_PID"
# set by DVC for every command of a stage
DVC_VARIABLE = "DVC_STAGE"
POLL_SECONDS = 0.5
STDERR = 2
# a time of creation that no process has
NEVER = 0.0
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh", "cmd.exe"})


def end_with_parent(poll_seconds: float = POLL_SECONDS) -> threading.Thread | None:
    """Start the watch; call it first in a stage process. Returns the thread, or None when there is nobody to watch.

    Watched are the processes between this one and DVC (a shell may stand between), when DVC started it, and the runner
    named by QUINTET_RUNNER_PID, written as `pid@time of creation`. A stage started by hand watches nobody.
    """
    watched = [*dvc_ancestors(), *named_runner()]
    if not watched:
        return None
    thread = threading.Thread(target=_watch, args=(watched, poll_seconds), name="end-with-parent", daemon=True)
    thread.start()
    return thread


def dvc_ancestors() -> list[ProcessIdentity]:
    """This process's parent, and as long as that is a shell, the shell's parent, up to the first that is none.

    When DVC was gone before we looked, the system has given the stage (or its shell) another parent; then the last
    identity is one that is never alive.
    """
    if DVC_VARIABLE not in os.environ:
        return []
    found = []
    pid = os.getppid()
    try:
        while psutil.Process(pid).name() in SHELLS:
            found.append(ProcessIdentity(pid, psutil.Process(pid).create_time()))
            pid = psutil.Process(pid).ppid()
        process = psutil.Process(pid)
        runs_dvc = "python" in process.exe().lower() or "dvc" in process.name()
        return [*found, ProcessIdentity(pid, process.create_time() if runs_dvc else NEVER)]
    except psutil.Error:
        return [*found, ProcessIdentity(pid, NEVER)]


def named_runner() -> list[ProcessIdentity]:
    text = os.environ.get(RUNNER_VARIABLE)
    return [ProcessIdentity.parse(text)] if text else []


def _watch(watched: Sequence[ProcessIdentity], poll_seconds: float) -> None:
    pause = threading.Event()
    while True:
        for identity in watched:
            if not identity.alive():
                _end(identity)
        pause.wait(poll_seconds)


def _end(gone: ProcessIdentity) -> None:
    # written past Python's own buffers and locks, which the main thread may hold
    os.write(STDERR, f"ended, as its parent process {gone.pid} is gone\n".encode())
    kill(psutil.Process().children(recursive=True))
    # a hard end: the stage writes beside its output and renames, so nothing half-made can be taken for whole
    os._exit(143)
