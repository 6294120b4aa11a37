"""One run of a study: trained, scored on the test rows, and left as files that say all a comparison needs.

A run ends whole or not at all. What depends on the moment (times, the process) is told beside it in `run_info/`.
"""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.config import TrainConfig
from components.errors import QuintetError, RecordError
from components.files import digest_of, files_below, read_json, replacing_folder, sha256_file, write_json
from components.stages.artifacts import dataset_reference
from components.stages.execution import Context, git_commit, one_line, package_versions
from components.stages.scoring import scoring_of
from components.stages.train import WEIGHTS_NAME, Trained, checkpoint_path, train
from components.studies.inputs import Inputs
from components.studies.plan import FORMAT, Run, run_digest

if TYPE_CHECKING:
    from components.stages.train import OpenLive

RUNS = Path("outputs/study_runs")
ACCOUNTS = Path("run_info/study_runs")
RESULT = "result.json"


@dataclass(frozen=True)
class RunOptions:
    """How runs are made, and nothing that changes what comes out: seconds at most, and processes at the same time."""

    experiment: str
    seconds: float | None = None
    at_once: int = 1


def run_folder(root: Path, digest: str) -> Path:
    return root / RUNS / digest


def account_path(root: Path, digest: str) -> Path:
    return root / ACCOUNTS / f"{digest}.json"


def finished(root: Path, digest: str) -> dict[str, Any] | None:
    """The result of the run with this digest, None when there is none. Raises RecordError for a file that is none."""
    path = run_folder(root, digest) / RESULT
    return (
        read_object(path, FORMAT, f"delete outputs/{RUNS.name}/{digest} and run the study again")
        if path.is_file()
        else None
    )


def read_object(path: Path, form: str, mend: str) -> dict[str, Any]:
    """A JSON object whose `format` is `form`. Raises RecordError, which ends with how to `mend` it."""
    try:
        content = read_json(path)
    except FileNotFoundError:
        raise RecordError(f"{path} does not exist; {mend}") from None
    except ValueError as error:
        raise RecordError(f"{path} is not JSON ({error}); {mend}") from None
    if not isinstance(content, dict) or content.get("format") != form:
        raise RecordError(f"{path} is not of the form {form}; {mend}")
    return content


def require_unchanged(root: Path, digest: str) -> None:
    """Raise RecordError when a file of a finished run is not as it was written."""
    folder = run_folder(root, digest)
    mend = f"delete outputs/{RUNS.name}/{digest} and run the study again"
    written = read_object(folder / "manifest.json", FORMAT, mend)["files"]
    found = {path.relative_to(folder).as_posix(): path for path in files_below(folder) if path.name != "manifest.json"}
    for name in {*written, *found}:
        if name not in found or sha256_file(found[name]) != written.get(name):
            raise RecordError(f"{folder / name} was changed after it was written; {mend}")


def account(root: Path, digest: str) -> dict[str, Any]:
    """What the last attempt at this run said of itself: state, times, error; empty when there was none."""
    path = account_path(root, digest)
    try:
        content = read_json(path) if path.is_file() else {}
    except ValueError:
        # a note, no result: one that cannot be read is as good as none
        content = {}
    return content if isinstance(content, dict) else {}


def perform(inputs: Inputs, run: Run, options: RunOptions, open_live: "OpenLive", *, warm: bool = False) -> None:
    """Train and score `run`, unless it is finished; a checkpoint of an earlier attempt is taken up.

    `warm`: whether this process has made a run before, which the time of this one must be read with.
    Raises what training raises, and QuintetError when code or data changed since the run was planned.
    """
    root = inputs.root
    target = run_folder(root, run.digest)
    if (target / RESULT).is_file():
        return
    said: dict[str, Any] = {
        "state": "running",
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "pid": os.getpid(),
        "git_commit": git_commit(root),
        "at_once": options.at_once,
        "warm": warm,
        "error": None,
    }
    write_json(account_path(root, run.digest), said)
    clock = time.monotonic()
    notes: dict[str, Any] = {}
    try:
        with replacing_folder(target) as folder:
            context = inputs.context(run.params, f"train@{options.experiment}", folder / "train")
            context.folder.mkdir()
            _require_digest(inputs, run, options.experiment)
            context.notes = notes
            trained = train(context, run.digest, open_live, options.seconds)
            _write_result(context, run, trained, folder)
            # code and data as they are now: what was edited meanwhile belongs to neither version
            _require_digest(Inputs(root), run, options.experiment)
        shutil.rmtree(checkpoint_path(root, run.digest).parent, ignore_errors=True)
        said["state"] = "succeeded"
    except BaseException as error:
        message = str(error) if isinstance(error, QuintetError) else f"{type(error).__name__}: {error}"
        if not isinstance(error, Exception):
            message = "interrupted"
        said |= {"state": "failed", "error": one_line(message)}
        raise
    finally:
        spent = {"seconds": round(time.monotonic() - clock, 3)}
        write_json(account_path(root, run.digest), {**said, **notes, **spent})


def _require_digest(inputs: Inputs, run: Run, experiment: str) -> None:
    from components.training.core.device import choose_device

    device = choose_device(run.params["experiments"][experiment]["training"]["accelerator"]).accelerator
    if run_digest(inputs, run.params, experiment, device) != run.digest:
        raise QuintetError(
            f"code, data or device changed since the study was planned, so run {run.label} would belong to neither "
            "version; start the study again"
        )


def _write_result(context: Context, run: Run, trained: Trained, folder: Path) -> None:
    from components.tracking.records import read_record, write_record
    from components.training.core.costs import network_costs

    config: TrainConfig = trained.config
    weights = context.folder / WEIGHTS_NAME
    scored = scoring_of(config).score(config, weights, trained.data)
    (folder / "evaluate").mkdir()
    record = read_record(context.folder / "record.json")
    scores = record.model_copy(
        update={
            "stage": "evaluate",
            "parameters": {},
            "metrics": scored.metrics,
            "history": None,
            "artifacts": [],
            "datasets": [type(record.datasets[0])(**dataset_reference(context, config, "test"))],
        }
    )
    write_record(folder / "evaluate", scores)
    costs = network_costs(trained.module.network, trained.data.train.__getitems__([0]))
    metrics = {**record.metrics, **scores.metrics}
    result: dict[str, Any] = {
        "format": FORMAT,
        "digest": run.digest,
        "experiment": context.name,
        "method": config.method,
        "dataset": config.dataset,
        "scale": run.params["scale"],
        "seed": run.seed,
        "settings": dict(run.settings),
        "metrics": metrics,
        "costs": {
            "parameters": costs.parameters,
            "multiply_adds": costs.multiply_adds,
            "steps": trained.result.steps,
            "epochs": config.training.epochs,
            "rows": len(trained.data.train),
        },
        "data_order": trained.result.data_order,
        "output": digest_of([sha256_file(weights), trained.result.history, metrics]),
        "device": trained.result.device.accelerator,
        "code": digest_of({path: digest for path, digest in context.input_digests.items() if path not in context.made}),
        "versions": package_versions(),
        "data": {
            path: {"sha256": context.input_digests[path], "dvc": dvc_digest(made)}
            for path, made in context.made.items()
        },
    }
    # a study may have hundreds of runs, and no reader of them asks for weights
    weights.unlink()
    write_json(folder / RESULT, result)
    files = {path.relative_to(folder).as_posix(): sha256_file(path) for path in files_below(folder)}
    write_json(folder / "manifest.json", {"format": FORMAT, "files": files})


def dvc_digest(folder: Path) -> str:
    """The digest under which DVC knows a folder of these files, `MD5.dir`: the one in dvc.lock when it is tracked."""
    from dvc_data.hashfile.build import build
    from dvc_data.hashfile.db import HashFileDB
    from dvc_objects.fs.local import LocalFileSystem

    files: Any = LocalFileSystem()  # type: ignore[no-untyped-call]
    # nothing is stored: DVC wants to know where it would be
    _, _, tree = build(HashFileDB(files, str(folder)), str(folder), files, "md5", dry_run=True)
    return str(tree.hash_info.value)


def pending(root: Path, runs: Sequence[Run]) -> tuple[Run, ...]:
    """The runs without a result, each digest once."""
    waiting: Mapping[str, Run] = {run.digest: run for run in reversed(runs) if finished(root, run.digest) is None}
    return tuple(reversed(tuple(waiting.values())))
