"""The process that makes some runs of a study, one after the other; `quintet study-part` starts it."""

import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from components.errors import QuintetError
from components.studies.inputs import Inputs
from components.studies.running import perform
from pipelines.studies.parts import Part, read_part

if TYPE_CHECKING:
    from components.stages.train import OpenLive
    from components.studies.plan import Run
    from components.tracking.live import LiveRun
    from components.tracking.records import Scalar
    from components.tracking.runs import RunIdentity


def work(root: Path, path: Path) -> int:
    """Make the runs of the part described by the file `path`. Returns how many failed; each says why in its account."""
    part = read_part(path)
    inputs = Inputs(root, lambda line: print(line, flush=True))
    failed = 0
    for number, run in enumerate(part.runs, start=1):
        print(f"run {number} of {len(part.runs)}: {run.label}", flush=True)
        try:
            perform(inputs, run, part.options, live(root, part, run), warm=number > 1)
        except QuintetError as error:
            failed += 1
            print(f"error: {run.label}: {error}", file=sys.stderr, flush=True)
        except Exception:  # noqa: BLE001
            # a defect in one arm: its log keeps where, and the others go on
            failed += 1
            print(f"error: {run.label}:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
    return failed


def live(root: Path, part: Part, run: "Run") -> "OpenLive":
    """How a run of the study is streamed to the tracking store: below the study's own run there."""
    from components.tracking.live import LiveRun
    from components.tracking.studies import child_placement

    def open_live(identity: "RunIdentity", parameters: "Mapping[str, Scalar]") -> "LiveRun":
        if part.parent is None:
            # without the study's own run there is nothing to stand below
            return LiveRun(root, identity, parameters, tracked=False)
        return LiveRun(
            root, identity, parameters, placement=child_placement(part.study, run.arm, run.seed, part.parent)
        )

    return open_live
