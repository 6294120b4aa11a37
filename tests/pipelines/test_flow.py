"""The flow over a whole graph: what runs, what does not, what it leaves, and what a kill leaves.

Each run is `quintet run` in a process of its own, as a user starts it. One uses the server that Prefect starts for it;
the others share one, which is only faster.
"""

import json
import os
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import yaml
from toy import ADDRESSES, REPOSITORY, Toy, kill_hard, wait_for

from components.errors import GateError, LockedError
from pipelines.dvclocks import entries
from pipelines.locking import is_held, read_owner
from pipelines.processes import ProcessIdentity
from pipelines.results import load_result
from pipelines.runner import Outcome

pytestmark = pytest.mark.endtoend

# Loaded by every Python that starts: refuses to connect anywhere but to this machine, and notes each attempt.
GUARD = """
import os, socket
LOCAL = ("127.0.0.1", "::1", "localhost")
def checked(connect):
    def guarded(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in LOCAL:
            with open(os.environ["TEST_REFUSALS"], "a") as file:
                file.write(f"{address}\\n")
            raise ConnectionRefusedError(f"outside connection refused: {address}")
        return connect(self, address)
    return guarded
socket.socket.connect = checked(socket.socket.connect)
socket.socket.connect_ex = checked(socket.socket.connect_ex)
"""


def outcomes(toy: Toy) -> dict[str, Outcome]:
    return {result.address: result.outcome for result in load_result(toy.root).stages}


def git_status(toy: Toy) -> str:
    return subprocess.run(["git", "status", "--short"], cwd=toy.root, capture_output=True, text=True, check=True).stdout


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(prefect_api: str) -> Run:
    def run_in(toy: Toy, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return toy.quintet("run", "--no-after", *arguments, PREFECT_API_URL=prefect_api)

    return run_in


def test_with_embedded_defaults_all_runs_once_inside_the_checkout_and_nothing_leaves(toy: Toy, tmp_path: Path) -> None:
    guard, refusals, scratch = tmp_path / "guard", tmp_path / "refusals", tmp_path / "tmp"
    guard.mkdir()
    scratch.mkdir()
    (guard / "sitecustomize.py").write_text(GUARD)
    environment = {
        "PYTHONPATH": os.pathsep.join([str(guard), str(REPOSITORY)]),
        "TEST_REFUSALS": str(refusals),
        "TMPDIR": str(scratch),
    }
    first = toy.quintet("run", "--no-after", **environment)
    assert first.returncode == 0, first.stdout
    assert sorted(toy.calls) == sorted(ADDRESSES)
    assert set(outcomes(toy).values()) == {Outcome.RAN}
    assert "ran (never run)" in first.stdout
    assert "passed" in first.stdout
    assert toy.value("gate_model@a") == "gate_model@a scale: tiny\nsize: 1\n" + toy.value("train@a")

    toy.forget_calls()
    lock = (toy.root / "dvc.lock").read_bytes()
    second = toy.quintet("run", "--no-after", **environment)
    assert second.returncode == 0, second.stdout
    assert toy.calls == []
    assert set(outcomes(toy).values()) == {Outcome.CACHED}
    assert "cached (nothing changed)" in second.stdout
    assert (toy.root / "dvc.lock").read_bytes() == lock

    assert not refusals.exists(), refusals.read_text()
    assert list(toy.home.rglob("*")) == []
    assert list(scratch.rglob("*")) == []
    assert git_status(toy) in ("?? dvc.lock\n", "A  dvc.lock\n")


def test_the_guard_of_these_tests_does_refuse(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(GUARD)
    script = toy.root / "reach.py"
    script.write_text("import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=1)\n")
    refusals = tmp_path / "refusals"
    called = toy.call("reach", PYTHONPATH=os.pathsep.join([str(tmp_path), str(toy.root)]), TEST_REFUSALS=str(refusals))
    assert "outside connection refused" in called.stdout
    assert "192.0.2.1" in refusals.read_text()


def test_the_same_as_plain_dvc(done: Toy, toy: Toy, run: Run) -> None:
    assert run(toy).returncode == 0
    first, second = (yaml.safe_load((one.root / "dvc.lock").read_text()) for one in (toy, done))
    assert first == second
    for address in ADDRESSES:
        assert toy.value(address) == done.value(address)
    # what DVC brought up to date, the flow finds up to date
    assert run(done).returncode == 0
    assert done.calls == []


@pytest.mark.parametrize("address", ["prepare@a", "train@b"])
def test_a_deleted_output_runs_again_alone(done: Toy, run: Run, address: str) -> None:
    shutil.rmtree(done.output(address))
    completed = run(done)
    assert completed.returncode == 0, completed.stdout
    assert done.calls == [address]
    found = outcomes(done)
    assert found.pop(address) is Outcome.RAN
    # the bytes came out the same, so nothing below has changed
    assert set(found.values()) == {Outcome.CACHED}


def test_a_scale_is_composed_and_runs_what_reads_it(done: Toy, run: Run) -> None:
    completed = run(done, "--scale", "quick")
    assert completed.returncode == 0, completed.stdout
    assert "parameter modified: size" in completed.stdout
    assert sorted(done.calls) == sorted(ADDRESSES)
    assert "size: 2" in done.value("train@a")
    assert load_result(done.root).scale == "quick"


def test_force_runs_all(done: Toy, run: Run) -> None:
    completed = run(done, "--force", "--max-parallel", "1")
    assert completed.returncode == 0, completed.stdout
    assert sorted(done.calls) == sorted(ADDRESSES)
    assert "ran (forced)" in completed.stdout


def test_a_failure_stops_what_is_below_it_and_nothing_else(done: Toy, run: Run) -> None:
    (done.root / "params.yaml").write_text("scale: tiny\nsize: 5\n")
    done.ask("fail", "prepare@a")
    before = {address: done.value(address) for address in ADDRESSES if address.endswith("@a")}
    completed = run(done)
    assert completed.returncode == 1
    assert outcomes(done) == {
        "prepare@a": Outcome.FAILED,
        "train@a": Outcome.NOT_RUN,
        "gate_model@a": Outcome.NOT_RUN,
        "prepare@b": Outcome.RAN,
        "train@b": Outcome.RAN,
        "gate_model@b": Outcome.RAN,
    }
    assert "error: prepare@a: prepare@a refused: row 7 of table.csv has no period" in completed.stdout
    assert "not run (needs prepare@a, which failed)" in completed.stdout
    assert "Traceback" not in completed.stdout
    # tried once: a refusal is not an accident
    assert done.calls.count("prepare@a") == 1
    assert {address: done.value(address) for address in before} == before


def test_a_killed_flow_leaves_nothing_and_the_next_one_ends_well(
    toy: Toy, done: Toy, run: Run, prefect_api: str
) -> None:
    waiting = toy.ask("wait", "train@a")
    flow = toy.start("pipelines.cli", "run", "--no-after", PREFECT_API_URL=prefect_api)
    stage = ProcessIdentity.of(toy.pid_of("train@a"))
    assert stage is not None
    kill_hard(flow)
    wait_for(lambda: not stage.alive(), "the stage of the killed flow to end", 10)
    waiting.unlink()
    assert not toy.output("train@a").exists()
    completed = run(toy, "--no-wait")
    assert completed.returncode == 0, completed.stdout
    assert outcomes(toy)["prepare@a"] is Outcome.CACHED
    assert outcomes(toy)["train@a"] is Outcome.RAN
    for address in ADDRESSES:
        assert toy.value(address) == done.value(address)
    assert not is_held(toy.root)
    assert read_owner(toy.root) is None
    assert entries(toy.root) == []


def test_a_killed_flow_takes_its_temporary_server_along(toy: Toy) -> None:
    toy.ask("wait", "prepare@a")
    flow = toy.start("pipelines.cli", "run", "--no-after")
    toy.pid_of("prepare@a")
    started = [ProcessIdentity.of(process.pid) for process in psutil.Process(flow.pid).children(recursive=True)]
    assert any("uvicorn" in " ".join(process.cmdline()) for process in psutil.Process(flow.pid).children())
    kill_hard(flow)
    wait_for(lambda: not any(identity and identity.alive() for identity in started), "all to end", 15)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_stage_in_order(toy: Toy, prefect_api: str, number: signal.Signals) -> None:
    toy.ask("wait", "prepare@b")
    flow = toy.start("pipelines.cli", "run", "--no-after", PREFECT_API_URL=prefect_api)
    stage = ProcessIdentity.of(toy.pid_of("prepare@b"))
    assert stage is not None
    flow.send_signal(number)
    output, _ = flow.communicate(timeout=60)
    # by its own exit, or by the same signal once all is in order
    assert flow.returncode in (128 + number, -number), output
    assert not stage.alive()
    assert entries(toy.root) == []
    assert not is_held(toy.root)
    assert "interrupted" in output


def test_ctrl_c_ends_in_order_though_the_terminal_tells_the_whole_group(toy: Toy) -> None:
    """With a server that Prefect has started for this run: were it in the group, the flow would die of its absence."""
    toy.ask("wait", "prepare@b")
    flow = toy.start("pipelines.cli", "run", "--no-after")
    stage = ProcessIdentity.of(toy.pid_of("prepare@b"))
    children = [ProcessIdentity.of(process.pid) for process in psutil.Process(flow.pid).children(recursive=True)]
    os.killpg(flow.pid, signal.SIGINT)
    output, _ = flow.communicate(timeout=45)
    assert flow.returncode in (128 + signal.SIGINT, -signal.SIGINT), output
    assert "interrupted" in output
    assert "Traceback" not in output
    assert stage is not None
    assert not stage.alive()
    wait_for(lambda: not any(child and child.alive() for child in children), "all to end", 15)


def test_a_second_run_waits_or_is_refused(toy: Toy, prefect_api: str, run: Run) -> None:
    waiting = toy.ask("wait", "prepare@a")
    first = toy.start("pipelines.cli", "run", "--no-after", PREFECT_API_URL=prefect_api)
    toy.pid_of("prepare@a")
    refused = run(toy, "--no-wait")
    assert refused.returncode == 1
    assert f"(process {first.pid} on" in refused.stdout
    assert len(refused.stdout.strip().splitlines()) == 1
    by_dvc = toy.dvc("repro", "prepare@b", "--force")
    assert by_dvc.returncode != 0
    second = toy.start("pipelines.cli", "run", "--no-after", PREFECT_API_URL=prefect_api)
    assert second.stdout is not None
    assert f"waiting for `quintet run --no-after` (process {first.pid}" in second.stdout.readline()
    waiting.unlink()
    assert first.wait(timeout=60) == 0
    output, _ = second.communicate(timeout=60)
    assert second.returncode == 0, output
    assert set(outcomes(toy).values()) == {Outcome.CACHED}
    assert sorted(toy.calls) == sorted(ADDRESSES)


def test_prefect_shows_each_stage_by_its_address(done: Toy, run: Run, prefect_api: str) -> None:
    shutil.rmtree(done.output("train@a"))
    assert run(done).returncode == 0
    flow_run = _post(prefect_api, "flow_runs/filter", {"sort": "START_TIME_DESC", "limit": 1})[0]
    assert flow_run["state"]["type"] == "COMPLETED"
    tasks = _post(prefect_api, "task_runs/filter", {"flow_runs": {"id": {"any_": [flow_run["id"]]}}})
    states = {task["name"]: task["state"]["name"] for task in tasks}
    assert states == dict.fromkeys(ADDRESSES, "Cached") | {"train@a": "Completed"}
    above = {task["name"]: task["task_inputs"].get("wait_for", []) for task in tasks}
    ids = {task["name"]: task["id"] for task in tasks}
    assert [entry["id"] for entry in above["train@a"]] == [ids["prepare@a"]]
    artifacts = _post(prefect_api, "artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [flow_run["id"]]}}})
    assert "| train@a | ran (output missing: outputs/train/a)" in artifacts[0]["data"]


@pytest.mark.parametrize(
    ("error", "expected"), [(LockedError("held"), True), (GateError("refused"), False), (ValueError("defect"), False)]
)
def test_only_a_lock_is_worth_another_try(error: Exception, expected: bool) -> None:
    from prefect.states import Failed

    from pipelines.flows import _is_infrastructure

    assert _is_infrastructure(None, None, Failed(data=error)) is expected
    assert not _is_infrastructure(None, None, Failed(message="refused"))


def _post(api: str, path: str, body: dict[str, object]) -> list[dict[str, object]]:
    request = urllib.request.Request(  # noqa: S310
        f"{api}/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=20) as response:  # noqa: S310
        found: list[dict[str, object]] = json.load(response)
    return found
