"""One run per checkout, whatever becomes of the one that holds it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from toy import REPOSITORY, wait_for

from components.errors import LockedError
from pipelines.locking import (
    TOKEN_VARIABLE,
    end_leftovers,
    hold_run_lock,
    is_held,
    lock_path,
    owner_path,
    read_owner,
    within_run,
)
from pipelines.processes import ProcessIdentity

HOLDER = """
import pathlib, subprocess, sys, time
from pipelines.locking import hold_run_lock
root = pathlib.Path(sys.argv[1])
with hold_run_lock(root, command="quintet run", guard="guard" in sys.argv):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"], start_new_session=True)
    (root / "child").write_text(str(child.pid))
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
    child.kill()
    child.wait()
"""


def start_holder(root: Path, seconds: float, *arguments: str) -> "subprocess.Popen[str]":
    environment = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(root), str(seconds), *arguments],
        env=environment | {"PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    process.stdout.close()
    return process


def test_the_lock_names_its_holder_and_is_given_back(tmp_path: Path) -> None:
    assert not is_held(tmp_path)
    with hold_run_lock(tmp_path, command="quintet run --scale tiny") as owner:
        assert is_held(tmp_path)
        assert read_owner(tmp_path) == owner
        assert owner.pid == os.getpid()
        assert "quintet run --scale tiny" in str(owner)
        assert os.environ[TOKEN_VARIABLE] == owner.token
    assert not is_held(tmp_path)
    assert read_owner(tmp_path) is None
    assert TOKEN_VARIABLE not in os.environ


def test_an_exception_gives_the_lock_back(tmp_path: Path) -> None:
    with pytest.raises(KeyError), hold_run_lock(tmp_path):
        raise KeyError
    assert read_owner(tmp_path) is None
    with hold_run_lock(tmp_path, wait=False):
        assert is_held(tmp_path)


def test_whoever_the_holder_started_passes_through(tmp_path: Path) -> None:
    with hold_run_lock(tmp_path) as owner, hold_run_lock(tmp_path, wait=False) as inner:
        assert inner == owner
        assert within_run(tmp_path) == owner
    assert within_run(tmp_path) is None


def test_another_run_is_refused_with_the_holders_name(tmp_path: Path) -> None:
    holder = start_holder(tmp_path, 30)
    try:
        with (
            pytest.raises(LockedError, match=rf"`quintet run` \(process {holder.pid} on .*one run per checkout"),
            hold_run_lock(tmp_path, wait=False),
        ):
            pass
    finally:
        holder.kill()
        holder.wait()


def test_another_run_waits_and_says_for_whom(tmp_path: Path) -> None:
    holder = start_holder(tmp_path, 2)
    told: list[str] = []
    with hold_run_lock(tmp_path, on_wait=told.append):
        assert holder.wait(timeout=5) == 0
    assert len(told) == 1
    assert f"process {holder.pid}" in told[0]


def test_a_token_of_an_earlier_run_does_not_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "0" * 32)
    holder = start_holder(tmp_path, 30)
    try:
        with pytest.raises(LockedError), hold_run_lock(tmp_path, wait=False):
            pass
    finally:
        holder.kill()
        holder.wait()


def test_a_killed_holder_leaves_no_lock_and_no_process(tmp_path: Path) -> None:
    holder = start_holder(tmp_path, 60)
    child = ProcessIdentity.of(int((tmp_path / "child").read_text()))
    assert child is not None
    holder.kill()
    holder.wait()
    # what it left behind is still there, and so is its name
    assert child.alive()
    assert read_owner(tmp_path) is not None
    with hold_run_lock(tmp_path, wait=False):
        assert not child.alive()
    assert lock_path(tmp_path).exists()
    assert not owner_path(tmp_path).exists()


def test_the_watchman_ends_what_a_killed_run_left(tmp_path: Path) -> None:
    holder = start_holder(tmp_path, 60, "guard")
    child = ProcessIdentity.of(int((tmp_path / "child").read_text()))
    assert child is not None
    holder.kill()
    holder.wait()
    wait_for(lambda: not child.alive(), "the child of the killed run to end", 15)


def test_the_watchman_goes_with_its_run(tmp_path: Path) -> None:
    with hold_run_lock(tmp_path, guard=True):
        guards = [process for process in psutil.Process().children() if "pipelines.guard" in process.cmdline()]
        assert len(guards) == 1
    assert not guards[0].is_running()


def test_a_living_holders_processes_are_never_ended(tmp_path: Path) -> None:
    with hold_run_lock(tmp_path):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
        time.sleep(0.3)
        assert end_leftovers(tmp_path) == []
        assert child.poll() is None
        child.kill()
        child.wait()


def test_an_owner_file_that_is_not_whole_names_nobody(tmp_path: Path) -> None:
    owner_path(tmp_path).parent.mkdir()
    owner_path(tmp_path).write_text("{")
    assert read_owner(tmp_path) is None
    with hold_run_lock(tmp_path, wait=False):
        assert is_held(tmp_path)
