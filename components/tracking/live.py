"""Metrics to MLflow while training runs. Losing the store never stops a training: synchronising repairs it later."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from components.tracking import runs, store
from components.tracking.records import Scalar, check_metrics
from components.tracking.runs import Placement, Point, RunIdentity
from components.tracking.system import PREFIX, start_monitor

if TYPE_CHECKING:
    from mlflow import MlflowClient

logger = logging.getLogger(__name__)

EndStatus = Literal["FINISHED", "FAILED", "KILLED"]


class LiveRun:
    """The MLflow run of a training in progress.

    Use as a context manager, or call `close`: the run ends FINISHED, FAILED after an exception, KILLED after an
    interruption. A resumed training re-opens the run of the same digest, and points it has already sent are not sent
    again. Every trouble with the store becomes one warning, after which metrics are no longer sent.

    A training inside a study gives a `placement`: experiment, name and tags of a run below the study's own. While the
    run lasts, the load of the machine is sampled every few seconds (`system_metrics=False` leaves that out).
    With `tracked=False` nothing is sent: for runs whose place in the store is not there.

    Not safe for use from several threads: a training logs from one.
    """

    def __init__(
        self,
        root: Path,
        identity: RunIdentity,
        parameters: Mapping[str, Scalar] | None = None,
        *,
        placement: Placement | None = None,
        tracked: bool = True,
        system_metrics: bool = True,
        flush_points: int = 500,
        flush_seconds: float = 2.0,
    ) -> None:
        self.identity = identity
        self.run_id: str | None = None
        self._placement = placement
        self._stop_monitor: Callable[[], None] | None = None
        self._flush_points = flush_points
        self._flush_seconds = flush_seconds
        self._buffer: list[Point] = []
        self._sent: set[tuple[str, int, float]] = set()
        self._last_flush = time.monotonic()
        self._client: MlflowClient | None = None
        self._lost = not tracked
        self._closed = False
        if tracked:
            self._guarded(lambda: self._open(root, dict(parameters or {})))
        if system_metrics and self.run_id is not None:
            self._stop_monitor = start_monitor(store.tracking_uri(root), self.run_id)

    @property
    def name(self) -> str:
        """How the run is called in MLflow."""
        return self._placement.name if self._placement else self.identity.name

    @property
    def tracking(self) -> bool:
        """Whether metrics still reach the store."""
        return self._client is not None and not self._lost

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record the metrics of a step (an epoch, as a rule). Buffered; sent after some seconds or many points.

        Raises RecordError for a malformed name and NonFiniteError for NaN or infinity, also when the store is lost.
        """
        check_metrics(metrics, f"{self.name}, step {step}")
        if not self.tracking:
            return
        now = runs.now_ms()
        for key, value in metrics.items():
            if (key, step, float(value)) not in self._sent:
                self._sent.add((key, step, float(value)))
                self._buffer.append(Point(key, step, float(value), now))
        waited = time.monotonic() - self._last_flush
        if len(self._buffer) >= self._flush_points or waited >= self._flush_seconds:
            self.flush()

    def flush(self) -> None:
        """Send what is buffered."""
        self._last_flush = time.monotonic()
        if self._buffer:
            self._guarded(self._send)

    def close(self, status: EndStatus = "FINISHED", reason: str | None = None) -> None:
        """Send the rest and end the run; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._stop_monitor is not None:
            self._stop_monitor()
        self.flush()
        # also when sending was given up: one attempt to end the run, so that none stays RUNNING.
        self._guarded(lambda: self._end(status, reason))

    def __enter__(self) -> LiveRun:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None:
            self.close("FINISHED")
        else:
            lines = str(error).strip().splitlines()
            status: EndStatus = "FAILED" if issubclass(kind, Exception) else "KILLED"
            self.close(status, f"{kind.__name__}: {lines[0]}" if lines else kind.__name__)

    def _open(self, root: Path, parameters: dict[str, Scalar]) -> None:
        from filelock import FileLock

        client = store.open_client(root)
        identity, placement = self.identity, self._placement
        experiment_id = store.experiment_id(client, root, placement.experiment if placement else identity.method)
        with FileLock(store.store_lock_file(root)):
            run = runs.find_run(client, experiment_id, identity.experiment, identity.digest, placement)
            if run is None:
                run = runs.create_run(client, experiment_id, identity, placement=placement)
            elif runs.is_filled_elsewhere(run):
                raise RuntimeError(f"{runs.owner_name(run)} is filling the run {self.name} already")
            else:
                runs.reopen_run(client, run)
                sent = [key for key in run.data.metrics if not key.startswith(PREFIX)]
                self._sent = runs.known_points(client, run, sent)
        self._client, self.run_id = client, run.info.run_id
        runs.write_missing_parameters(client, run.info.run_id, run.data.params, parameters)

    def _send(self) -> None:
        if self._client is None or self.run_id is None:
            return
        points, self._buffer = self._buffer, []
        runs.add_points(self._client, self.run_id, points)

    def _end(self, status: EndStatus, reason: str | None) -> None:
        if self._client is not None and self.run_id is not None:
            runs.end_run(self._client, self.run_id, status, reason)

    def _guarded(self, action: Callable[[], None]) -> None:
        # whatever the store, the network or mlflow raises: training is worth more than its live curve.
        try:
            action()
        except Exception as error:  # noqa: BLE001
            self._lose(error)

    def _lose(self, error: Exception) -> None:
        self._buffer.clear()
        lines = str(error).strip().splitlines()
        # the first trouble is worth a warning; what follows from it is not.
        logger.log(
            logging.DEBUG if self._lost else logging.WARNING,
            "metrics of %s are no longer sent to the tracking store (%s: %s); training goes on, "
            "`quintet sync` adds what is missing",
            self.name,
            type(error).__name__,
            lines[0] if lines else "no message",
        )
        self._lost = True
