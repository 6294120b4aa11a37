"""Load of the machine while a run lasts, sampled by MLflow's own monitor: processor, memory, disk, network, GPU.

Seen in the live store only: a file of it would differ from run to run, so it does not come back with `quintet sync`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

# MLflow's own
PREFIX = "system/"
SAMPLING_SECONDS = 5.0
# a store that hangs may hold the monitor's thread; a training that has ended waits no longer than this for it.
STOPPING_SECONDS = 10.0

logger = logging.getLogger(__name__)


def start_monitor(uri: str, run_id: str, sampling_seconds: float = SAMPLING_SECONDS) -> Callable[[], None] | None:
    """Sample into the run `run_id` of the store `uri` from a thread; returns what stops it, None when it cannot start.

    Address and run are given to the monitor, so neither MLflow's active run nor its global address is read or set, and
    monitors of several runs may work side by side. The variables MLFLOW_SYSTEM_METRICS_* of MLflow are honoured.
    Whatever goes wrong in here is told at level DEBUG and ends the sampling alone.
    """
    try:
        monitor = _started(uri, run_id, sampling_seconds)
    # psutil cannot read some machines at all (a container without /proc/net, say).
    except Exception as error:  # noqa: BLE001
        logger.debug("no system metrics of run %s: %r", run_id, error)
        return None

    def stop() -> None:
        thread = threading.Thread(target=monitor.finish, name="stop of system metrics", daemon=True)
        thread.start()
        thread.join(STOPPING_SECONDS)

    return stop


def _started(uri: str, run_id: str, sampling_seconds: float) -> Any:
    from mlflow.system_metrics import system_metrics_monitor

    # its methods have no types.
    base: Any = system_metrics_monitor.SystemMetricsMonitor

    class Monitor(base):
        """Also for a run that is shorter than one interval: a last sample is published when it ends."""

        def monitor(self) -> None:
            try:
                super().monitor()
                for part in self.monitors:
                    part.clear_metrics()
                self.collect_metrics()
                self.publish_metrics(self.aggregate_metrics())
            # what psutil, the driver or the store raise; without this, the thread would print it.
            except Exception as error:  # noqa: BLE001
                logger.debug("no more system metrics of run %s: %r", run_id, error)

    monitor = Monitor(run_id, sampling_seconds, resume_logging=True, tracking_uri=uri)
    # use of the processor is told since the last time it was asked for, so the first answer says nothing.
    monitor.collect_metrics()
    for part in monitor.monitors:
        part.clear_metrics()
    monitor.start()
    return monitor
