"""`quintet ablate`, `quintet compare` and `quintet studies`, with a terminal in front of them."""

import logging
import os
from pathlib import Path

from rich.console import Console
from rich.table import Table

from components.errors import QuintetError, UsageError
from components.studies.config import StudyConfig, load_studies
from components.studies.store import gather, read_study
from pipelines.embedded import start_server_apart
from pipelines.locking import hold_run_lock
from pipelines.services import api_url
from pipelines.studies.progress import STUDY_OBSERVER, StudyConsole
from pipelines.studies.results import load_result, result_path
from pipelines.studies.tables import print_comparison

MOST_FAILURES = 5


class StudyFailedError(QuintetError):
    """The flow ended before it had a result; the message is its last word."""


def run_study(root: Path, console: Console, name: str, max_parallel: int, wait: bool) -> int:
    """Run the flow `ablate` and print what came of it. Returns 0, or 1 when a run failed or nothing can be compared."""
    from components.studies.config import study_named

    # a name that does not exist should not cost the start of a Prefect server
    study_named(root, name)
    observer = StudyConsole(console)
    with hold_run_lock(root, wait=wait, on_wait=observer.waiting, guard=True):
        server = api_url(root)
        if server:
            os.environ["PREFECT_API_URL"] = server
        token = STUDY_OBSERVER.set(observer)
        try:
            _run_flow(root, name, max_parallel, observer)
        finally:
            STUDY_OBSERVER.reset(token)
        result = load_result(root, name)
        compared = _show(root, console, name)
    console.print(result.summary(), style="green" if result.succeeded else "bold red", markup=False, soft_wrap=True)
    for label, why in result.failed[:MOST_FAILURES]:
        console.print(f"error: {label}: {why}", style="bold red", markup=False, soft_wrap=True)
    if len(result.failed) > MOST_FAILURES:
        more = f"error: and {len(result.failed) - MOST_FAILURES} more failed, see {result_path(root, name)}"
        console.print(more, style="bold red", markup=False, soft_wrap=True)
    for note in result.notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)
    return 0 if result.succeeded and compared else 1


def _show(root: Path, console: Console, name: str) -> bool:
    """Print the comparison, made anew from the files; False where it is refused, which the notes tell of."""
    from components.studies.comparing import compare_study

    try:
        print_comparison(root, console, compare_study(root, name))
    except QuintetError:
        return False
    return True


def _run_flow(root: Path, name: str, max_parallel: int, observer: StudyConsole) -> None:
    from pipelines.studies.flow import ablate

    start_server_apart()
    # what is there afterwards is of this start
    result_path(root, name).unlink(missing_ok=True)
    # each failure is told by our own lines; Prefect would add its own, with tracebacks
    for logger in ("prefect.task_runs", "prefect.flow_runs"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    state = ablate(name, max_parallel=max_parallel, return_state=True)
    if observer.refusal is not None:
        raise observer.refusal
    # an exception that the flow did not expect is raised here, with its traceback
    if isinstance(getattr(state.data, "result", state.data), BaseException):
        state.result(raise_on_failure=True)
    if not result_path(root, name).is_file():
        raise StudyFailedError(state.message or f"the flow ended in state {state.name} without a result")


def compare(root: Path, console: Console, name: str, metric: str | None, minimise: bool) -> int:
    """Compare the arms of a study anew from its files, and print the tables."""
    from components.studies.comparing import compare_study

    if minimise and metric is None:
        raise UsageError("--minimise is said of another metric: name it by --metric")
    comparison = compare_study(root, name, metric, "minimise" if minimise else None)
    print_comparison(root, console, comparison, metric)
    for note in comparison.notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)
    return 0


def print_studies(root: Path, console: Console) -> None:
    """The studies of ablations.yaml: what each asks, how large it is, and how much of it has been run."""
    table = Table(title_justify="left")
    for column in ("study", "question", "scale", "arms x seeds", "runs done"):
        table.add_column(column, overflow="fold", no_wrap=column == "study")
    for name, study in load_studies(root).items():
        size = f"{len(study.arm_settings)} x {len(study.seed_list)}"
        table.add_row(name, study.question, study.scale, size, _done(root, name, study))
    console.print(table)


def _done(root: Path, name: str, config: StudyConfig) -> str:
    """How many runs of the study as it was last started have a result."""
    try:
        study = read_study(root, name)
        gathered = gather(root, study)
    except UsageError:
        return "0"
    except QuintetError as error:
        return str(error)
    done = sum(len(runs) for runs in gathered.results.values())
    arms = {arm["name"]: arm["settings"] for arm in study["arms"]}
    changed = arms != config.arm_settings or study["seeds"] != list(config.seed_list)
    return f"{done} of {done + len(gathered.missing)}" + (", before it was changed" if changed else "")
