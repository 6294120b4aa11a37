"""After a deletion or a sudden end, the next run puts right what is wrong and nothing else."""

import pytest

from components.files import read_json
from tests.endtoend import store
from tests.endtoend.copies import Copy, kill_hard, wait_for
from tests.endtoend.undisturbed import First, differences, traces

pytestmark = pytest.mark.endtoend

# The watchman looks twice a second and gives what it ends three seconds.
ENDED_SECONDS = 30


def test_a_deleted_output_alone_is_made_again(done: Copy, by_flow: First, server: dict[str, str]) -> None:
    lock = (done.root / "dvc.lock").read_bytes()
    for address in ("prepare@orbital-tle-sample", "gate_export@orbital-kind"):
        done.forget(address)
        done.forget_notes()
        ended = done.run_graph(**server)
        assert ended.code == 0, ended.text
        assert set(done.stages_started()) == {address}
        assert {name for name, outcome in done.outcomes().items() if outcome != "cached"} == {address}
        assert differences(done.outputs(), by_flow.outputs) == []
        assert (done.root / "dvc.lock").read_bytes() == lock


def test_the_flow_is_killed(done: Copy, by_flow: First, server: dict[str, str]) -> None:
    begun = {"train@orbital-regime", "evaluate@orbital-kind"}
    done.forget(*begun)
    done.forget_notes()
    # with a Prefect server of its own, which must end as well
    process = done.start("quintet", "run")
    wait_for(lambda: begun <= set(done.stages_started()), "two stages to run")
    kill_hard(process.pid)
    done.wait(process)
    wait_for(lambda: not done.living(), "all processes of the killed run to end", ENDED_SECONDS)
    assert traces(done, by_flow, done.quintet("run", **server)) == []


def test_a_stage_and_a_trainer_are_killed(done: Copy, by_flow: First, server: dict[str, str]) -> None:
    trainer, stage = "train@orbital-kind", "export@orbital-regime"
    done.forget(trainer, stage)
    done.forget_notes()
    # some milliseconds after the checkpoint of the third of eight epochs, so in the middle of the fourth
    sudden_end = '{"command": "train@orbital-kind", "file": "last.ckpt", "count": 3, "seconds": 0.01}'
    process = done.start("quintet", "run", QUINTET_TEST_KILL=sudden_end, **server)
    wait_for(lambda: stage in done.stages_started(), "the stage to run")
    kill_hard(done.stages_started()[stage])
    ended = done.wait(process)
    assert ended.code == 1, ended.text
    assert "Traceback" not in ended.text
    outcomes = done.outcomes()
    for address in (trainer, stage):
        assert f"error: {address}: the stage's process was ended by signal 9 (SIGKILL)" in ended.errors
        assert outcomes[address] == "failed"
        assert all(outcomes[below] == "not run" for below in done.below(address)[1:])
    assert outcomes["gate_model@orbital-regime"] == "cached"
    assert not (done.root / "outputs" / "train" / "orbital-kind").exists()
    assert len(list((done.root / ".quintet" / "checkpoints").glob("*/last.ckpt"))) == 1
    # the steps after the graph have seen that nobody fills the run any more
    assert "RUNNING" not in store.statuses(done.root)
    assert traces(done, by_flow, done.quintet("run", **server)) == []
    facts = read_json(done.root / "run_info" / "stages" / f"{trainer}.json")
    assert facts["resumed"] is True
