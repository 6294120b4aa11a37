"""Setting values by dotted names, and naming differences."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.errors import ConfigError
from components.studies.knobs import differing, flattened, with_settings

PARAMS: dict[str, Any] = {
    "datasets": {"d": {"prepare": {"max_rows": 5}}},
    "experiments": {"e": {"seed": 1, "model": {"dim": 4}}, "other": {"model": {"dim": 4}}},
}
# Sections nest, values are scalars or lists, and no section is empty: one that is has no value to tell.
NAMES = st.text("abc", min_size=1, max_size=2)
CONFIGS = st.recursive(
    st.dictionaries(NAMES, st.one_of(st.integers(), st.lists(st.integers())), min_size=1, max_size=3),
    lambda below: st.dictionaries(NAMES, below, min_size=1, max_size=3),
    max_leaves=6,
)


def test_knobs_are_set_in_the_experiment_or_in_the_data_and_nowhere_else() -> None:
    before = copy.deepcopy(PARAMS)
    changed = with_settings(PARAMS, "e", {"model.dim": 8, "model.new": [1], "datasets.d.prepare.max_rows": 7}, "here")
    assert before == PARAMS
    assert changed["experiments"] == {"e": {"seed": 1, "model": {"dim": 8, "new": [1]}}, "other": {"model": {"dim": 4}}}
    assert changed["datasets"]["d"]["prepare"]["max_rows"] == 7


@pytest.mark.parametrize(
    ("knob", "said"),
    [
        ("training.epochs", r"here: training.epochs has no place .* has model, seed, and no section 'training'"),
        ("model.dim.deep", r"no section 'dim'"),
        ("seed.deep", r"no section 'seed'"),
        ("datasets.x.prepare.max_rows", r"datasets has d, and no section 'x'"),
        ("model", r"model is a section, not a value; name one of dim"),
    ],
)  # fmt: skip
def test_a_knob_without_a_place_is_refused(knob: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        with_settings(PARAMS, "e", {knob: 1}, "here")


@given(CONFIGS)
def test_flattening_loses_nothing(config: dict[str, Any]) -> None:
    rebuilt: dict[str, Any] = {}
    for name, value in flattened(config).items():
        section = rebuilt
        *path, last = name.split(".")
        for part in path:
            section = section.setdefault(part, {})
        section[last] = value
    assert rebuilt == config


@given(CONFIGS, CONFIGS)
def test_differences_are_symmetric_and_absent_only_between_equals(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    one, other = flattened(first), flattened(second)
    assert differing(one, other) == differing(other, one)
    assert (differing(one, other) == ()) == (one == other)
    assert all(one.get(name) != other.get(name) or (name in one) != (name in other) for name in differing(one, other))
