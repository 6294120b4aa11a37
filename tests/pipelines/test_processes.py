"""A process is its number and its birth; its end is seen in every form."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pipelines.processes import ProcessIdentity, end_group, group_members, kill, last_line, processes_with

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_identity_survives_its_text() -> None:
    own = ProcessIdentity.current()
    assert ProcessIdentity.parse(str(own)).alive()
    assert ProcessIdentity.of(os.getpid()) == own


def test_another_process_with_the_same_number_is_not_meant() -> None:
    own = ProcessIdentity.current()
    assert own.alive()
    assert not ProcessIdentity(own.pid, own.created - 100).alive()


def test_a_process_that_ended_is_gone_before_it_is_collected() -> None:
    process = subprocess.Popen(SLEEP)
    identity = ProcessIdentity.of(process.pid)
    assert identity is not None
    assert identity.alive()
    process.kill()
    deadline = time.monotonic() + 5
    while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not identity.alive()
    process.wait()
    assert ProcessIdentity.of(process.pid) is None


def test_processes_are_found_by_what_they_were_started_with() -> None:
    marked = subprocess.Popen(SLEEP, env=os.environ | {"QUINTET_MARK": "this"})
    other = subprocess.Popen(SLEEP, env=os.environ | {"QUINTET_MARK": "that"})
    try:
        # the environment shows once the new program has begun
        deadline = time.monotonic() + 10
        while not (found := processes_with("QUINTET_MARK", "this")) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert [process.pid for process in found] == [marked.pid]
        kill(found)
        assert ProcessIdentity.of(marked.pid) is None
        assert other.poll() is None
    finally:
        for process in (marked, other):
            process.kill()
            process.wait()


def test_a_group_that_ignores_the_first_signal_is_killed() -> None:
    script = (
        "import signal, subprocess, sys, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint(1, flush=True)\n"
    )
    script += "subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    leader = subprocess.Popen([sys.executable, "-c", script], start_new_session=True, stdout=subprocess.PIPE)
    assert leader.stdout is not None
    leader.stdout.readline()
    deadline = time.monotonic() + 10
    while len(group_members(leader.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    end_group(leader.pid, signal.SIGINT, grace_seconds=0.3)
    assert leader.wait(timeout=5) == -signal.SIGKILL
    deadline = time.monotonic() + 5
    while group_members(leader.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert group_members(leader.pid) == []
    leader.stdout.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", ""), ("one\ntwo\n\n  \n", "two"), ("x" * 10_000 + "\nlast", "last"), ("\xff\n", "\ufffd")],
)
def test_the_last_line_of_a_log(tmp_path: Path, text: str, expected: str) -> None:
    log = tmp_path / "log"
    log.write_bytes(text.encode("latin-1"))
    assert last_line(log) == expected
    assert last_line(tmp_path / "absent") == ""
