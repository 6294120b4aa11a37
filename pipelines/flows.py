"""The Prefect flow `reproduce`: the graph of `dvc.yaml`, one task per stage.

Prefect adds concurrency, retries, schedules and a picture; what a stage is, and whether it is up to date, DVC knows.
Run it by `quintet run`, or as the deployment `reproduce/reproduce` after `quintet up`.
"""

import functools
import logging
import queue
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import yaml
from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture
from prefect.states import Completed, Failed
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import Field

from components.config import Scale
from components.errors import LockedError, QuintetError
from pipelines.after import After, run_step
from pipelines.environment import find_root, prepare
from pipelines.graph import StageNode, read_graph
from pipelines.locking import hold_run_lock
from pipelines.plan import Plan
from pipelines.progress import OBSERVER, LogObserver, Observer
from pipelines.results import RunResult, save_result
from pipelines.runner import Outcome, ProcessGroups, StageResult, run_stage
from pipelines.scales import compose
from pipelines.table import markdown

MAX_PARALLEL = 16
# The embedded server keeps its state in sqlite, which stands few writers; stages are coarse, and use several cores.
DEFAULT_PARALLEL = 2
LOCK_RETRY_SECONDS = [1.0, 5.0]
QUEUE_SECONDS = 0.5

# Work for a task, made by the flow and told by its address; returns how it ended.
Work = Callable[[], StageResult]


def _is_infrastructure(task_definition: Any, task_run: Any, state: State[Any]) -> bool:
    """Whether a failed task may be tried again: only when a lock was held too long, never when a gate refused."""
    return isinstance(getattr(state.data, "result", state.data), LockedError)


@task(
    task_run_name="{address}",
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=len(LOCK_RETRY_SECONDS),
    retry_delay_seconds=LOCK_RETRY_SECONDS,
    retry_condition_fn=_is_infrastructure,
)
def stage(address: str, work: Work) -> State[None]:
    """One stage, or one step after the graph. The state's name says what became of it."""
    return _state(work())


def _state(result: StageResult) -> State[None]:
    message = f"{result.why or 'done'} ({result.seconds:.1f} s)"
    if result.outcome is Outcome.FAILED:
        return Failed(message=result.why)
    names = {Outcome.CACHED: "Cached", Outcome.RESTORED: "Restored"}
    return Completed(name=names.get(result.outcome, "Completed"), message=message)


@flow(
    name="reproduce",
    description="Bring every stage of the graph up to date, then the tracking store and the report.",
    task_runner=ThreadPoolTaskRunner(max_workers=MAX_PARALLEL),  # type: ignore[arg-type]
    persist_result=False,
)
def reproduce(
    scale: Scale | None = None,
    overrides: list[str] | None = None,
    force: bool = False,
    max_parallel: Annotated[int, Field(ge=1, le=MAX_PARALLEL)] = DEFAULT_PARALLEL,
    wait: bool = True,
    after: list[After] | None = None,
) -> State[None]:
    """Bring the graph up to date.

    Args:
        scale: how much is computed; without one, params.yaml stands as it is.
        overrides: Hydra overrides of the configuration, KEY=VALUE.
        force: run every stage, also those that are up to date.
        max_parallel: how many stages run at once.
        wait: wait for another run in this checkout, rather than fail.
        after: the steps after the graph, by default all: sync (tracking store and registry), report.
    """
    root = find_root()
    prepare(root)
    observer = OBSERVER.get() or LogObserver(get_run_logger())
    try:
        with hold_run_lock(root, wait=wait, on_wait=observer.waiting, guard=True):
            compose(root, scale, overrides or ())
            result = _reproduce(root, force, max_parallel, list(After) if after is None else after, observer)
            save_result(root, result)
    except QuintetError as error:
        # an error of the input: its sentence says all, and a traceback would bury it
        return Failed(message=str(error))
    finally:
        observer.closed()
    _publish(root, result)
    return Completed(message=result.summary()) if result.succeeded else Failed(message=result.summary())


def _reproduce(root: Path, force: bool, max_parallel: int, after: list[After], observer: Observer) -> RunResult:
    started = datetime.now(UTC)
    clock = time.monotonic()
    plan = Plan(read_graph(root), force=force)
    observer.planned(len(plan.graph.stages) + len(after))
    groups = ProcessGroups()
    try:
        futures = _run_graph(root, plan, max_parallel, groups, observer)
    except BaseException:
        # interrupted: the tasks wait for their processes, and the flow for its tasks
        observer.interrupted()
        groups.end_all()
        raise
    steps = [_run_after(root, step, list(futures.values()), observer) for step in After if step in after]
    return RunResult(
        scale=_active_scale(root),
        started=started.isoformat(timespec="seconds"),
        seconds=time.monotonic() - clock,
        stages=tuple(plan.in_order),
        after=tuple(steps),
    )


def _run_graph(
    root: Path, plan: Plan, max_parallel: int, groups: ProcessGroups, observer: Observer
) -> dict[str, PrefectFuture[Any]]:
    """Start each stage when what it needs has ended, at most `max_parallel` at once, until none is left."""
    futures: dict[str, PrefectFuture[Any]] = {}
    ended: queue.Queue[str] = queue.Queue()
    outcomes: dict[str, StageResult] = {}
    running: set[str] = set()
    while not plan.complete:
        for node in plan.ready()[: max_parallel - len(running)]:
            work = _work(root, node, plan, groups, observer, outcomes)
            above = [futures[address] for address in node.depends_on]
            futures[node.address] = stage.submit(node.address, work, wait_for=above, return_state=False)
            futures[node.address].add_done_callback(functools.partial(_note_end, ended, node.address))
            plan.begin(node.address)
            running.add(node.address)
        try:
            # short waits, so that an interrupt is heard
            address = ended.get(timeout=QUEUE_SECONDS)
        except queue.Empty:
            continue
        running.discard(address)
        for result in plan.end(_outcome(address, outcomes, futures[address])):
            observer.finished(result)
    return futures


def _note_end(ended: "queue.Queue[str]", address: str, future: PrefectFuture[Any]) -> None:
    ended.put(address)


def _work(
    root: Path,
    node: StageNode,
    plan: Plan,
    groups: ProcessGroups,
    observer: Observer,
    outcomes: dict[str, StageResult],
) -> Work:
    """What the task of a stage does. Decided here, in the flow's own thread, run in the task's."""
    if plan.is_cached(node):

        def work() -> StageResult:
            return outcomes.setdefault(node.address, StageResult(node.address, Outcome.CACHED, 0.0, node.reason))

        return work
    why = plan.why_run(node)
    observer.started(node.address, why)

    def work_in_process() -> StageResult:
        result = run_stage(
            root, node.address, force=plan.force, groups=groups, on_line=lambda text: observer.line(node.address, text)
        )
        if result.outcome is Outcome.RAN:
            result = StageResult(node.address, Outcome.RAN, result.seconds, why)
        outcomes[node.address] = result
        return result

    return work_in_process


def _outcome(address: str, outcomes: dict[str, StageResult], future: PrefectFuture[Any]) -> StageResult:
    if address in outcomes:
        return outcomes[address]
    try:
        future.result(raise_on_failure=True)
    except LockedError as error:
        return StageResult(address, Outcome.FAILED, 0.0, str(error))
    raise RuntimeError(
        f"the task of {address} ended in state {future.state.name}, without a result: {future.state.message}"
    )


def _run_after(root: Path, step: After, above: list[PrefectFuture[Any]], observer: Observer) -> StageResult:
    outcome: list[StageResult] = []

    def work() -> StageResult:
        outcome.append(run_step(root, step))
        return outcome[-1]

    observer.started(step, "after the graph")
    # not wait_for: the store and the report also show what a failed graph has left
    stage.submit(str(step), work).wait()
    observer.finished(outcome[-1])
    return outcome[-1]


def _active_scale(root: Path) -> str:
    return str(yaml.safe_load((root / "params.yaml").read_text(encoding="utf-8")).get("scale", "unnamed"))


def _publish(root: Path, result: RunResult) -> None:
    try:
        create_markdown_artifact(
            key="reproduce", markdown=markdown(root, result), description="the last run, stage by stage"
        )
    except Exception:
        # Prefect's pages are a view: what they cannot show must not fail a run that is done
        logging.getLogger(__name__).warning("Prefect did not take the table of this run", exc_info=True)
