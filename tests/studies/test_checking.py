"""What differs undeclared, and which switches are dead, read from results alone."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.studies.checking import same_order, switches, undeclared_differences

KNOBS = ("model.dim", "training.threads")


def result(output: str = "x", **settings: Any) -> dict[str, Any]:
    return {
        "method": "m",
        "experiment": "e",
        "scale": "tiny",
        "device": "cpu",
        "code": "c",
        "versions": {"torch": "2"},
        "data": {"data/prepared/d": {"sha256": "1"}},
        "data_order": ["a", "b"],
        "settings": {"model.dim": 4, "training.threads": 1, "training.epochs": 2, **settings},
        "output": output,
    }


def results() -> dict[str, dict[int, dict[str, Any]]]:
    return {
        "base": {1: result("p"), 2: result("q")},
        "wide": {1: result("r", **{"model.dim": 8}), 2: result("s", **{"model.dim": 8})},
    }


def test_declared_knobs_are_no_difference() -> None:
    assert undeclared_differences(results(), "base", KNOBS) == ()


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("settings", "training.epochs"), 3, "training.epochs is 3, that of the reference is 2"),
        (("settings", "model.other"), 3, "model.other is 3, that of the reference is None"),
        (("device",), "gpu", "device is 'gpu', that of the reference is 'cpu'"),
        (("code",), "d", "code is 'd'"),
        (("versions", "torch"), "3", "version of torch is '3'"),
        (("data", "data/prepared/d"), {"sha256": "2"}, "data/prepared/d is"),
        (("data_order",), ["z", "b"], "order of the training rows is ['z']"),
        (("scale",), "quick", "scale is 'quick'"),
    ],
)
def test_whatever_else_differs_is_named_with_arm_and_seed(path: tuple[str, ...], value: Any, said: str) -> None:
    planted = results()
    place: Any = planted["wide"][2]
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    (found,) = undeclared_differences(planted, "base", KNOBS)
    assert (found.arm, found.seed) == ("wide", 2)
    assert str(found).startswith("arm wide, seed 2: ")
    assert said in str(found)


def test_other_data_are_no_difference_where_the_study_varies_them() -> None:
    planted = results()
    for run in planted["wide"].values():
        run["data"] = {"data/prepared/e": {"sha256": "2"}}
        run["data_order"] = ["z"]
        run["settings"] |= {"dataset": "e", "datasets.e.prepare.rows": 3}
    assert undeclared_differences(planted, "base", (*KNOBS, "dataset")) == ()
    assert undeclared_differences(planted, "base", KNOBS)


@given(st.lists(st.sampled_from("ab"), max_size=4), st.lists(st.sampled_from("ab"), max_size=4))
def test_orders_agree_as_far_as_both_go(first: list[str], second: list[str]) -> None:
    common = min(len(first), len(second))
    assert same_order(first, second) == (first[:common] == second[:common])
    assert same_order(first, second) == same_order(second, first)


def test_a_live_switch_is_counted_by_pairs_that_differ_in_it_alone() -> None:
    dim, threads = switches(results(), KNOBS)
    assert (dim.pairs, dim.equal, dim.dead) == (2, 0, False)
    assert str(dim) == "model.dim changes the output in 2 of 2 pairs"
    assert (threads.pairs, threads.alone, threads.dead) == (0, False, False)
    assert "never varied alone" in str(threads)


def test_a_switch_is_dead_only_when_no_arm_and_no_seed_feels_it() -> None:
    planted = results()
    planted["two threads"] = {seed: copy.deepcopy(run) for seed, run in planted["base"].items()}
    planted["both"] = {seed: copy.deepcopy(run) for seed, run in planted["wide"].items()}
    for arm in ("two threads", "both"):
        for run in planted[arm].values():
            run["settings"]["training.threads"] = 2
    dim, threads = switches(planted, KNOBS)
    assert not dim.dead
    assert dim.pairs == 4
    assert (threads.dead, threads.pairs) == (True, 4)
    assert "training.threads is dead: in all 4 pairs" in str(threads)
    planted["both"][2]["output"] = "another"
    assert not switches(planted, KNOBS)[1].dead


def test_seeds_are_never_mixed() -> None:
    """Two seeds of one arm differ in no knob; they are no pair."""
    planted = {"base": {1: result("p"), 2: result("p")}}
    assert switches(planted, ("model.dim",))[0].pairs == 0
