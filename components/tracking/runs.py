"""Finding, creating, owning and ending one MLflow run, and adding the points it lacks. Explicit run ids only.

A run belongs to (experiment, digest). While it is RUNNING its tags say which process fills it; the pair of process
id and creation time tells a living owner from a stranger who was given the same id later.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from components.tracking.records import Scalar, parameter_text, run_name

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

DIGEST_TAG = "quintet.digest"
EXPERIMENT_TAG = "quintet.experiment"
METHOD_TAG = "quintet.method"
DATASET_TAG = "quintet.dataset"
SCALE_TAG = "quintet.scale"
END_REASON_TAG = "quintet.end_reason"
PID_TAG = "quintet.pid"
PID_CREATED_TAG = "quintet.pid_created"
HOST_TAG = "quintet.host"
OWNER_TAGS = (PID_TAG, PID_CREATED_TAG, HOST_TAG)
# MLflow shows a run with this tag below the run that it names.
PARENT_TAG = "mlflow.parentRunId"

# limits of one log_batch request.
METRICS_PER_BATCH = 1000
TAGS_PER_BATCH = 100

# process creation times are read from a clock in ticks of 10 ms that may be adjusted while the machine runs.
_CREATION_TOLERANCE_SECONDS = 2.0


@dataclass(frozen=True)
class RunIdentity:
    """What names a run and how it is found again."""

    experiment: str
    method: str
    dataset: str
    scale: str
    digest: str

    @property
    def name(self) -> str:
        return run_name(self.experiment, self.digest)

    @property
    def tags(self) -> dict[str, str]:
        return {
            DIGEST_TAG: self.digest,
            EXPERIMENT_TAG: self.experiment,
            METHOD_TAG: self.method,
            DATASET_TAG: self.dataset,
            SCALE_TAG: self.scale,
        }


@dataclass(frozen=True)
class Placement:
    """Where a run lies that is none of the graph: `experiment` below quintet/, its name, and what sets it apart there.

    The tags are part of what the run is found by: one digest may lie in several studies, below several parents.
    """

    experiment: str
    name: str
    tags: Mapping[str, str]


def owner_tags() -> dict[str, str]:
    """Tags that say: this process fills the run."""
    process = psutil.Process()
    return {PID_TAG: str(process.pid), PID_CREATED_TAG: repr(process.create_time()), HOST_TAG: socket.gethostname()}


def owner_state(tags: Mapping[str, str]) -> str:
    """'alive', 'dead', 'self', 'elsewhere' (another host, which cannot be asked) or 'none' (no owner named)."""
    if any(tag not in tags for tag in OWNER_TAGS):
        return "none"
    if tags[HOST_TAG] != socket.gethostname():
        return "elsewhere"
    try:
        pid, created = int(tags[PID_TAG]), float(tags[PID_CREATED_TAG])
        process = psutil.Process(pid)
        same = abs(process.create_time() - created) <= _CREATION_TOLERANCE_SECONDS
        # a zombie has ended; only its parent has not noticed.
        alive = same and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, ValueError):
        return "dead"
    if not alive:
        return "dead"
    return "self" if pid == os.getpid() else "alive"


def find_run(
    client: MlflowClient, experiment_id: str, experiment: str, digest: str, placement: Placement | None = None
) -> Run | None:
    """The run of (experiment, digest), and of the placement's tags if there is one; the oldest if a race made two."""
    tags = {DIGEST_TAG: digest, EXPERIMENT_TAG: experiment}
    return find_tagged(client, experiment_id, tags | dict(placement.tags) if placement else tags)


def find_tagged(client: MlflowClient, experiment_id: str, tags: Mapping[str, str]) -> Run | None:
    """The oldest run that has all `tags`, None when there is none."""
    found = client.search_runs(
        [experiment_id],
        filter_string=" AND ".join(f"tags.`{key}` = '{value}'" for key, value in tags.items()),
        order_by=["attributes.start_time ASC"],
        max_results=1,
    )
    return found[0] if found else None


def create_run(
    client: MlflowClient,
    experiment_id: str,
    identity: RunIdentity,
    start_time: int | None = None,
    placement: Placement | None = None,
) -> Run:
    """A new RUNNING run owned by this process; `start_time` in milliseconds since the epoch."""
    return create_tagged(
        client,
        experiment_id,
        placement.name if placement else identity.name,
        {**identity.tags, **(placement.tags if placement else {})},
        start_time,
    )


def create_tagged(
    client: MlflowClient, experiment_id: str, name: str, tags: Mapping[str, str], start_time: int | None = None
) -> Run:
    """A new RUNNING run with this name and these tags, owned by this process."""
    return client.create_run(
        experiment_id,
        start_time=start_time if start_time is not None else now_ms(),
        tags={**tags, **owner_tags()},
        run_name=name,
    )


def is_filled_elsewhere(run: Run) -> bool:
    """Whether another process fills the run at this moment, as far as can be told from here."""
    return run.info.status == "RUNNING" and owner_state(run.data.tags) in ("alive", "elsewhere")


def owner_name(run: Run) -> str:
    return f"process {run.data.tags[PID_TAG]} on {run.data.tags[HOST_TAG]}"


def reopen_run(client: MlflowClient, run: Run) -> None:
    """Make an ended or orphaned run RUNNING under this process; what it holds stays."""
    write_tags(client, run.info.run_id, owner_tags())
    if run.info.status != "RUNNING":
        client.update_run(run.info.run_id, status="RUNNING")
    delete_tags(client, run, [END_REASON_TAG])


def end_run(client: MlflowClient, run_id: str, status: str, reason: str | None = None, at: int | None = None) -> None:
    """End a run with `status`; the owner's tags go, a reason is kept as a tag. `at` in milliseconds since the epoch."""
    run = client.get_run(run_id)
    if reason is not None:
        write_tags(client, run_id, {END_REASON_TAG: reason[:500]})
    else:
        delete_tags(client, run, [END_REASON_TAG])
    client.set_terminated(run_id, status=status, end_time=at)
    delete_tags(client, run, OWNER_TAGS)


def write_tags(client: MlflowClient, run_id: str, tags: Mapping[str, str]) -> None:
    from mlflow.entities import RunTag

    entries = [RunTag(key, value) for key, value in tags.items()]
    for start in range(0, len(entries), TAGS_PER_BATCH):
        client.log_batch(run_id, tags=entries[start : start + TAGS_PER_BATCH])


def delete_tags(client: MlflowClient, run: Run, names: Iterable[str]) -> None:
    for name in names:
        if name in run.data.tags:
            client.delete_tag(run.info.run_id, name)


def write_missing_parameters(
    client: MlflowClient, run_id: str, present: Mapping[str, str], wanted: Mapping[str, Scalar]
) -> dict[str, str]:
    """Add parameters that the run lacks; returns those it holds with another value, which MLflow never changes."""
    from mlflow.entities import Param

    texts = {key: parameter_text(value) for key, value in wanted.items()}
    missing = [Param(key, text) for key, text in texts.items() if key not in present]
    for start in range(0, len(missing), TAGS_PER_BATCH):
        client.log_batch(run_id, params=missing[start : start + TAGS_PER_BATCH])
    return {key: text for key, text in texts.items() if key in present and present[key] != text}


def now_ms() -> int:
    return int(time.time() * 1000)


@dataclass(frozen=True)
class Point:
    """One value of one metric; `timestamp` in milliseconds since the epoch."""

    key: str
    step: int
    value: float
    timestamp: int


def known_points(client: MlflowClient, run: Run, keys: Iterable[str]) -> set[tuple[str, int, float]]:
    """The (key, step, value) that the run already holds for `keys`."""
    return {
        (key, metric.step, metric.value)
        for key in keys
        if key in run.data.metrics
        for metric in client.get_metric_history(run.info.run_id, key)
    }


def add_points(client: MlflowClient, run_id: str, points: Iterable[Point]) -> int:
    """Add points in as few requests as the limits allow; returns how many."""
    from mlflow.entities import Metric

    entries = [Metric(point.key, point.value, point.timestamp, point.step) for point in points]
    for start in range(0, len(entries), METRICS_PER_BATCH):
        client.log_batch(run_id, metrics=entries[start : start + METRICS_PER_BATCH])
    return len(entries)
