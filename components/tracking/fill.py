"""Bring one MLflow run to the state that is described, adding only what is missing."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from components.files import digest_of, sha256_bytes, sha256_file
from components.tracking import runs
from components.tracking.records import Scalar
from components.tracking.runs import Point

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

ARTIFACTS_TAG = "quintet.artifacts_sha256"
NOTE_TAG = "mlflow.note.content"
SOURCE_NAME_TAG = "mlflow.source.name"
SOURCE_TYPE_TAG = "mlflow.source.type"
CONTEXT_TAG = "mlflow.data.context"
DATASET_DIGEST_TAG = "quintet.digest"
DVC_HASH_TAG = "dvc.md5"

# tags whose key says which stage or file they speak of: one that is no longer described is removed.
_DERIVED_PREFIXES = ("dvc.", "stage.", "changed.")
# MLflow's field for a data set's digest holds this many characters; the whole one is a tag beside it.
_DATASET_DIGEST_LENGTH = 36

History = Sequence[tuple[int, Mapping[str, float]]]


@dataclass(frozen=True)
class DatasetInput:
    """A data set that a run read: `dvc` is DVC's hash of the folder `path`, None when DVC does not know it."""

    name: str
    digest: str
    context: str
    path: str
    dvc: str | None


@dataclass(frozen=True)
class RunContent:
    """All that a run is to hold, whichever files it was read from; `name` is how notes call the run.

    `files` and `texts` become artifacts under their names. `span` is when the run began and ended, in milliseconds
    since the epoch, None when it is not known. A `reason` is given for any other status than FINISHED.
    """

    name: str
    parameters: Mapping[str, Scalar]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    files: Mapping[str, Path]
    texts: Mapping[str, str] = field(default_factory=dict)
    histories: Sequence[History] = ()
    datasets: Sequence[DatasetInput] = ()
    span: tuple[int, int] | None = None
    status: Literal["FINISHED", "FAILED"] = "FINISHED"
    reason: str | None = None


@dataclass(frozen=True)
class Filled:
    """What filling a run did: number of changes, its tags, and notes for the user's eyes."""

    changes: int
    tags: dict[str, str]
    notes: tuple[str, ...]


@dataclass
class _Work:
    """One filling in progress."""

    client: MlflowClient
    content: RunContent
    run: Run
    changes: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def run_id(self) -> str:
        return str(self.run.info.run_id)


def fill(client: MlflowClient, run: Run, content: RunContent) -> Filled:
    """Add to `run` what it lacks of `content`, and end it. A second time changes nothing."""
    work = _Work(client, content, run)
    changed_parameters = _parameters(work)
    _histories(work)
    _final_metrics(work)
    _datasets(work)
    tags = {**content.tags, **changed_parameters, ARTIFACTS_TAG: _artifacts(work)}
    _write_changed_tags(work, tags)
    _finish(work)
    return Filled(work.changes, tags, tuple(work.notes))


def _parameters(work: _Work) -> dict[str, str]:
    wanted, present = work.content.parameters, work.run.data.params
    work.changes += len(wanted.keys() - present.keys())
    changed = runs.write_missing_parameters(work.client, work.run_id, present, wanted)
    for key, text in changed.items():
        work.notes.append(
            f"{work.content.name}: parameter {key} is now {text}, MLflow keeps {present[key]}; see tag changed.{key}"
        )
    # a parameter in MLflow is for ever; one of a later stage may change while the training stays the same.
    return {f"changed.{key}": text for key, text in changed.items()}


def _histories(work: _Work) -> None:
    for history in work.content.histories:
        keys = {key for _, metrics in history for key in metrics}
        known = runs.known_points(work.client, work.run, keys)
        # without a live run the true times are lost: the points are spread evenly over what is known of its duration.
        began = work.run.info.start_time
        span = work.content.span or (began, work.run.info.end_time or began)
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
    for key, value in work.content.metrics.items():
        if key in latest and latest[key] == value:
            continue
        # MLflow shows the value of the highest step, and of these the newest.
        past = work.client.get_metric_history(work.run_id, key) if key in latest else []
        step = max((metric.step for metric in past), default=0)
        newest = max((metric.timestamp for metric in past), default=work.run.info.start_time)
        points.append(Point(key, step, value, max(newest + 1, work.run.info.start_time)))
    work.changes += runs.add_points(work.client, work.run_id, points)


def _datasets(work: _Work) -> None:
    from mlflow import entities

    inputs = work.run.inputs.dataset_inputs if work.run.inputs else []
    present = {(entry.dataset.name, entry.dataset.digest) for entry in inputs}
    wanted: dict[tuple[str, str], entities.DatasetInput] = {}
    for use in work.content.datasets:
        key = (use.name, use.digest[:_DATASET_DIGEST_LENGTH])
        # MLflow never changes an input once it is there, nor its tags.
        if key in present or key in wanted:
            continue
        source = json.dumps({"uri": use.path})
        profile = json.dumps({"digest": use.digest})
        tags = {CONTEXT_TAG: use.context, DATASET_DIGEST_TAG: use.digest}
        if use.dvc is not None:
            tags[DVC_HASH_TAG] = use.dvc
        wanted[key] = entities.DatasetInput(
            entities.Dataset(*key, source_type="local", source=source, profile=profile),
            [entities.InputTag(name, value) for name, value in tags.items()],
        )
    if wanted:
        work.client.log_inputs(work.run_id, datasets=list(wanted.values()))
        work.changes += len(wanted)


def _artifacts(work: _Work) -> str:
    files, texts = dict(work.content.files), work.content.texts
    digests = {name: sha256_file(path) for name, path in files.items()}
    digests |= {name: sha256_bytes(text.encode()) for name, text in texts.items()}
    digest = digest_of(digests)
    same_content = work.run.data.tags.get(ARTIFACTS_TAG) == digest
    stored = stored_sizes(work.client, work.run_id)
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in texts.items():
            files[name] = Path(scratch) / name
            files[name].write_text(text, encoding="utf-8")
        for name, path in sorted(files.items()):
            if same_content and stored.get(name) == path.stat().st_size:
                continue
            folder = name.rpartition("/")[0] or None
            work.client.log_artifact(work.run_id, str(path), folder)
            work.changes += 1
    return digest


def stored_sizes(client: MlflowClient, run_id: str, folder: str | None = None) -> dict[str, int]:
    """Size in bytes of every artifact of a run, by its path."""
    sizes: dict[str, int] = {}
    for entry in client.list_artifacts(run_id, folder):
        if entry.is_dir:
            sizes |= stored_sizes(client, run_id, entry.path)
        else:
            sizes[entry.path] = entry.file_size or 0
    return sizes


def _write_changed_tags(work: _Work, tags: dict[str, str]) -> None:
    present = work.run.data.tags
    changed = {key: value for key, value in tags.items() if present.get(key) != value}
    if changed:
        runs.write_tags(work.client, work.run_id, changed)
    stale = [key for key in present if key.startswith(_DERIVED_PREFIXES) and key not in tags]
    runs.delete_tags(work.client, work.run, stale)
    work.changes += len(changed) + len(stale)


def _finish(work: _Work) -> None:
    # what is described has come to its end, whatever the store last heard of it.
    content = work.content
    told = work.run.data.tags.get(runs.END_REASON_TAG)
    if work.run.info.status == content.status and (content.reason is None or told == content.reason):
        return
    # a run that was opened for what had been made before has no length, and no negative one.
    ended = max(content.span[1], work.run.info.start_time) if content.span else None
    runs.end_run(work.client, work.run_id, content.status, content.reason, ended)
    work.changes += 1
