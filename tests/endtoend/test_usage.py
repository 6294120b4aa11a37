"""What a wrong call or a refusal says and with which code it ends, in the real graph."""

import pytest

from tests.endtoend.copies import Copy
from tests.endtoend.undisturbed import First, differences

pytestmark = pytest.mark.endtoend


@pytest.fixture(scope="module")
def copy(by_flow: First) -> Copy:
    """The copy of the first run itself: a refused call changes nothing."""
    return by_flow.copy


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("run", "--scale", "huge"), 2, "there is no scale 'huge' in conf/scale/; there are: "),
        (("run", "--scale", "tiny", "--set", "experiments.orbital-kind.sed=1"), 2, "sed"),
        (("run", "--scale", "tiny", "--set", "+experiments.orbital-kind.sed=1"), 2, "sed: Extra inputs are not"),
        (("run", "--scale", "tiny", "--set", "experiments.orbital-kind.training.epochs=0"), 2, "training.epochs"),
        (("run", "--scale", "tiny", "--set", "experiments.orbital-kind.seed=null"), 2, "orbital-kind.seed"),
        (("stage", "train@orbital-shape"), 2, "there is no stage 'train@orbital-shape'; the graph has: "),
        (("stage", "bake@orbital-kind"), 2, "there is no stage 'bake@orbital-kind'"),
        (("serve", "orbital-shape"), 1, "orbital-shape"),
        (("data", "check", "orbital-shape"), 2, "orbital-shape"),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, tuple) else "",
)
def test_a_wrong_call_is_one_line_and_changes_nothing(
    copy: Copy, by_flow: First, arguments: tuple[str, ...], code: int, said: str
) -> None:
    before = (copy.root / "params.yaml").read_bytes(), (copy.root / "dvc.lock").read_bytes()
    ended = copy.quintet(*arguments)
    assert ended.code == code, ended.text
    (line,) = ended.errors
    assert said in line
    assert "Traceback" not in ended.text
    assert ((copy.root / "params.yaml").read_bytes(), (copy.root / "dvc.lock").read_bytes()) == before
    assert differences(copy.outputs(), by_flow.outputs) == []


def test_a_gate_that_refuses_stops_what_comes_after_it(done: Copy, by_flow: First, server: dict[str, str]) -> None:
    wanted = "datasets.orbital-sample.gate.min_rows=2000"
    ended = done.run_graph("--scale", "tiny", "--set", wanted, **server)
    assert ended.code == 1, ended.text
    (line,) = ended.errors
    assert line.startswith("error: gate_data@orbital-sample: data/prepared/orbital-sample/table.csv")
    assert "1500 rows" in line or "got 1500" in line
    (row,) = [line for line in ended.text.splitlines() if line.startswith("│ gate_data@orbital-sample ")]
    assert "failed" in row
    assert row.rstrip(" │").endswith("refused")
    outcomes = done.outcomes()
    assert outcomes.pop("gate_data@orbital-sample") == "failed"
    others = ("orbital-tle-sample", "fashion", "reviews", "rotten")
    untouched = {address for address in outcomes if address.partition("@")[2].startswith(others)}
    untouched |= {"prepare@orbital-sample"}
    assert len(untouched) == 15
    assert {outcomes.pop(address) for address in untouched} == {"cached"}
    assert set(outcomes.values()) == {"not run"}
    assert differences(done.outputs(), by_flow.outputs) == []
    # asking for what there is makes all well again
    ended = done.run_graph("--scale", "tiny", **server)
    assert ended.code == 0, ended.text
    assert set(done.outcomes().values()) == {"cached"}
