"""What a tracking store holds, without what is new in every store: run ids, times and places."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from components.files import files_below, sha256_file
from components.tracking import store as tracking_store

# An MLflow model carries an id and a time of its own; what is registered is judged by its bundle's digest.
MODEL_FOLDER = "model"


def dump(root: Path) -> list[str]:
    """Every statement that would make the database anew: all rows of all tables."""
    with closing(sqlite3.connect(f"{(root / 'mlflow' / 'mlflow.db').as_uri()}?mode=ro", uri=True)) as connection:
        return list(connection.iterdump())


def statuses(root: Path) -> list[str]:
    """The status of every run."""
    with closing(sqlite3.connect(f"{(root / 'mlflow' / 'mlflow.db').as_uri()}?mode=ro", uri=True)) as connection:
        return [status for (status,) in connection.execute("SELECT status FROM runs")]


def contents(root: Path) -> dict[str, Any]:
    """Runs by name, and registered models with aliases and versions; each run is named, not numbered."""
    client = _client(root)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    runs = client.search_runs(experiments, max_results=100)
    names = {run.info.run_id: run.info.run_name for run in runs}
    assert len(set(names.values())) == len(runs), f"two runs share a name: {sorted(names.values())}"
    found: dict[str, Any] = {}
    for run in runs:
        for part, content in _run(client, run).items():
            found[f"run {run.info.run_name}: {part}"] = content
    for model in client.search_registered_models():
        found[f"model {model.name}: aliases"] = {
            alias: str(version) for alias, version in client.get_registered_model(model.name).aliases.items()
        }
        for version in client.search_model_versions(f"name = '{model.name}'"):
            whole = client.get_model_version(model.name, version.version)
            found[f"model {model.name}: version {whole.version}"] = (names[whole.run_id], dict(whole.tags))
    return found


def _run(client: Any, run: Any) -> dict[str, Any]:
    artifacts = Path(unquote(urlparse(run.info.artifact_uri).path))
    return {
        "status": run.info.status,
        "parameters": dict(run.data.params),
        "metrics": {
            key: sorted((point.step, point.value) for point in client.get_metric_history(run.info.run_id, key))
            for key in run.data.metrics
            # the load of the machine is seen once, while it happens
            if not key.startswith("system/")
        },
        "tags": dict(run.data.tags),
        "data": sorted((entry.dataset.name, entry.dataset.digest) for entry in run.inputs.dataset_inputs),
        "artifacts": {
            file.relative_to(artifacts).as_posix(): sha256_file(file)
            for file in files_below(artifacts)
            if file.relative_to(artifacts).parts[0] != MODEL_FOLDER
        },
    }


def _client(root: Path) -> Any:
    tracking_store.prepare_environment()
    from mlflow import MlflowClient

    uri = f"sqlite:///{root / 'mlflow' / 'mlflow.db'}"
    return MlflowClient(tracking_uri=uri, registry_uri=uri)
