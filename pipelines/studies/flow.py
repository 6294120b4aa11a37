"""The Prefect flow `ablate`: the runs of a study, a task for each process, then comparison and tracking.

What is finished is found by its digest among the files and is not made again, so a study that was killed goes on where
it was. Run it by `quintet ablate STUDY`, or as the deployment `ablate/ablate` after `quintet up`.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact, create_progress_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture
from prefect.states import Completed, Failed
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import Field

from components.errors import QuintetError, UsageError
from components.studies.config import study_named
from components.studies.inputs import Inputs
from components.studies.plan import Plan, Run, plan_study
from components.studies.running import account, finished, pending
from components.studies.store import write_study
from pipelines.environment import find_root, prepare
from pipelines.locking import hold_run_lock
from pipelines.runner import ProcessGroups
from pipelines.scales import composed
from pipelines.studies import after
from pipelines.studies.parts import Part, divided, sharing
from pipelines.studies.processes import make_part
from pipelines.studies.progress import STUDY_OBSERVER, Count, Counter, StudyLog, StudyObserver
from pipelines.studies.results import StudyResult, save_result
from pipelines.studies.views import states_markdown

MAX_PARALLEL = 16
DEFAULT_PARALLEL = 2
POLL_SECONDS = 0.5
# Prefect's pages are told less often than a terminal: each telling is a request.
VIEW_SECONDS = 5.0

Work = Callable[[], int]


@task(task_run_name="{label}", cache_policy=NO_CACHE, persist_result=False)
def process(label: str, work: Work) -> State[None]:
    """One process and the runs it makes."""
    failed = work()
    return Failed(message=f"{failed} runs failed") if failed else Completed(message="all runs made")


@flow(
    name="ablate",
    description="Make the missing runs of a study, compare its arms, bring the tracking store up to date.",
    task_runner=ThreadPoolTaskRunner(max_workers=MAX_PARALLEL),  # type: ignore[arg-type]
    persist_result=False,
)
def ablate(
    study: str,
    max_parallel: Annotated[int, Field(ge=1, le=MAX_PARALLEL)] = DEFAULT_PARALLEL,
    wait: bool = True,
) -> State[None]:
    """Bring a study of ablations.yaml up to date.

    Args:
        study: its name in ablations.yaml.
        max_parallel: how many processes train at once.
        wait: wait for another run in this checkout, rather than fail.
    """
    root = find_root()
    prepare(root)
    observer = STUDY_OBSERVER.get() or StudyLog(get_run_logger())
    try:
        with hold_run_lock(root, wait=wait, on_wait=observer.waiting, guard=True):
            result = _ablate(root, study, max_parallel, observer)
            save_result(root, result)
    except QuintetError as error:
        # an error of the input: its sentence says all, and a traceback would bury it
        observer.refused(error)
        return Failed(message=str(error))
    finally:
        observer.closed()
    return Completed(message=result.summary()) if result.succeeded else Failed(message=result.summary())


def _ablate(root: Path, name: str, max_parallel: int, observer: StudyObserver) -> StudyResult:
    clock = time.monotonic()
    config = study_named(root, name)
    plan = plan_study(Inputs(root, observer.said), name, config, composed(root, config.scale))
    folder = write_study(root, plan).parent
    todo = pending(root, plan.runs)
    shared, why = sharing(config)
    observer.said(
        f"study {name}: {len(plan.arms)} arms, {len(config.seed_list)} seeds; {len(todo)} of {len(plan.runs)} runs are "
        f"to be made, {'sharing processes' if shared else 'a process each'} ({why}), at most {max_parallel} at once"
    )
    tracked = after.tracked_parent(root, folder)
    counter = Counter(root, plan.runs, todo)
    parts = divided(plan, todo, max_parallel, tracked) if todo else ()
    try:
        _make(root, plan, parts, max_parallel, counter, observer)
    except BaseException:
        after.stopped(root, tracked)
        raise
    failures = _failures(root, pending(root, plan.runs))
    notes = after.conclude(root, name, observer.said)
    made = len(todo) - len(pending(root, todo))
    # a run that two arms share counts for both
    missing = {run.digest for run in pending(root, plan.runs)}
    kept = sum(run.digest not in missing for run in plan.runs) - made
    return StudyResult(name, len(plan.runs), made, kept, failures, time.monotonic() - clock, notes)


def _make(
    root: Path, plan: Plan, parts: tuple[Part, ...], at_once: int, counter: Counter, observer: StudyObserver
) -> None:
    """Start a task for each part, at most `at_once` at a time, and tell how far the study is until all have ended."""
    groups = ProcessGroups()
    view = _View(root, plan)
    waiting = list(parts)
    running: list[PrefectFuture[Any]] = []
    futures: list[PrefectFuture[Any]] = []
    checked = False
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(process.submit(waiting[0].label, _work(root, waiting.pop(0), groups)))
                futures.append(running[-1])
            time.sleep(POLL_SECONDS)
            running = [future for future in running if not future.state.is_final()]
            count = counter.count()
            observer.counted(count)
            view.show(count)
            checked = checked or _has_metrics(root, plan)
    except BaseException as error:
        if not isinstance(error, QuintetError):
            observer.interrupted()
        groups.end_all()
        raise
    count = counter.count()
    observer.counted(count)
    view.show(count, last=True)
    for future in futures:
        # a defect in the task itself, not in a run, is not to be lost
        if isinstance(future.state.data, BaseException):
            raise future.state.data


def _has_metrics(root: Path, plan: Plan) -> bool:
    """Whether a run is finished, and has all metrics of the study; a misspelt one must not be found at the end.

    Raises UsageError when one is missing.
    """
    result = next(filter(None, (finished(root, run.digest) for run in plan.runs)), None)
    if result is None:
        return False
    absent = [metric for metric in (plan.config.metric, *plan.config.also) if metric not in result["metrics"]]
    if absent:
        raise UsageError(
            f"study {plan.name} compares by {absent[0]!r}, which its runs do not have; they have: "
            f"{', '.join(sorted(result['metrics']))}; mend it in ablations.yaml, the finished runs stay"
        )
    return True


def _work(root: Path, part: Part, groups: ProcessGroups) -> Work:
    return lambda: make_part(root, part, groups, on_line=lambda line: None)


def _failures(root: Path, runs: tuple[Run, ...]) -> tuple[tuple[str, str], ...]:
    said = ((run.label, account(root, run.digest)) for run in runs)
    return tuple((label, str(told["error"])) for label, told in said if told.get("state") == "failed")


class _View:
    """Progress on Prefect's pages: a bar, and a table of arms. A view: what they cannot show fails no study."""

    def __init__(self, root: Path, plan: Plan):
        self.root = root
        self.plan = plan
        self.bar: UUID | None = None
        self.shown: Count | None = None
        self.last = 0.0

    def show(self, count: Count, *, last: bool = False) -> None:
        if not last and (count == self.shown or time.monotonic() - self.last < VIEW_SECONDS):
            return
        self.shown, self.last = count, time.monotonic()
        key = f"study-{self.plan.name}"
        share = 100.0 * (count.done + count.failed) / max(1, count.total)
        try:
            if self.bar is None:
                made = create_progress_artifact(progress=share, key=f"{key}-progress", description=str(count))
                self.bar = made if isinstance(made, UUID) else None
            else:
                update_progress_artifact(self.bar, progress=share, description=str(count))
            create_markdown_artifact(
                markdown=states_markdown(self.root, self.plan, count), key=key, description="arms and their runs"
            )
        except Exception:
            logging.getLogger(__name__).warning("Prefect did not take the progress of this study", exc_info=True)
