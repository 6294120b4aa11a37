"""DVC's table of readers and writers: what dead processes left is mended, what living ones hold is waited for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from toy import Toy, kill_hard, wait_for

from components.errors import LockedError
from pipelines.dvclocks import Entry, clear_dead_entries, entries, is_busy, retry_while_busy
from pipelines.processes import ProcessIdentity
from pipelines.runner import Outcome, run_stage


def write_table(root: Path, content: str) -> Path:
    table = root / ".dvc" / "tmp" / "rwlock"
    table.parent.mkdir(parents=True, exist_ok=True)
    table.write_text(content)
    return table


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_only_dead_entries_are_removed(tmp_path: Path) -> None:
    own = " ".join(sys.argv)
    alive, dead = {"pid": os.getpid(), "cmd": own}, {"pid": dead_pid(), "cmd": "dvc repro"}
    content = {"write": {"/x/out": dead, "/x/kept": alive}, "read": {"/x/in": [dead, alive], "/x/old": [dead]}}
    table = write_table(tmp_path, json.dumps(content))
    removed = clear_dead_entries(tmp_path)
    assert {(entry.mode, entry.path) for entry in removed} == {
        ("write", "/x/out"),
        ("read", "/x/in"),
        ("read", "/x/old"),
    }
    assert json.loads(table.read_text()) == {"write": {"/x/kept": alive}, "read": {"/x/in": [alive]}}
    assert clear_dead_entries(tmp_path) == []


def test_a_number_given_to_another_program_is_a_dead_entry() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    try:
        assert not Entry(process.pid, "/usr/bin/dvc repro -s train@a", "write", "/x").alive()
        assert Entry(os.getpid(), " ".join(sys.argv), "write", "/x").alive()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("content", ["", '{"write": {"/x": {"pid"', "[]", '{"write": {"/x": {"pid": 1}}}'])
def test_half_a_table_is_emptied(tmp_path: Path, content: str) -> None:
    table = write_table(tmp_path, content)
    assert clear_dead_entries(tmp_path) == []
    assert json.loads(table.read_text()) == {}


def test_without_a_table_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert entries(tmp_path) == []
    assert clear_dead_entries(tmp_path) == []


def test_busy_is_tried_again_and_then_named(tmp_path: Path) -> None:
    own = {"pid": os.getpid(), "cmd": " ".join(sys.argv)}
    write_table(tmp_path, json.dumps({"write": {"/x/out": own}, "read": {}}))
    tried: list[int] = []

    def busy_once() -> str:
        tried.append(1)
        if len(tried) == 1:
            raise RuntimeError("'/x/out' is busy, it is being blocked by:\n  (PID 1): dvc")
        return "done"

    assert retry_while_busy(tmp_path, busy_once) == "done"
    assert len(tried) == 2

    def always_busy() -> None:
        raise RuntimeError("'/x/out' is busy, it is being blocked by:\n  (PID 1): dvc")

    with pytest.raises(LockedError, match=rf"held for more than 0 s by process {os.getpid()}"):
        retry_while_busy(tmp_path, always_busy, seconds=0)


def test_another_error_is_not_tried_again(tmp_path: Path) -> None:
    tried: list[int] = []

    def broken() -> None:
        tried.append(1)
        raise ValueError("no such stage")

    with pytest.raises(ValueError, match="no such stage"):
        retry_while_busy(tmp_path, broken)
    assert len(tried) == 1
    assert not is_busy("no such stage")


def test_a_killed_dvc_is_no_obstacle(toy: Toy) -> None:
    waiting = toy.ask("wait", "prepare@a")
    killed = toy.start("dvc", "repro", "-s", "prepare@a", **toy.dvc_variables)
    stage = ProcessIdentity.of(toy.pid_of("prepare@a"))
    assert [entry.pid for entry in entries(toy.root) if entry.mode == "write"] == [killed.pid]
    kill_hard(killed)
    wait_for(lambda: stage is None or not stage.alive(), "the orphan to end", 10)
    waiting.unlink()
    # one entry left by the kill, whose number now is another program's
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        table = toy.root / ".dvc" / "tmp" / "rwlock"
        table.write_text(table.read_text().replace(str(killed.pid), str(stranger.pid)))
        assert run_stage(toy.root, "prepare@a").outcome is Outcome.RAN
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
    assert entries(toy.root) == []


def test_a_living_dvc_is_waited_for(toy: Toy) -> None:
    waiting = toy.ask("wait", "prepare@a")
    other = toy.start("dvc", "repro", "-s", "prepare@a", **toy.dvc_variables)
    toy.pid_of("prepare@a")
    with pytest.raises(LockedError, match=rf"held for more than 1 s by process {other.pid} \(`.*repro -s prepare@a`\)"):
        run_stage(toy.root, "prepare@a", busy_seconds=1)
    waiting.unlink()
    result = run_stage(toy.root, "prepare@a", busy_seconds=60)
    assert result.outcome is Outcome.CACHED
    assert other.wait(timeout=20) == 0
    assert toy.calls == ["prepare@a"]
