"""The deployment, once, through a real server and a real worker; services started twice, and one that cannot start."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from toy import ADDRESSES, REPOSITORY, Toy, free_port, wait_for

from pipelines.processes import processes_with
from pipelines.results import load_result
from pipelines.runner import Outcome
from pipelines.services import SERVICES_VARIABLE, api_url, running_services

pytestmark = pytest.mark.endtoend


def listening_addresses(root: Path) -> set[str]:
    found = set()
    for process in processes_with(SERVICES_VARIABLE, str(root)):
        for connection in process.net_connections(kind="inet"):
            if connection.status == psutil.CONN_LISTEN:
                found.add(connection.laddr.ip)
    return found


def test_the_deployment_runs_the_graph(toy: Toy) -> None:
    # the deployment's entry point is a path, and the installed package is what it imports
    (toy.root / "prefect.yaml").write_text((REPOSITORY / "prefect.yaml").read_text())
    (toy.root / "pipelines").symlink_to(REPOSITORY / "pipelines")
    prefect_port, mlflow_port = free_port(), free_port()
    ports = ("--prefect-port", str(prefect_port), "--mlflow-port", str(mlflow_port))
    try:
        started = toy.quintet("up", *ports)
        assert started.returncode == 0, started.stdout
        assert {running.name for running in running_services(toy.root)} == {
            "prefect-server",
            "mlflow-server",
            "prefect-worker",
        }
        assert listening_addresses(toy.root) == {"127.0.0.1"}
        before = [running.pid for running in running_services(toy.root)]
        again = toy.quintet("up", *ports)
        assert again.returncode == 0, again.stdout
        assert again.stdout.count("runs already") == 3
        assert [running.pid for running in running_services(toy.root)] == before

        api = api_url(toy.root)
        assert api == f"http://127.0.0.1:{prefect_port}/api"
        environment = {**{name: os.environ[name] for name in ("PREFECT_HOME",)}, "PREFECT_API_URL": api}
        refused = toy.call(
            "prefect", "deployment", "run", "reproduce/reproduce", "--param", 'scale="huge"', **environment
        )
        assert refused.returncode != 0
        run = toy.call(
            "prefect", "deployment", "run", "reproduce/reproduce",
            "--param", 'scale="quick"', "--param", "after=[]", "--watch", **environment,
        )  # fmt: skip
        assert run.returncode == 0, run.stdout + (toy.root / "run_info/logs/prefect-worker.log").read_text()
        result = load_result(toy.root)
        assert {stage.address: stage.outcome for stage in result.stages} == dict.fromkeys(ADDRESSES, Outcome.RAN)
        assert result.scale == "quick"
        assert "size: 2" in toy.value("gate_model@b")
    finally:
        stopped = toy.quintet("down")
    assert stopped.returncode == 0, stopped.stdout
    assert running_services(toy.root) == ()
    wait_for(lambda: not processes_with(SERVICES_VARIABLE, str(toy.root)), "all services to end", 15)
    assert list(toy.home.rglob("*")) == []
    assert toy.quintet("down").returncode == 0


def test_a_port_that_is_taken_is_said(toy: Toy) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        started = toy.quintet("up", "--prefect-port", str(port))
        assert started.returncode == 1
        assert f"prefect-server needs port {port} on 127.0.0.1, which another program uses" in started.stdout
        assert "choose a port with --prefect-port" in started.stdout
    assert processes_with(SERVICES_VARIABLE, str(toy.root)) == []


def test_a_number_in_the_notes_that_is_another_process_now_is_left_alone(toy: Toy) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        entry = {"name": "prefect-server", "pid": stranger.pid, "created": 1.0, "url": "", "log": ""}
        (toy.root / ".quintet").mkdir(exist_ok=True)
        (toy.root / ".quintet" / "services.json").write_text(json.dumps([entry]))
        assert running_services(toy.root) == ()
        assert toy.quintet("down").returncode == 0
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
