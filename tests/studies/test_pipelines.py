"""How a study is divided among processes, how far it is told to be, and what is kept of its end."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.files import write_json
from components.studies.plan import FORMAT, Plan, Run
from components.studies.running import RESULT, account_path, run_folder
from pipelines.runner import ProcessGroups
from pipelines.studies.parts import divided, read_part, sharing, write_part
from pipelines.studies.processes import make_part
from pipelines.studies.progress import Count, Counter, duration
from pipelines.studies.results import StudyResult, load_result, save_result
from pipelines.studies.tables import short_links
from pipelines.studies.views import states_markdown
from tests.studies.conftest import study


def runs_of(count: int) -> tuple[Run, ...]:
    return tuple(Run(f"arm {number % 3}", number, f"{number:064d}", {"scale": "tiny"}, {}) for number in range(count))


def plan_with(runs: tuple[Run, ...], **changes: Any) -> Plan:
    return Plan("some", study(**changes), {}, runs)


@given(st.integers(1, 40), st.integers(1, 16))
def test_every_run_goes_to_one_process_and_processes_have_alike_many(count: int, at_once: int) -> None:
    runs = runs_of(count)
    parts = divided(plan_with(runs), runs, at_once, None)
    assert sorted(run.seed for part in parts for run in part.runs) == list(range(count))
    sizes = [len(part.runs) for part in parts]
    assert len(sizes) == min(count, at_once)
    assert max(sizes) - min(sizes) <= 1
    assert len({part.number for part in parts}) == len(parts)
    assert {part.options.at_once for part in parts} == {len(parts)}


def test_long_runs_get_a_process_each_and_the_choice_has_its_reason() -> None:
    runs = runs_of(5)
    assert sharing(study()) == (True, "runs of scale tiny are short")
    assert sharing(study(scale="cpu")) == (False, "runs of scale cpu are long")
    assert sharing(study(processes="own")) == (False, "the study says so")
    parts = divided(plan_with(runs, processes="own", budget={"minutes_per_run": 2}), runs, 2, "parent")
    assert [len(part.runs) for part in parts] == [1] * 5
    assert {part.options.at_once for part in parts} == {2}
    assert {part.options.seconds for part in parts} == {120}


def test_a_process_is_told_by_a_file(tmp_path: Path) -> None:
    runs = runs_of(3)
    (part,) = divided(plan_with(runs), runs, 1, "parent")
    assert read_part(write_part(tmp_path, part)) == part


def finish(root: Path, run: Run) -> None:
    write_json(run_folder(root, run.digest) / RESULT, {"format": FORMAT})


def say(root: Path, run: Run, state: str, error: str | None = None) -> None:
    write_json(account_path(root, run.digest), {"state": state, "error": error})


def test_counts_are_of_the_files_and_of_this_start(tmp_path: Path) -> None:
    runs = runs_of(6)
    finish(tmp_path, runs[0])
    say(tmp_path, runs[5], "failed", "of yesterday")
    os.utime(account_path(tmp_path, runs[5].digest), (1, 1))
    counter = Counter(tmp_path, runs, runs[1:])
    assert counter.count() == Count(done=1, running=0, failed=0, waiting=5, seconds_left=None)
    assert counter.count().left == "time left not known yet"
    say(tmp_path, runs[1], "running")
    say(tmp_path, runs[2], "failed", "nan")
    finish(tmp_path, runs[3])
    counter.clock = time.monotonic() - 10
    count = counter.count()
    assert (count.done, count.running, count.failed, count.waiting, count.total) == (2, 1, 1, 2, 6)
    # ten seconds for two that ended: five each for the three that are left
    assert count.seconds_left == pytest.approx(15, rel=0.1)
    assert str(count).startswith("2 of 6 runs done, 1 running, 1 failed, 2 waiting; about 15 s left")
    table = states_markdown(tmp_path, plan_with(runs), count)
    assert "| arm 0 | 2 | 0 | 0 | 0 |" in table
    assert "| arm 1 | 0 | 1 | 0 | 1 |" in table
    # what failed yesterday waits today; the table tells of the last attempt
    assert "| arm 2 | 0 | 0 | 2 | 0 |" in table


def test_runs_that_two_arms_share_are_counted_once(tmp_path: Path) -> None:
    runs = runs_of(2)
    counter = Counter(tmp_path, (*runs, *runs), runs)
    assert counter.count().total == 2


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (89, "89 s"), (120, "2 min"), (5399, "90 min"), (9000, "2.5 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_result_says_what_became_of_every_run(tmp_path: Path) -> None:
    result = StudyResult("some", 6, 2, 1, (("arm 0, seed 1", "the loss is nan"),), 130.0, ("a note",))
    save_result(tmp_path, result)
    assert load_result(tmp_path, "some") == result
    assert result.summary() == "study some: 6 runs: 2 made, 1 were there already, 1 failed, 2 not run, in 2 min"
    assert not result.succeeded
    assert StudyResult("some", 3, 2, 1, (), 1.0).succeeded
    assert not StudyResult("some", 4, 2, 1, (), 1.0).succeeded, "a run that is missing is no success"


def test_a_process_that_cannot_begin_fails_all_of_its_runs_with_a_reason(tmp_path: Path) -> None:
    """Outside a checkout the process ends before its first run; that must not go round for ever, nor pass."""
    runs = runs_of(3)
    (part,) = divided(plan_with(runs), runs, 1, None)
    assert make_part(tmp_path, part, ProcessGroups(), lambda line: None) == 3
    for run in runs:
        said = account_path(tmp_path, run.digest).read_text(encoding="utf-8")
        assert "its process ended with code 2" in said


def test_long_addresses_are_left_to_mlflow() -> None:
    assert short_links({"a": "/#/short", "b": "/#/" + "x" * 300}) == {"a": "/#/short"}
