"""Studies as a user runs them: killed, interrupted, gone on with, at once and one after the other, with a bad arm."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.endtoend import store
from tests.endtoend.copies import Copy, duplicate, kill_hard, make_copy, wait_for
from tests.endtoend.studies import NAME, STUDY, accounts, comparison, finished, results, write_studies

pytestmark = pytest.mark.endtoend

ENDED_SECONDS = 30
RUNS = 12


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    copy = make_copy(tmp_path_factory.mktemp("studies") / "fresh")
    # an arm of a second study that cannot train, beside two that can
    broken = {
        **STUDY,
        "grid": {"training.learning_rate": [0.1, 1e30, 0.2]},
        "reference": "learning_rate=0.1",
        "seeds": [1, 2],
    }
    write_studies(copy, **{NAME: STUDY, "broken": broken})
    return copy


@pytest.fixture(scope="module")
def undisturbed(fresh: Copy, tmp_path_factory: pytest.TempPathFactory, server: dict[str, str]) -> Iterator[Copy]:
    """The study made in one go, two processes at once."""
    copy = duplicate(fresh, tmp_path_factory.mktemp("undisturbed") / "copy")
    ended = copy.quintet("ablate", NAME, "--max-parallel", "2", **server)
    assert ended.code == 0, ended.text
    assert f"{RUNS} runs: {RUNS} made" in ended.text
    yield copy
    copy.kill_all()


@pytest.fixture
def twin(fresh: Copy, tmp_path: Path) -> Iterator[Copy]:
    copy = duplicate(fresh, tmp_path / "copy")
    yield copy
    copy.kill_all()


def test_a_study_killed_twice_ends_as_one_undisturbed(undisturbed: Copy, twin: Copy, server: dict[str, str]) -> None:
    # one process at a time: what runs at once elsewhere runs one after the other here
    command = ("quintet", "ablate", NAME, "--max-parallel", "1")
    process = twin.start(*command, **server)
    wait_for(lambda: len(finished(twin)) >= 2, "two runs")
    kill_hard(process.pid)
    twin.wait(process)
    wait_for(lambda: not twin.living(), "all processes of the killed study to end", ENDED_SECONDS)
    first = results(twin)
    assert 2 <= len(finished(twin)) < RUNS

    process = twin.start(*command, **server)
    wait_for(lambda: len(finished(twin)) >= 5, "five runs")
    os.kill(process.pid, signal.SIGINT)
    ended = twin.wait(process)
    assert ended.code not in (0, 2), ended.text
    assert "interrupted" in ended.text
    wait_for(lambda: not twin.living(), "all processes of the interrupted study to end", ENDED_SECONDS)
    made = len(finished(twin))
    assert 5 <= made < RUNS
    started = {digest: said["started"] for digest, said in accounts(twin).items() if digest in finished(twin)}

    ended = twin.quintet(*command[1:], **server)
    assert ended.code == 0, ended.text
    assert f"{RUNS} runs: {RUNS - made} made, {made} were there already" in ended.text
    assert {digest: accounts(twin)[digest]["started"] for digest in started} == started, "a finished run ran again"
    assert first.items() <= results(twin).items()
    assert results(twin) == results(undisturbed)
    assert comparison(twin) == comparison(undisturbed)
    assert "RUNNING" not in store.statuses(twin.root)


def test_nothing_is_made_twice_and_a_deleted_store_comes_back(undisturbed: Copy, server: dict[str, str]) -> None:
    before, compared = results(undisturbed), comparison(undisturbed)
    assert "training.checkpoint_every_epochs is dead" in undisturbed.quintet("compare", NAME).text
    for path in (undisturbed.root / "mlflow").glob("mlflow.db*"):
        path.unlink()
    ended = undisturbed.quintet("ablate", NAME, **server)
    assert ended.code == 0, ended.text
    assert f"{RUNS} runs: 0 made, {RUNS} were there already" in ended.text
    assert results(undisturbed) == before
    assert comparison(undisturbed) == compared
    # the study's own run and its children
    assert store.statuses(undisturbed.root) == ["FINISHED"] * (RUNS + 1)


def test_a_failing_arm_is_reported_and_takes_nothing_with_it(twin: Copy, server: dict[str, str]) -> None:
    ended = twin.quintet("ablate", "broken", **server)
    assert ended.code == 1, ended.text
    assert "Traceback" not in ended.text
    assert len([line for line in ended.errors if line.startswith("error: learning_rate=1e+30, seed ")]) == 2
    assert "6 runs: 4 made, 0 were there already, 2 failed" in ended.text
    assert "arm learning_rate=1e+30 is left out, it lacks 2 runs" in ended.text
    assert "learning_rate=0.2" in (twin.root / "outputs/studies/broken/table.csv").read_text(encoding="utf-8")


def test_a_process_that_dies_takes_one_run_with_it(twin: Copy, server: dict[str, str]) -> None:
    process = twin.start("quintet", "ablate", NAME, "--max-parallel", "1", **server)
    wait_for(lambda: len(finished(twin)) >= 1, "a run")
    (part,) = (found for found in twin.living() if "study-part" in found.cmdline())
    # between two runs nothing is lost, so it must die within one
    wait_for(lambda: "running" in {said["state"] for said in accounts(twin).values()}, "another run to begin")
    kill_hard(part.pid)
    ended = twin.wait(process)
    assert ended.code == 1, ended.text
    (line,) = ended.errors
    assert "its process was ended by signal 9 (SIGKILL); it may have run out of memory" in line
    assert len(finished(twin)) == RUNS - 1
    ended = twin.quintet("ablate", NAME, **server)
    assert ended.code == 0, ended.text
    assert f"{RUNS} runs: 1 made, {RUNS - 1} were there already" in ended.text


def test_wrong_usage_ends_with_2_and_one_line(twin: Copy, server: dict[str, str]) -> None:
    write_studies(
        twin,
        **{
            NAME: STUDY,
            "broken": STUDY,
            "misspelt": {**STUDY, "grid": {"training.timescale_ratios": [1, 2]}, "reference": "timescale_ratios=1"},
            "unmeasured": {**STUDY, "metric": "test/f1", "seeds": [1]},
        },
    )
    for arguments, said in (
        (("ablate", "misspelt"), "training.timescale_ratios: Extra inputs are not permitted"),
        (("ablate", "unmeasured"), "compares by 'test/f1', which its runs do not have; they have: "),
        (
            ("ablate", "nobody"),
            "there is no study 'nobody' in ablations.yaml; there are: small, broken, misspelt, unmeasured",
        ),
        (("compare", NAME), "study 'small' has not been run here; `quintet ablate small` does"),
    ):
        ended = twin.quintet(*arguments, **server)
        assert ended.code == 2, ended.text
        (line,) = ended.errors
        assert said in line
    listed = twin.quintet("studies")
    assert listed.code == 0
    assert "4 x 3" in listed.text
