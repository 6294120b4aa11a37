"""Runs whose process was killed stay RUNNING, because nobody was left to end them; this ends them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from components.tracking import runs, store

if TYPE_CHECKING:
    from mlflow import MlflowClient

KILLED_REASON = "KILLED: the process that filled this run is gone"


def sweep(root: Path) -> tuple[str, ...]:
    """End as FAILED every RUNNING run whose owner on this host is dead; returns their names.

    Runs of other hosts are left alone, because from here nobody can tell whether their process lives.
    """
    return sweep_with(store.open_client(root))


def sweep_with(client: MlflowClient) -> tuple[str, ...]:
    experiments = client.search_experiments(filter_string=f"name LIKE '{store.EXPERIMENT_PREFIX}%'")
    if not experiments:
        return ()
    running = client.search_runs(
        [experiment.experiment_id for experiment in experiments],
        filter_string="attributes.status = 'RUNNING'",
        max_results=1000,
    )
    swept = []
    for run in running:
        if runs.owner_state(run.data.tags) == "dead":
            runs.end_run(client, run.info.run_id, "FAILED", KILLED_REASON)
            swept.append(run.info.run_name or run.info.run_id)
    return tuple(swept)
