"""A stage ends with DVC, with the shell between, and with the runner; a stage started by hand stays."""

import os
import signal
import subprocess
import sys

import pytest
from toy import Toy, kill_hard, wait_for

from pipelines.dvclocks import entries
from pipelines.processes import ProcessIdentity
from pipelines.watch import DVC_VARIABLE, RUNNER_VARIABLE, dvc_ancestors, end_with_parent

SECONDS = 8


def ends(identity: ProcessIdentity | None) -> None:
    assert identity is not None
    wait_for(lambda: not identity.alive(), "the stage to end", SECONDS)


@pytest.mark.parametrize("shell", ["/bin/bash", "/bin/sh"])
def test_killing_dvc_ends_the_stage(toy: Toy, shell: str) -> None:
    toy.ask("wait", "prepare@a")
    # two commands keep the shell between DVC and the stage from stepping aside
    graph = toy.root / "dvc.yaml"
    graph.write_text(
        graph.read_text().replace("cmd: ", "cmd: true && ").replace("/value.txt\n", "/value.txt && true\n")
    )
    dvc = toy.start("dvc", "repro", "prepare@a", **toy.dvc_variables, SHELL=shell)
    stage = ProcessIdentity.of(toy.pid_of("prepare@a"))
    kill_hard(dvc)
    ends(stage)
    assert not toy.output("prepare@a").exists()


def test_killing_the_runner_ends_the_stage_and_dvc_gives_its_locks_back(toy: Toy) -> None:
    toy.ask("wait", "prepare@a")
    runner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    identity = ProcessIdentity.of(runner.pid)
    dvc = toy.start("dvc", "repro", "-s", "prepare@a", **toy.dvc_variables, **{RUNNER_VARIABLE: str(identity)})
    stage = ProcessIdentity.of(toy.pid_of("prepare@a"))
    runner.kill()
    runner.wait()
    ends(stage)
    output, _ = dvc.communicate(timeout=20)
    assert dvc.returncode != 0
    assert f"parent process {runner.pid} is gone" in output
    assert entries(toy.root) == []


def test_children_of_the_stage_end_with_it() -> None:
    script = (
        "import subprocess, sys, time\nfrom pipelines.watch import end_with_parent\n"
        "child = subprocess.Popen(['sleep', '60'])\nprint(child.pid, flush=True)\nend_with_parent(0.1)\ntime.sleep(60)"
    )
    runner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    environment = os.environ | {RUNNER_VARIABLE: str(ProcessIdentity.of(runner.pid))}
    environment.pop(DVC_VARIABLE, None)
    stage = subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True)
    assert stage.stdout is not None
    child = ProcessIdentity.of(int(stage.stdout.readline()))
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    ends(child)
    assert stage.wait(timeout=5) == 143
    stage.stdout.close()


def test_by_hand_nobody_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DVC_VARIABLE, raising=False)
    monkeypatch.delenv(RUNNER_VARIABLE, raising=False)
    assert dvc_ancestors() == []
    assert end_with_parent() is None


def test_under_dvc_the_parent_is_watched() -> None:
    script = "from pipelines.watch import dvc_ancestors\nprint([identity.pid for identity in dvc_ancestors()])"
    environment = os.environ | {DVC_VARIABLE: "train@a"}
    shown = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout == f"[{os.getpid()}]\n"
    # `true` keeps the shell there as a second ancestor
    through = ["/bin/sh", "-c", f'"{sys.executable}" -c "{script.replace(chr(10), ";")}"; true']
    shown = subprocess.run(through, env=environment, capture_output=True, text=True, check=True)
    assert len(shown.stdout.split(",")) == 2
    assert shown.stdout.rstrip().endswith(f"{os.getpid()}]")
