"""Toy projects, and one Prefect server for all runs that need not start one of their own."""

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from toy import Toy, copy_toy, free_port, make_toy, wait_for

from pipelines import environment
from pipelines.locking import TOKEN_VARIABLE
from pipelines.watch import DVC_VARIABLE, RUNNER_VARIABLE


@pytest.fixture(scope="session")
def fresh_template(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return make_toy(tmp_path_factory.mktemp("fresh") / "toy")


@pytest.fixture(scope="session")
def done_template(fresh_template: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    toy = copy_toy(fresh_template, tmp_path_factory.mktemp("done") / "toy")
    done = toy.dvc("repro")
    assert done.returncode == 0, done.stdout
    return toy


@pytest.fixture
def toy(fresh_template: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """A project in which nothing has run."""
    return _entered(copy_toy(fresh_template, tmp_path / "fresh"), monkeypatch)


@pytest.fixture
def done(done_template: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """A project in which everything is up to date, by plain `dvc repro`."""
    copied = _entered(copy_toy(done_template, tmp_path / "done"), monkeypatch)
    copied.forget_calls()
    return copied


@pytest.fixture(scope="session")
def prefect_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prefect server that is not the project's own."""
    folder, port = tmp_path_factory.mktemp("prefect"), free_port()
    url = f"http://127.0.0.1:{port}/api"
    command = [
        sys.executable,
        "-m",
        "prefect",
        "server",
        "start",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--no-ui",
    ]
    values = environment.variables(folder)
    Path(values["PREFECT_HOME"]).mkdir(parents=True)
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, env=os.environ | values, cwd=folder, stdout=log, stderr=log)
    try:
        wait_for(lambda: server.poll() is not None or _answers(f"{url}/health"), "the Prefect server", 180)
        assert server.poll() is None, (folder / "log").read_text()
        yield url
    finally:
        server.terminate()
        server.wait(timeout=30)


def _entered(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Toy:
    for name, value in environment.variables(toy.root).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", toy.environment["PYTHONPATH"])
    for name in (TOKEN_VARIABLE, RUNNER_VARIABLE, DVC_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(toy.root)
    return toy


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # noqa: S310
            return bool(response.status == 200)
    except OSError:
        return False
