"""`quintet run`: the flow with a terminal in front of it."""

import logging
import os
from pathlib import Path

from rich.console import Console

from components.errors import QuintetError
from pipelines.after import After
from pipelines.embedded import start_server_apart
from pipelines.locking import hold_run_lock
from pipelines.progress import OBSERVER, ConsoleObserver
from pipelines.results import load_result, result_path
from pipelines.scales import compose
from pipelines.services import api_url
from pipelines.table import print_result


class RunFailedError(QuintetError):
    """The flow ended before it had a result; the message is its last word."""


def run_graph(
    root: Path,
    console: Console,
    scale: str | None,
    overrides: tuple[str, ...],
    force: bool,
    max_parallel: int,
    wait: bool,
    after: bool,
) -> int:
    """Run the flow `reproduce` and print its table. Returns the exit code: 0, or 1 when a stage or step failed."""
    observer = ConsoleObserver(console)
    # taken here and not only in the flow: to be refused should not cost the start of a Prefect server
    with hold_run_lock(root, wait=wait, on_wait=observer.waiting, guard=True):
        if compose(root, scale, overrides):
            console.print("params.yaml: composed anew from conf/", soft_wrap=True)
        server = api_url(root)
        if server:
            os.environ["PREFECT_API_URL"] = server
        token = OBSERVER.set(observer)
        try:
            _run_flow(root, force, max_parallel, after)
        finally:
            OBSERVER.reset(token)
        result = load_result(root)
        print_result(root, result, console)
        return 0 if result.succeeded else 1


def _run_flow(root: Path, force: bool, max_parallel: int, after: bool) -> None:
    from pipelines.flows import reproduce

    start_server_apart()
    # what is there afterwards is of this run
    result_path(root).unlink(missing_ok=True)

    # each failure is told by our own lines and the table; Prefect would add its own, with tracebacks
    for name in ("prefect.task_runs", "prefect.flow_runs"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    state = reproduce(force=force, max_parallel=max_parallel, after=list(After) if after else [], return_state=True)
    # an exception that the flow did not expect is raised here, with its traceback
    if isinstance(getattr(state.data, "result", state.data), BaseException):
        state.result(raise_on_failure=True)
    if not result_path(root).is_file():
        raise RunFailedError(state.message or f"the flow ended in state {state.name} without a result")
