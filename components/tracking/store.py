"""Where runs are tracked: one explicit address, initialised once, and nothing sent anywhere else.

MLflow is imported inside functions only, because it takes seconds and stages that do not track must not pay for it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from components.errors import TrackingError

if TYPE_CHECKING:
    from mlflow import MlflowClient

URI_VARIABLE = "MLFLOW_TRACKING_URI"
EXPERIMENT_PREFIX = "quintet/"

_SQLITE = "sqlite:///"
# a server or a database of its own; whatever it is, more than one process may write to it at a time.
_REMOTE_SCHEMES = ("http", "https", "postgresql", "mysql", "mssql")

# read by mlflow and onnxruntime when they are imported or open a store; a value that the user has set stays.
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # importing onnxruntime otherwise leaves a device identifier in the home folder and reports to its maker.
    "ORT_DISABLE_TELEMETRY": "1",
    # a pooled connection would keep writing to a database file that was deleted and made anew.
    "MLFLOW_SQLALCHEMYSTORE_POOLCLASS": "NullPool",
    # the defaults retry a dead server for minutes, during which training would stand still.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "15",
    # the command line has a progress display of its own, and addresses that only a server has belong to `quintet up`.
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


_LOG_LEVELS = {
    # these tell of every migration step, connection and registration at level INFO.
    "alembic": logging.WARNING,
    "mlflow.store.db.utils": logging.WARNING,
    "mlflow.store.model_registry.abstract_store": logging.WARNING,
    # a lost store is told of once, by whoever loses metrics of a training; the load of the machine is a bystander.
    "mlflow.system_metrics.system_metrics_monitor": logging.CRITICAL,
}


def tracking_uri(root: Path) -> str:
    """Address of the tracking store: MLFLOW_TRACKING_URI if set, else the sqlite file inside the checkout.

    Raises TrackingError for an address that MLflow no longer supports (`file:`, a bare path) or that cannot
    be shared between processes.
    """
    given = os.environ.get(URI_VARIABLE, "").strip()
    uri = given or f"{_SQLITE}{root.resolve() / 'mlflow' / 'mlflow.db'}"
    scheme = uri.split(":", 1)[0].split("+", 1)[0]
    if scheme == "sqlite":
        _refuse_unusable_sqlite(uri)
    elif scheme not in _REMOTE_SCHEMES or "://" not in uri:
        raise TrackingError(
            f"{URI_VARIABLE} is {given!r}: runs are not kept in a folder of files; unset it to use mlflow/mlflow.db "
            f"in the checkout, or give sqlite:///FILE, http(s)://SERVER, postgresql://, mysql:// or mssql://"
        )
    return uri


def _refuse_unusable_sqlite(uri: str) -> None:
    name = uri.removeprefix(_SQLITE)
    if name == uri or name in ("", ":memory:"):
        raise TrackingError(
            f"the tracking address {uri!r} names no file, so each process would have a store of its own; "
            f"give sqlite:/// and the path of a file"
        )
    if "?" in name or "#" in name:
        raise TrackingError(
            f"the tracking address {uri!r} contains '?' or '#', which a database address cannot hold in a file's "
            f"name; move the checkout to a path without them, or set {URI_VARIABLE} to sqlite:///FILE elsewhere"
        )


def sqlite_file(uri: str) -> Path | None:
    """The database file of a sqlite address, None for a server."""
    return Path(uri.removeprefix(_SQLITE)) if uri.startswith(_SQLITE) else None


def artifact_root(root: Path) -> Path:
    return root.resolve() / "mlflow" / "artifacts"


def prepare_environment() -> None:
    """Set what MLflow reads from the environment: no telemetry, short waits. Must run before it is imported."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    for name, level in _LOG_LEVELS.items():
        logging.getLogger(name).setLevel(level)


def store_lock_file(root: Path) -> Path:
    """The file whose lock guards everything that must happen once in this store: migration and finding-or-creating.

    It lies beside a sqlite file, so that checkouts that share the file share the lock.
    """
    file = sqlite_file(tracking_uri(root))
    path = file.with_name(f"{file.name}.lock") if file else root / ".quintet" / "locks" / "tracking-store.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def sync_lock_file(root: Path) -> Path:
    """The file whose lock a synchronisation holds, so that there is one at a time in a checkout."""
    path = root / ".quintet" / "locks" / "sync.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def initialise(root: Path) -> str:
    """Make the store if it is not there, once however many processes ask at the same time; returns its address.

    A new sqlite store is migrated under another name and renamed, so a kill leaves a whole store or none.
    Raises TrackingError when the store cannot be reached or belongs to another version of MLflow.
    """
    from filelock import FileLock

    uri = tracking_uri(root)
    file = sqlite_file(uri)
    if file is not None and not _is_mlflow_database(file):
        with FileLock(store_lock_file(root)):
            # another process may have made it while this one waited.
            if not _is_mlflow_database(file):
                _make_sqlite_store(file, artifact_root(root))
    return uri


def _is_mlflow_database(file: Path) -> bool:
    if not file.exists() or file.stat().st_size == 0:
        return False
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.DatabaseError as error:
        raise TrackingError(
            f"{file} is not a readable sqlite database ({error}); move it away and run `quintet sync`, "
            f"which makes the store again from the outputs"
        ) from error
    if tables and "alembic_version" not in tables:
        raise TrackingError(
            f"{file} is a database of something else (tables {', '.join(sorted(tables)[:5])}); move it away or set "
            f"{URI_VARIABLE} to another file"
        )
    return bool(tables)


def _make_sqlite_store(file: Path, artifacts: Path) -> None:
    prepare_environment()
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    fresh = file.with_name(f"{file.name}.new")
    fresh.unlink(missing_ok=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    store = SqlAlchemyStore(f"{_SQLITE}{fresh}", str(artifacts))  # type: ignore[no-untyped-call]
    store.engine.dispose()
    # the class remembers one engine per address; this address is about to become another file.
    SqlAlchemyStore._engine_map.pop(f"{_SQLITE}{fresh}", None)
    fresh.replace(file)


def open_client(root: Path) -> MlflowClient:
    """A client of the initialised store. Raises TrackingError when the store does not answer."""
    prepare_environment()
    uri = initialise(root)
    from mlflow import MlflowClient

    with answering(root):
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        client.search_experiments(max_results=1)
    return client


@contextmanager
def answering(root: Path) -> Iterator[None]:
    """Turn what MLflow raises in the block into a TrackingError that says which store it was, and what to do."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except (MlflowException, OSError) as error:
        uri = tracking_uri(root)
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TrackingError(
            f"the tracking store {uri} does not answer: {first_line}; start it, or correct {URI_VARIABLE}, or for a "
            f"store of another MLflow version run `mlflow db upgrade {uri}`"
        ) from error


def experiment_id(client: MlflowClient, root: Path, method: str) -> str:
    """Identifier of the experiment `quintet/METHOD`, created or restored when it is missing.

    Raises TrackingError when the store was made for a checkout at another place, whose artifacts it would not find.
    """
    from filelock import FileLock

    name = EXPERIMENT_PREFIX + method
    uri = tracking_uri(root)
    own_artifacts = not uri.startswith(("http:", "https:"))
    location = str(artifact_root(root) / method) if own_artifacts else None
    with FileLock(store_lock_file(root)):
        found = client.get_experiment_by_name(name)
        if found is None:
            return str(client.create_experiment(name, artifact_location=location))
        if found.lifecycle_stage == "deleted":
            client.restore_experiment(found.experiment_id)
    in_checkout = sqlite_file(uri) == root.resolve() / "mlflow" / "mlflow.db"
    if in_checkout and location is not None and Path(found.artifact_location) != Path(location):
        raise TrackingError(
            f"the tracking store keeps the files of {name} in {found.artifact_location}, but this checkout is "
            f"{root.resolve()}; move it back, or delete mlflow/mlflow.db and mlflow/artifacts and run `quintet sync`"
        )
    return str(found.experiment_id)


def describe_experiment(
    client: MlflowClient, experiment_id: str, text: str, tags: Mapping[str, str] | None = None
) -> None:
    """Show `text` (Markdown) as the experiment's description, its page as one of trained models; set `tags` as well."""
    wanted = {"mlflow.note.content": text, "mlflow.experimentKind": "custom_model_development", **(tags or {})}
    present = client.get_experiment(experiment_id).tags
    for key, value in wanted.items():
        if present.get(key) != value:
            client.set_experiment_tag(experiment_id, key, value)


def mlflow_exception() -> type[Exception]:
    """The base class of MLflow's own errors, for `except` clauses of modules that import MLflow lazily."""
    from mlflow.exceptions import MlflowException

    return MlflowException
