"""How rows are worked out again: right on what is right, and in words on what is not."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.quality.longrange.reworked import connected_groups, evaluated

TREES = st.recursive(
    st.integers(0, 9),
    lambda inner: st.tuples(st.sampled_from(["[MIN", "[MAX", "[MED", "[SM"]), st.lists(inner, min_size=1, max_size=5)),
    max_leaves=25,
)


def written(tree: Any) -> list[str]:
    return [str(tree)] if isinstance(tree, int) else [tree[0], *(w for part in tree[1] for w in written(part)), "]"]


def worth(tree: Any) -> int:
    if isinstance(tree, int):
        return tree
    values = sorted(worth(part) for part in tree[1])
    by_name = {
        "[MIN": values[0],
        "[MAX": values[-1],
        "[MED": (values[(len(values) - 1) // 2] + values[len(values) // 2]) // 2,
        "[SM": sum(values) % 10,
    }
    return by_name[tree[0]]


@given(TREES)
def test_expressions_are_worth_what_their_trees_are(tree: Any) -> None:
    assert evaluated(written(tree)) == worth(tree)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("[MIN ]", "a list [MIN without members"),
        ("[MIN 1 2", "a list [MIN that is not closed"),
        ("[MIN 1 [MAX 2 ]", "a list [MIN that is not closed"),
        ("1 ]", "2 values in place of one"),
        ("]", "1 values in place of one"),
        ("1 2", "2 values in place of one"),
        ("] 3 [MIN", "a list [MIN without members"),
        ("[MIN 1 x ]", "the unknown token 'x'"),
        ("", "0 values in place of one"),
    ],
)
def test_what_is_no_expression_is_told(words: str, fault: str) -> None:
    assert evaluated(words.split()) == fault


def test_dashes_are_grouped_by_their_nearest_ends_whatever_their_order() -> None:
    chain = [[0.0, 0, 0, 2], [0.0, 4, 0, 6], [0.0, 8, 2, 8]]
    lone = [[9.0, 0, 9, 2]]
    order = np.asarray([2, 3, 0, 1])
    groups = connected_groups(np.asarray(chain + lone)[order], 2.0)
    assert groups[0] == groups[2] == groups[3] != groups[1]
    assert len(set(connected_groups(np.asarray(chain + lone), 1.9).tolist())) == 4
