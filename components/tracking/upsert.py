"""Bring one MLflow run to the state its records describe, adding only what is missing."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.errors import RecordError
from components.files import canonical_json, digest_of, files_below, sha256_bytes, sha256_file
from components.tracking import lineage, runs, store
from components.tracking.records import BUNDLE_TAG, RECORD_NAME, LogicalRun, StageRecord, bundle_digest, read_history
from components.tracking.runs import Point, RunIdentity

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

ARTIFACTS_TAG = "quintet.artifacts_sha256"
NOTE_TAG = "mlflow.note.content"
SOURCE_NAME_TAG = "mlflow.source.name"
SOURCE_TYPE_TAG = "mlflow.source.type"
SOURCE_COMMIT_TAG = "mlflow.source.git.commit"
LINEAGE_NAME = "lineage.json"
CONTEXT_TAG = "mlflow.data.context"

# tags whose key says which stage or file they speak of: one that is no longer described is removed.
_DERIVED_PREFIXES = ("dvc.", "stage.", "changed.")
# MLflow's field for a data set's digest holds this many characters; the whole one is a tag beside it.
_DATASET_DIGEST_LENGTH = 36
_VERDICT_FILE = "report.json"


@dataclass(frozen=True)
class Upserted:
    """What happened to one run: 'created', 'updated', 'unchanged' or 'busy'; `notes` are for the user's eyes."""

    run: LogicalRun
    run_id: str
    state: str
    tags: dict[str, str]
    notes: tuple[str, ...] = ()


@dataclass
class _Work:
    """One upsert in progress."""

    client: MlflowClient
    root: Path
    logical: LogicalRun
    train: StageRecord
    run: Run
    changes: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def run_id(self) -> str:
        return str(self.run.info.run_id)


def upsert(client: MlflowClient, root: Path, logical: LogicalRun, train: StageRecord, lock: dict[str, Any]) -> Upserted:
    """Create or complete the MLflow run of `logical`, whose training record is `train`.

    A run that a living process is filling is left alone ('busy').
    """
    from filelock import FileLock

    info = lineage.stage_info(root, train)
    identity = RunIdentity(
        logical.experiment, train.record.method, train.record.dataset, train.record.scale, logical.digest
    )
    experiment_id = store.experiment_id(client, root, identity.method)
    with FileLock(store.store_lock_file(root)):
        found = runs.find_run(client, experiment_id, logical.experiment, logical.digest)
        run = found or runs.create_run(client, experiment_id, identity, info.started if info else None)
    if found and run.info.status == "RUNNING" and runs.owner_state(run.data.tags) in ("alive", "elsewhere"):
        note = f"{logical.name}: process {run.data.tags[runs.PID_TAG]} on {run.data.tags[runs.HOST_TAG]} is filling it"
        return Upserted(logical, run.info.run_id, "busy", dict(run.data.tags), (note,))
    work = _Work(client, root, logical, train, run)
    hashes = lineage.dvc_hashes(lock, logical)
    changed_parameters = _parameters(work)
    _history(work, info)
    _final_metrics(work)
    _datasets(work)
    artifacts_digest = _artifacts(work, hashes)
    tags = _tags(work, identity, info, hashes) | changed_parameters | {ARTIFACTS_TAG: artifacts_digest}
    _write_changed_tags(work, tags)
    _finish(work, info)
    state = "created" if found is None else "updated" if work.changes else "unchanged"
    return Upserted(logical, work.run_id, state, tags, tuple(work.notes))


def _parameters(work: _Work) -> dict[str, str]:
    wanted = work.logical.merged("parameters") | {"config_sha256": lineage.config_sha256(work.train)}
    present = work.run.data.params
    work.changes += len(wanted.keys() - present.keys())
    changed = runs.write_missing_parameters(work.client, work.run_id, present, wanted)
    for key, text in changed.items():
        work.notes.append(
            f"{work.logical.name}: parameter {key} is now {text}, MLflow keeps {present[key]}; see tag changed.{key}"
        )
    # a parameter in MLflow is for ever; one of a later stage may change while the training stays the same.
    return {f"changed.{key}": text for key, text in changed.items()}


def _history(work: _Work, info: lineage.StageInfo | None) -> None:
    for stage in work.logical.stages:
        if stage.record.history is None:
            continue
        history = read_history(stage.folder / stage.record.history)
        keys = {key for _, metrics in history for key in metrics}
        known = runs.known_points(work.client, work.run, keys)
        # without a live run the true times are lost: the points are spread evenly over what is known of its duration.
        began = work.run.info.start_time
        span = (info.started, info.ended) if info else (began, work.run.info.end_time or began)
        missing = [
            Point(key, step, value, span[0] + (span[1] - span[0]) * (number + 1) // len(history))
            for number, (step, metrics) in enumerate(history)
            for key, value in metrics.items()
            if (key, step, value) not in known
        ]
        work.changes += runs.add_points(work.client, work.run_id, missing)
    if work.changes:
        work.run = work.client.get_run(work.run_id)


def _final_metrics(work: _Work) -> None:
    latest = work.run.data.metrics
    points = []
    for key, value in work.logical.merged("metrics").items():
        if key in latest and latest[key] == value:
            continue
        # MLflow shows the value of the highest step, and of these the newest.
        past = work.client.get_metric_history(work.run_id, key) if key in latest else []
        step = max((metric.step for metric in past), default=0)
        newest = max((metric.timestamp for metric in past), default=work.run.info.start_time)
        points.append(Point(key, step, value, max(newest + 1, work.run.info.start_time)))
    work.changes += runs.add_points(work.client, work.run_id, points)


def _datasets(work: _Work) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    inputs = work.run.inputs.dataset_inputs if work.run.inputs else []
    present = {(entry.dataset.name, entry.dataset.digest) for entry in inputs}
    wanted: dict[tuple[str, str], DatasetInput] = {}
    for stage in work.logical.stages:
        for use in stage.record.datasets:
            key = (use.name, use.digest[:_DATASET_DIGEST_LENGTH])
            if key in present or key in wanted:
                continue
            source = json.dumps({"uri": f"data/prepared/{use.name}"})
            profile = json.dumps({"digest": use.digest})
            dataset = Dataset(*key, source_type="local", source=source, profile=profile)
            tags = [InputTag(CONTEXT_TAG, use.context), InputTag("quintet.digest", use.digest)]
            wanted[key] = DatasetInput(dataset, tags)
    if wanted:
        work.client.log_inputs(work.run_id, datasets=list(wanted.values()))
        work.changes += len(wanted)


def artifact_files(logical: LogicalRun) -> dict[str, Path]:
    """Every file the run keeps, by its path among the run's artifacts: STAGE/..., and bundle/DIGEST/... .

    A bundle lies under its own digest, so that one already registered is never overwritten by a later export.
    """
    files: dict[str, Path] = {}
    for stage in logical.stages:
        record = stage.record
        extra = [name for name in (RECORD_NAME, "manifest.json", _VERDICT_FILE) if (stage.folder / name).is_file()]
        for name in dict.fromkeys([*record.artifacts, *extra, *([record.history] if record.history else [])]):
            path = stage.folder / name
            if not path.exists():
                raise RecordError(
                    f"{stage.folder / RECORD_NAME}: names {name}, which is gone; `dvc checkout` or a run of "
                    f"{stage.address} brings it back"
                )
            for file in files_below(path) if path.is_dir() else [path]:
                inside = file.relative_to(stage.folder)
                if inside.parts[0] != "bundle":
                    files[f"{record.stage}/{inside.as_posix()}"] = file
    bundle = bundle_folder(logical)
    if bundle is not None:
        files |= {f"{bundle_path(bundle)}/{file.relative_to(bundle).as_posix()}": file for file in files_below(bundle)}
    return files


def bundle_folder(logical: LogicalRun) -> Path | None:
    export = logical.stage("export")
    folder = export.folder / "bundle" if export else None
    return folder if folder is not None and (folder / "manifest.json").is_file() else None


def bundle_path(bundle: Path) -> str:
    return f"bundle/{bundle_digest(bundle)[:16]}"


def _artifacts(work: _Work, hashes: dict[str, Any]) -> str:
    files = artifact_files(work.logical)
    lineage_text = canonical_json(hashes)
    digests = {name: sha256_file(path) for name, path in files.items()}
    digests[LINEAGE_NAME] = sha256_bytes(lineage_text.encode())
    digest = digest_of(digests)
    same_content = work.run.data.tags.get(ARTIFACTS_TAG) == digest
    stored = _stored_sizes(work.client, work.run_id)
    with tempfile.TemporaryDirectory() as scratch:
        files[LINEAGE_NAME] = Path(scratch) / LINEAGE_NAME
        files[LINEAGE_NAME].write_text(lineage_text, encoding="utf-8")
        for name, path in sorted(files.items()):
            if same_content and stored.get(name) == path.stat().st_size:
                continue
            folder = name.rpartition("/")[0] or None
            work.client.log_artifact(work.run_id, str(path), folder)
            work.changes += 1
    return digest


def _stored_sizes(client: MlflowClient, run_id: str, folder: str | None = None) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for entry in client.list_artifacts(run_id, folder):
        if entry.is_dir:
            sizes |= _stored_sizes(client, run_id, entry.path)
        else:
            sizes[entry.path] = entry.file_size or 0
    return sizes


def _tags(work: _Work, identity: RunIdentity, info: lineage.StageInfo | None, hashes: dict[str, Any]) -> dict[str, str]:
    logical, train = work.logical, work.train
    tags = dict(identity.tags)
    for stage in logical.stages:
        tags |= {f"stage.{stage.record.stage}.{key}": value for key, value in stage.record.tags.items()}
    tags |= lineage.hash_tags(hashes)
    commit = lineage.commit_tags(work.root, info, work.run.data.tags)
    tags |= commit
    if lineage.COMMIT_TAG in commit:
        tags[SOURCE_COMMIT_TAG] = commit[lineage.COMMIT_TAG]
    bundle = bundle_folder(logical)
    if bundle is not None:
        tags[f"quintet.{BUNDLE_TAG}"] = bundle_digest(bundle)
    tags |= {
        lineage.CONFIG_TAG: lineage.config_sha256(train),
        SOURCE_NAME_TAG: f"quintet stage {train.address}",
        SOURCE_TYPE_TAG: "LOCAL",
        NOTE_TAG: _description(logical, train),
    }
    return tags


def _description(logical: LogicalRun, train: StageRecord) -> str:
    stages = ", ".join(stage.record.stage for stage in logical.stages)
    return (
        f"Experiment **{logical.experiment}**: method `{train.record.method}` on data set `{train.record.dataset}`, "
        f"scale `{train.record.scale}`.\n\n"
        f"Digest `{logical.digest}` stands for configuration, data, code and versions; the stages {stages} share it. "
        f"The whole configuration is `train/config.json`, the lineage `{LINEAGE_NAME}`, among the artifacts."
    )


def _write_changed_tags(work: _Work, tags: dict[str, str]) -> None:
    present = work.run.data.tags
    changed = {key: value for key, value in tags.items() if present.get(key) != value}
    if changed:
        runs.write_tags(work.client, work.run_id, changed)
    stale = [key for key in present if key.startswith(_DERIVED_PREFIXES) and key not in tags]
    runs.delete_tags(work.client, work.run, stale)
    work.changes += len(changed) + len(stale)


def _finish(work: _Work, info: lineage.StageInfo | None) -> None:
    # the record exists, so the training came to its end, whatever the store last heard of it.
    if work.run.info.status != "FINISHED":
        runs.end_run(work.client, work.run_id, "FINISHED", at=info.ended if info else None)
        work.changes += 1
