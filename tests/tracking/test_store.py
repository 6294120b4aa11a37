"""The store: an explicit address, made once by however many processes, whole or absent after a kill."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from components.errors import TrackingError
from components.tracking import store, tracking_uri

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "uri",
    ["file:///tmp/mlruns", "file:mlruns", "./mlruns", "/var/mlruns", "mlruns", "databricks", "http:", "sqlite://",
     "sqlite:///", "sqlite:///:memory:", "sqlite:///a?b.db", "s3://bucket/x"],
)  # fmt: skip
def test_address_is_refused_with_a_way_out(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(store.URI_VARIABLE, uri)
    with pytest.raises(TrackingError, match=r"sqlite:///|database address"):
        tracking_uri(tmp_path)


@pytest.mark.parametrize(
    "uri",
    ["http://127.0.0.1:5000", "https://host", "postgresql://u@h/d", "mysql+pymysql://u@h/d", "sqlite:////tmp/a.db"],
)
def test_address_from_the_environment_is_taken(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(store.URI_VARIABLE, uri)
    assert tracking_uri(tmp_path) == uri


@pytest.mark.parametrize("given", [None, "", "  "])
def test_default_lies_in_the_checkout(given: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if given is not None:
        monkeypatch.setenv(store.URI_VARIABLE, given)
    assert tracking_uri(tmp_path) == f"sqlite:///{tmp_path.resolve()}/mlflow/mlflow.db"


def test_six_processes_make_one_store(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from components.tracking import store, runs\n"
        "root = Path(sys.argv[1]); client = store.open_client(root)\n"
        "identity = runs.RunIdentity('e', 'm', 'd', 'tiny', sys.argv[2] * 64)\n"
        "run = runs.create_run(client, store.experiment_id(client, root, 'm'), identity)\n"
        "runs.end_run(client, run.info.run_id, 'FINISHED')\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), str(number)],
            cwd=REPOSITORY,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(6)
    ]
    complaints = [process.communicate(timeout=240)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 6, complaints
    client = store.open_client(tmp_path)
    assert [experiment.name for experiment in client.search_experiments(filter_string="name LIKE 'quintet/%'")] == [
        "quintet/m"
    ]
    assert len(client.search_runs([store.experiment_id(client, tmp_path, "m")])) == 6
    # nothing half-made is left, and nothing lies outside the folder of the store.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mlflow"]
    assert not list((tmp_path / "mlflow").glob("*.new"))


def test_store_cut_off_while_it_was_made_is_made_again(root: Path) -> None:
    whole = (root / "mlflow" / "mlflow.db").read_bytes()
    database = root / "mlflow" / "mlflow.db"
    database.with_name("mlflow.db.new").write_bytes(whole[: len(whole) // 2])
    database.unlink()
    store.open_client(root)
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert not database.with_name("mlflow.db.new").exists()


def test_empty_file_is_no_store_yet(root: Path) -> None:
    (root / "mlflow" / "mlflow.db").write_bytes(b"")
    assert store.open_client(root).search_experiments()


def test_foreign_or_broken_database_is_refused_and_untouched(root: Path) -> None:
    database = root / "mlflow" / "mlflow.db"
    database.write_bytes(b"not a database at all, but long enough to be read as one" * 40)
    with pytest.raises(TrackingError, match="move it away"):
        store.initialise(root)
    database.unlink()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
        connection.commit()
    before = database.read_bytes()
    with pytest.raises(TrackingError, match="tables recipes"):
        store.initialise(root)
    assert database.read_bytes() == before


def test_store_of_another_version_is_named(root: Path) -> None:
    with closing(sqlite3.connect(root / "mlflow" / "mlflow.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '451aebb31d03'")
        connection.commit()
    with pytest.raises(TrackingError, match="mlflow db upgrade"):
        store.open_client(root)


def test_dead_server_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(store.URI_VARIABLE, "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingError, match=r"http://127\.0\.0\.1:9 does not answer"):
        store.open_client(tmp_path)


def test_reading_the_package_does_not_import_mlflow_and_telemetry_is_off(tmp_path: Path) -> None:
    code = (
        "import sys, components.tracking as t\n"
        "assert not {'mlflow', 'torch', 'pandas', 'onnx'} & set(sys.modules), 'heavy import'\n"
        "t.store.prepare_environment()\n"
        "from mlflow.telemetry.utils import is_telemetry_disabled\n"
        "assert is_telemetry_disabled()\n"
        "import onnxruntime\n"
    )
    switches = ("DO_NOT_TRACK", "MLFLOW_DISABLE_TELEMETRY", "ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in switches}
    environment["HOME"] = str(tmp_path)
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, env=environment, check=True, timeout=120)
    assert list(tmp_path.rglob("*")) == []
