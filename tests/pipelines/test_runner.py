"""One stage: every way in which it may end is told apart, and none leaves a process."""

import os
import shutil
import signal
import threading

import pytest
from toy import Toy, graph_text, wait_for

from components.files import write_json
from pipelines.dvclocks import entries
from pipelines.processes import ProcessIdentity
from pipelines.runner import Outcome, ProcessGroups, info_path, run_stage


def test_ran_then_cached(toy: Toy) -> None:
    result = run_stage(toy.root, "prepare@a")
    assert (result.outcome, result.why) == (Outcome.RAN, "")
    assert result.seconds > 0
    assert "working on prepare@a" in toy.log("prepare@a")
    assert run_stage(toy.root, "prepare@a").outcome is Outcome.CACHED
    assert toy.calls == ["prepare@a"]


def test_only_the_stage_that_was_named(toy: Toy) -> None:
    result = run_stage(toy.root, "train@a")
    assert result.outcome is Outcome.FAILED
    assert "data/prepared/a" in result.why
    assert toy.calls == []


def test_force_runs_a_cached_stage(done: Toy) -> None:
    assert run_stage(done.root, "prepare@a", force=True).outcome is Outcome.RAN
    assert done.calls == ["prepare@a"]


def test_restored_from_the_cache_of_runs(toy: Toy) -> None:
    # DVC keeps runs of stages whose outputs it may delete first
    (toy.root / "dvc.yaml").write_text(graph_text(persist=False))
    assert run_stage(toy.root, "prepare@a").outcome is Outcome.RAN
    before = toy.value("prepare@a")
    shutil.rmtree(toy.output("prepare@a"))
    assert run_stage(toy.root, "prepare@a").outcome is Outcome.RESTORED
    assert toy.value("prepare@a") == before
    assert toy.calls == ["prepare@a"]


def test_a_refusal_is_its_last_line_and_the_old_output_stays(done: Toy) -> None:
    before = done.value("prepare@a")
    done.ask("fail", "prepare@a")
    result = run_stage(done.root, "prepare@a", force=True)
    assert (result.outcome, result.why) == (Outcome.FAILED, "prepare@a refused: row 7 of table.csv has no period")
    assert done.value("prepare@a") == before


def test_what_a_stage_says_of_itself_comes_first(toy: Toy) -> None:
    toy.ask("fail", "prepare@a")
    stage = toy.root / "components" / "stage.py"
    stage.write_text(
        stage.read_text().replace('    if (root / f"fail.{address}")', SAYS + '    if (root / f"fail.{address}")')
    )
    assert run_stage(toy.root, "prepare@a").why == "the sum of column 3 is odd"


def test_what_a_stage_said_in_an_earlier_run_is_not_repeated(toy: Toy) -> None:
    toy.ask("fail", "prepare@a")
    info = info_path(toy.root, "prepare@a")
    write_json(info, {"state": "failed", "error": "old news"})
    os.utime(info, (1, 1))
    assert "row 7" in run_stage(toy.root, "prepare@a").why


def test_a_killed_stage_is_said_to_be_killed(toy: Toy) -> None:
    toy.ask("wait", "prepare@a")
    killer = threading.Thread(target=lambda: os.kill(toy.pid_of("prepare@a"), signal.SIGKILL))
    killer.start()
    result = run_stage(toy.root, "prepare@a")
    killer.join()
    assert (result.outcome, result.why) == (Outcome.FAILED, "the stage's process was ended by signal 9 (SIGKILL)")


def test_lines_are_told_while_it_runs(toy: Toy) -> None:
    waiting = toy.ask("wait", "prepare@a")
    lines: list[str] = []

    def told(line: str) -> None:
        lines.append(line)
        if line == "working on prepare@a":
            waiting.unlink()

    run_stage(toy.root, "prepare@a", on_line=told)
    assert "working on prepare@a" in lines


def test_ending_all_groups_ends_dvc_and_stage_in_order(toy: Toy) -> None:
    toy.ask("wait", "prepare@a")
    groups = ProcessGroups()
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(run_stage(toy.root, "prepare@a", groups=groups).outcome))
    thread.start()
    stage = ProcessIdentity.of(toy.pid_of("prepare@a"))
    assert stage is not None
    groups.end_all()
    thread.join(timeout=20)
    assert outcomes == [Outcome.FAILED]
    assert not stage.alive()
    # the interrupt let DVC give back what it held
    assert entries(toy.root) == []
    # and nothing starts after the end
    assert run_stage(toy.root, "prepare@b", groups=groups).outcome is Outcome.FAILED
    assert toy.calls == ["prepare@a"]


def test_what_a_stage_leaves_running_ends_with_it(toy: Toy) -> None:
    stage = toy.root / "components" / "stage.py"
    left = toy.root / "calls.left"
    start = "import subprocess\nchild = subprocess.Popen(['sleep', '120'])\n"
    start += f"pathlib.Path({str(left)!r}).write_text(str(child.pid))\n"
    stage.write_text(stage.read_text().replace("end_with_parent()\naddress", f"end_with_parent()\n{start}address"))
    assert run_stage(toy.root, "prepare@a").outcome is Outcome.RAN
    child = ProcessIdentity.of(int(left.read_text()))
    wait_for(lambda: child is None or not child.alive(), "the child of the stage to end", 5)


@pytest.mark.parametrize("address", ["prepare@c", "nonsense"])
def test_a_stage_that_does_not_exist_fails_in_words(toy: Toy, address: str) -> None:
    result = run_stage(toy.root, address)
    assert result.outcome is Outcome.FAILED
    assert address in result.why


SAYS = """
    info = root / "run_info" / "stages" / f"{address}.json"
    info.parent.mkdir(parents=True, exist_ok=True)
    info.write_text(json.dumps({"state": "failed", "error": "the sum of column 3 is odd"}))
"""
