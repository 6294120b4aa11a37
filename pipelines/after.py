"""What follows the graph: steps that are no stages, because they make nothing that another stage reads."""

import time
import traceback
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from components.errors import QuintetError
from components.files import write_text
from pipelines.runner import Outcome, StageResult, log_path


class After(StrEnum):
    """The steps after the graph, in their order."""

    SYNC = "sync"
    REPORT = "report"


def synchronise(root: Path) -> str:
    """Bring the tracking store and the model registry up to the outputs; returns what was done in one line."""
    from components.tracking.sync import synchronise as synchronise_store

    report = synchronise_store(root)
    counts = {
        "new runs": report.created,
        "completed runs": report.updated,
        "unchanged runs": report.unchanged,
        "runs still in use": report.busy,
        "dead runs ended": report.swept,
        "new model versions": report.registered,
    }
    said = [", ".join(f"{len(names)} {what}" for what, names in counts.items() if names) or "nothing recorded yet"]
    said += [f"{run} is not registered: {why}" for run, why in report.not_registered]
    said += [f"left out, its training has been replaced: {address}" for address in report.stale]
    said += [str(study) for study in report.studies]
    return "; ".join([*said, *report.notes])


def write_report(root: Path) -> str:
    """Write the report of all experiments; returns where it is."""
    from components.stages.report import write_report as write

    return str(write(root).relative_to(root))


# Each is a function of the root; what it returns is shown as one line. Heavy imports wait inside.
STEPS: dict[After, Callable[[Path], str]] = {After.SYNC: synchronise, After.REPORT: write_report}


def run_step(root: Path, step: After) -> StageResult:
    """Run one step. It may fail, and then says why, but it never takes the stages' results with it."""
    started = time.monotonic()
    try:
        said = STEPS[step](root)
    except QuintetError as error:
        return StageResult(step, Outcome.FAILED, time.monotonic() - started, str(error))
    except Exception as error:  # noqa: BLE001
        # a defect of ours: the table shows it in a line, the log keeps where it happened
        write_text(log_path(root, step), traceback.format_exc())
        why = " ".join(f"{type(error).__name__}: {error}".split())
        return StageResult(step, Outcome.FAILED, time.monotonic() - started, why)
    return StageResult(step, Outcome.RAN, time.monotonic() - started, said)
