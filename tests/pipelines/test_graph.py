"""The graph is DVC's, and so is what must run; the reasons are sentences."""

import shutil

import pytest
from toy import ADDRESSES, Toy

from components.errors import ConfigError, UsageError
from pipelines.graph import explain, read_graph

FRESH = "nothing changed"


def reasons(toy: Toy) -> dict[str, str]:
    return {stage.address: stage.reason for stage in read_graph(toy.root).stages if not stage.up_to_date}


def test_stages_and_their_order(toy: Toy) -> None:
    graph = read_graph(toy.root)
    addresses = [stage.address for stage in graph.stages]
    assert sorted(addresses) == sorted(ADDRESSES)
    for stage in graph.stages:
        assert all(addresses.index(above) < addresses.index(stage.address) for above in stage.depends_on)
    assert graph["train@a"].depends_on == ("prepare@a",)
    assert graph["train@a"].outputs == ("outputs/train/a",)
    assert "data/prepared/a" in graph["train@a"].inputs
    assert graph.ancestors("gate_model@b") == {"prepare@b", "train@b"}


def test_a_stage_that_does_not_exist(toy: Toy) -> None:
    with pytest.raises(UsageError, match=r"no stage 'train@c'.*train@a"):
        read_graph(toy.root)["train@c"]


def test_never_run(toy: Toy) -> None:
    assert reasons(toy) == dict.fromkeys(ADDRESSES, "never run")


def test_up_to_date(done: Toy) -> None:
    graph = read_graph(done.root)
    assert [stage.reason for stage in graph.stages] == [FRESH] * len(ADDRESSES)
    assert reasons(done) == {}


def test_code_changed(done: Toy) -> None:
    with (done.root / "components" / "stage.py").open("a") as file:
        file.write("# another thought\n")
    assert reasons(done) == dict.fromkeys(ADDRESSES, "code changed: components")


def test_parameter_changed(done: Toy) -> None:
    (done.root / "params.yaml").write_text("scale: tiny\nsize: 3\n")
    assert reasons(done) == dict.fromkeys(ADDRESSES, "parameter modified: size")


def test_a_parameter_that_no_stage_reads_changes_nothing(done: Toy) -> None:
    (done.root / "params.yaml").write_text("scale: quick\nsize: 1\n")
    assert reasons(done) == {}


def test_output_missing(done: Toy) -> None:
    shutil.rmtree(done.output("train@a"))
    assert reasons(done) == {
        "train@a": "output missing: outputs/train/a",
        "gate_model@a": "input missing: outputs/train/a (from train@a)",
    }


def test_output_changed_by_hand(done: Toy) -> None:
    (done.output("gate_model@b") / "value.txt").write_text("better")
    assert reasons(done) == {"gate_model@b": "output changed by hand: outputs/gate_model/b"}


def test_command_changed(done: Toy) -> None:
    graph = done.root / "dvc.yaml"
    graph.write_text(
        graph.read_text()
        .replace("stage.py gate_model@", "./stage.py gate_model@")
        .replace("components/./", "./components/")
    )
    assert reasons(done) == dict.fromkeys(("gate_model@a", "gate_model@b"), "command changed")


def test_long_reasons_are_cut_and_say_so() -> None:
    entries = [{"changed deps": {f"components/{name}": "modified" for name in "abcde"}}, "changed command"]
    assert explain(entries, {}) == "code changed: components/a; and 5 more"


def test_a_kind_of_change_that_we_do_not_know_is_shown_as_it_is() -> None:
    assert explain(["changed moon"], {}) == "changed moon"


def test_a_broken_graph_is_one_line(done: Toy) -> None:
    (done.root / "dvc.yaml").write_text("stages:\n  prepare:\n    cmd: [\n")
    with pytest.raises(ConfigError, match=r"^DVC cannot read the graph in [^\n]*$"):
        read_graph(done.root)
