"""One copy run by the flow and one by `dvc repro`, both from nothing; the other tests work in duplicates."""

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines import environment
from tests.endtoend.copies import Copy, duplicate, make_copy, wait_for
from tests.endtoend.undisturbed import First, first_of

SERVER_SECONDS = 180


@pytest.fixture(scope="session")
def firsts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[First, First]]:
    """The first runs by the flow and by DVC, at the same time, which takes little longer than one alone."""
    fresh = make_copy(tmp_path_factory.mktemp("fresh"))
    by_flow = duplicate(fresh, tmp_path_factory.mktemp("flow") / "copy")
    by_dvc = duplicate(fresh, tmp_path_factory.mktemp("dvc") / "copy")
    by_dvc.compose("tiny")
    try:
        processes = by_flow.start("quintet", "run", "--scale", "tiny"), by_dvc.start("dvc", "repro")
        flow_ended, dvc_ended = by_flow.wait(processes[0]), by_dvc.wait(processes[1])
        assert dvc_ended.code == 0, dvc_ended.text
        synced = by_dvc.quintet("sync")
        assert synced.code == 0, synced.text
        assert flow_ended.code == 0, flow_ended.text
        yield first_of(by_flow, flow_ended), first_of(by_dvc, dvc_ended)
    finally:
        by_flow.kill_all()
        by_dvc.kill_all()


@pytest.fixture(scope="session")
def by_flow(firsts: tuple[First, First]) -> First:
    return firsts[0]


@pytest.fixture(scope="session")
def by_dvc(firsts: tuple[First, First]) -> First:
    return firsts[1]


@pytest.fixture
def done(by_flow: First, tmp_path: Path) -> Iterator[Copy]:
    """A duplicate of the copy in which the flow has run, for a test to spoil."""
    copy = duplicate(by_flow.copy, tmp_path / "copy")
    yield copy
    copy.kill_all()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where a Prefect server listens that runs can share, as a variable of the environment: it saves its start."""
    folder = tmp_path_factory.mktemp("prefect")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}/api"
    values = environment.variables(folder)
    Path(values["PREFECT_HOME"]).mkdir(parents=True)
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
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=os.environ | values, cwd=folder, stdout=log, stderr=log)
    try:
        wait_for(lambda: process.poll() is not None or _answers(url), "the Prefect server", SERVER_SECONDS)
        assert process.poll() is None, (folder / "log").read_text()
        yield {"PREFECT_API_URL": url}
    finally:
        process.terminate()
        process.wait(timeout=30)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as response:  # noqa: S310
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
