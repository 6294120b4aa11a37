"""From the records of one training to its MLflow run: what they say is gathered here, and added by `fill`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.errors import RecordError
from components.files import canonical_json, files_below
from components.tracking import lineage, runs, store
from components.tracking.fill import NOTE_TAG, SOURCE_NAME_TAG, SOURCE_TYPE_TAG, DatasetInput, RunContent, fill
from components.tracking.records import (
    BUNDLE_TAG,
    RECORD_NAME,
    LogicalRun,
    Scalar,
    StageRecord,
    bundle_digest,
    read_history,
)
from components.tracking.runs import Placement, RunIdentity

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

SOURCE_COMMIT_TAG = "mlflow.source.git.commit"
LINEAGE_NAME = "lineage.json"

_VERDICT_FILE = "report.json"


@dataclass(frozen=True)
class Surroundings:
    """What the records do not say themselves.

    `info` is the execution that made them, `hashes` are DVC's (stage address -> deps or outs -> path -> hash). For a
    run that is none of the graph, `placement` says where it lies, and the rest is added to what its records say.
    """

    info: lineage.StageInfo | None
    hashes: dict[str, dict[str, dict[str, str]]]
    placement: Placement | None = None
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Upserted:
    """What happened to one run: 'created', 'updated', 'unchanged' or 'busy'; `notes` are for the user's eyes."""

    run: LogicalRun
    run_id: str
    state: str
    tags: dict[str, str]
    notes: tuple[str, ...] = ()


def of_the_graph(root: Path, logical: LogicalRun, train: StageRecord, lock: dict[str, Any]) -> Surroundings:
    """The surroundings of a run whose stages are those of dvc.yaml."""
    return Surroundings(
        lineage.stage_info(root, train),
        lineage.dvc_hashes(lock, logical),
        parameters={"config_sha256": lineage.config_sha256(train)},
    )


def upsert(client: MlflowClient, root: Path, logical: LogicalRun, train: StageRecord, around: Surroundings) -> Upserted:
    """Create or complete the MLflow run of `logical`, whose training record is `train`.

    A run that a living process is filling is left alone ('busy').
    """
    from filelock import FileLock

    record, place, info = train.record, around.placement, around.info
    identity = RunIdentity(logical.experiment, record.method, record.dataset, record.scale, logical.digest)
    experiment_id = store.experiment_id(client, root, place.experiment if place else identity.method)
    with FileLock(store.store_lock_file(root)):
        found = runs.find_run(client, experiment_id, logical.experiment, logical.digest, place)
        run = found or runs.create_run(client, experiment_id, identity, info.started if info else None, place)
    if found and runs.is_filled_elsewhere(run):
        note = f"{place.name if place else logical.name}: {runs.owner_name(run)} is filling it"
        return Upserted(logical, run.info.run_id, "busy", dict(run.data.tags), (note,))
    filled = fill(client, run, _content(root, run, logical, train, around))
    state = "created" if found is None else "updated" if filled.changes else "unchanged"
    return Upserted(logical, run.info.run_id, state, filled.tags, filled.notes)


def _content(root: Path, run: Run, logical: LogicalRun, train: StageRecord, around: Surroundings) -> RunContent:
    info = around.info
    histories = [
        read_history(stage.folder / stage.record.history)
        for stage in logical.stages
        if stage.record.history is not None
    ]
    return RunContent(
        name=around.placement.name if around.placement else logical.name,
        # what the records say stands before what is said about them.
        parameters={**around.parameters, **logical.merged("parameters")},
        metrics={**around.metrics, **logical.merged("metrics")},
        tags=_tags(root, run, logical, train, around),
        files={**artifact_files(logical), **around.files},
        texts={LINEAGE_NAME: canonical_json(around.hashes)},
        histories=histories,
        datasets=_datasets(logical, around.hashes),
        span=(info.started, info.ended) if info else None,
    )


def _datasets(logical: LogicalRun, hashes: dict[str, dict[str, dict[str, str]]]) -> list[DatasetInput]:
    known = {path: value for kinds in hashes.values() for paths in kinds.values() for path, value in paths.items()}
    uses = []
    for stage in logical.stages:
        # a record names the entry of the catalogue, which several data sets may be prepared from.
        path = f"data/prepared/{stage.record.dataset}"
        uses += [
            DatasetInput(use.name, use.digest, use.context, path, known.get(path)) for use in stage.record.datasets
        ]
    return uses


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


def _tags(root: Path, run: Run, logical: LogicalRun, train: StageRecord, around: Surroundings) -> dict[str, str]:
    record = train.record
    tags = RunIdentity(logical.experiment, record.method, record.dataset, record.scale, logical.digest).tags
    for stage in logical.stages:
        tags |= {f"stage.{stage.record.stage}.{key}": value for key, value in stage.record.tags.items()}
    tags |= lineage.hash_tags(around.hashes)
    commit = lineage.commit_tags(root, around.info, run.data.tags)
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
    placed = around.placement.tags if around.placement else {}
    return {**tags, **around.tags, **placed}


def _description(logical: LogicalRun, train: StageRecord) -> str:
    stages = ", ".join(stage.record.stage for stage in logical.stages)
    return (
        f"Experiment **{logical.experiment}**: method `{train.record.method}` on data set `{train.record.dataset}`, "
        f"scale `{train.record.scale}`.\n\n"
        f"Digest `{logical.digest}` stands for configuration, data, code and versions; the stages {stages} share it. "
        f"The whole configuration is `train/config.json`, the lineage `{LINEAGE_NAME}`, among the artifacts."
    )
