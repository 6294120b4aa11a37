"""A watchman in a process of its own: when the run it guards is killed, it ends what that run had started.

A killed process cannot clean up after itself. DVC, the stages and Prefect's temporary server would go on for minutes or
for ever. All of them carry the run's token in their environment, by which the watchman finds them.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator

from pipelines.processes import ProcessIdentity, kill, processes_with

POLL_SECONDS = 0.5
# A stage that watches its own parent ends within a second, and DVC then gives its locks back in order.
GRACE_SECONDS = 3.0


@contextlib.contextmanager
def guarded(runner: ProcessIdentity, variable: str, token: str, *, enabled: bool = True) -> Iterator[None]:
    """Keep a watchman over `runner` for the duration of the block."""
    if not enabled:
        yield
        return
    command = [sys.executable, "-m", "pipelines.guard", str(runner), variable, token]
    # in a session of its own, so that what ends the run's process group leaves the watchman at work
    watchman = subprocess.Popen(
        command, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        watchman.terminate()
        watchman.wait()


def main(arguments: list[str]) -> None:
    """`RUNNER VARIABLE TOKEN`: wait for the process RUNNER to end, then end all that carry VARIABLE=TOKEN."""
    runner, variable, token = ProcessIdentity.parse(arguments[0]), arguments[1], arguments[2]
    while runner.alive():
        time.sleep(POLL_SECONDS)
    kill(processes_with(variable, token), grace_seconds=GRACE_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1:])
