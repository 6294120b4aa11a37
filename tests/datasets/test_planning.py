"""Which rows are used and in which split: whole groups, fair shares, nested choices, nothing in two splits."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.arrays import SPLITS
from components.datasets.core.holdout import hold_out
from components.datasets.core.options import PartOptions, RowLimits
from components.datasets.core.planning import LEFT_OUT, RowIndex, plan_rows
from components.datasets.core.sampling import smallest_hashes
from components.errors import DataError


def index_of(rows: int, groups: int = 0, published: tuple[str, ...] = ("train",), classes: int = 3) -> RowIndex:
    index = RowIndex()
    for i in range(rows):
        tied = (f"g{i % groups}",) if groups else ()
        index.add(published[i % len(published)], f"row {i}", i % classes, *tied)
    return index


@settings(deadline=None)
@given(st.integers(60, 400), st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_no_group_is_in_two_splits_and_shares_are_met(rows: int, groups: int, seed: int) -> None:
    index = index_of(rows, groups)
    plan = (
        plan_rows(index, PartOptions(seed=seed, validation=0.2, test=0.25)) if groups in (0, *range(12, 31)) else None
    )
    if plan is None:
        return
    assert set(plan.splits.tolist()) == {0, 1, 2}
    if groups:
        assert all(len({plan.splits[i] for i in range(g, rows, groups)}) == 1 for g in range(min(groups, rows)))
    else:
        counted = Counter((index.labels[i], int(plan.splits[i])) for i in range(rows))
        of_class = Counter(index.labels)
        for label, count in of_class.items():
            assert abs(counted[label, 2] - 0.25 * count) <= 1
            assert abs(counted[label, 1] - 0.2 * count) <= 1.5


def test_the_choice_owes_nothing_to_the_order_of_rows() -> None:
    index, options = index_of(200), PartOptions(seed=4)
    plan = plan_rows(index, options)
    order = np.random.default_rng(0).permutation(200)
    shuffled = RowIndex()
    for i in order:
        shuffled.add("train", index.identities[i], index.labels[i])
    assert plan_rows(shuffled, options).splits.tolist() == plan.splits[order].tolist()
    assert plan_rows(index, PartOptions(seed=5)).splits.tolist() != plan.splits.tolist()


def test_published_splits_stand() -> None:
    index = index_of(90, published=SPLITS)
    plan = plan_rows(index, PartOptions(seed=1))
    assert [SPLITS[code] for code in plan.splits] == index.splits
    index = index_of(90, published=("train", "train", "test"))
    plan = plan_rows(index, PartOptions(seed=1, validation=0.25))
    assert [SPLITS[code] == "test" for code in plan.splits] == [split == "test" for split in index.splits]
    assert plan.rows()["test"] == 30
    assert abs(plan.rows()["validation"] - 15) <= 1
    assert plan.facts["published_splits"] == ["train", "test"]


def copies() -> RowIndex:
    """Row 1 is row 0 again; row 3 of train is also in validation, row 4 also in test."""
    index = RowIndex()
    for split, identity in (
        ("train", "a"), ("train", "a"), ("train", "b"), ("train", "c"), ("train", "d"),
        ("validation", "c"), ("validation", "e"), ("test", "d"), ("test", "f"), ("test", "f"),
    ):  # fmt: skip
        index.add(split, identity, 0)
    return index


@pytest.mark.parametrize(
    ("drop", "left_out"),
    [((), []), (("within",), [1, 9]), (("across",), [3, 4]), (("within", "across"), [1, 3, 4, 9])],
    ids=["none", "within", "across", "both"],
)
def test_copies_are_counted_and_dropped_as_asked(drop: tuple[str, ...], left_out: list[int]) -> None:
    plan = plan_rows(copies(), PartOptions(seed=1, drop_duplicates=drop))
    assert plan.facts["duplicates"] == {"within": 2, "across": 2}
    assert np.flatnonzero(plan.splits == LEFT_OUT).tolist() == left_out


def test_copies_that_are_kept_stay_in_one_split() -> None:
    index = RowIndex()
    for i in range(120):
        index.add("train", f"row {i % 60}", i % 2)
    plan = plan_rows(index, PartOptions(seed=2))
    assert plan.splits[:60].tolist() == plan.splits[60:].tolist()


def test_groups_that_share_a_row_are_one_group() -> None:
    index = RowIndex()
    for i in range(100):
        # groups in pairs, tied by one row that stands in both
        index.add("train", f"tie {i // 10}" if i % 5 == 0 else f"row {i}", 0, f"group {i // 5}")
    plan = plan_rows(index, PartOptions(seed=3, validation=0.3, test=0.3))
    assert all(len(set(plan.splits[start : start + 10].tolist())) == 1 for start in range(0, 100, 10))


@given(st.lists(st.lists(st.integers(0, 30), max_size=3), min_size=3, max_size=40))
def test_rows_are_called_by_all_that_ties_them(ties: list[list[int]]) -> None:
    index = RowIndex()
    for i, of_row in enumerate(ties):
        # all splits are published, so that no row has to be held out
        index.add(("train", "validation", "test")[i % 3], f"row {i}", 0, *map(str, of_row))
    names = plan_rows(index, PartOptions(seed=1)).groups
    # an independent look: rows reached from a row by going from tie to tie
    for i, of_row in enumerate(ties):
        reached, known = {i}, set(of_row)
        while True:
            more = {j for j, other in enumerate(ties) if known & set(other)} | reached
            if more == reached:
                break
            reached, known = more, known.union(*(ties[j] for j in more))
        assert {j for j, name in enumerate(names) if name == names[i]} == reached


@given(st.integers(1, 40), st.integers(1, 40))
@settings(deadline=None)
def test_a_smaller_choice_is_part_of_a_larger_one(small: int, large: int) -> None:
    small, large = sorted((small, large))
    index = index_of(150)
    chosen = []
    for count in (small, large):
        plan = plan_rows(index, PartOptions(seed=1, rows=RowLimits(train=count)))
        assert plan.rows()["train"] == count
        chosen.append(set(np.flatnonzero(plan.splits == 0).tolist()))
    assert chosen[0] <= chosen[1]


def test_smallest_hashes_are_those_of_the_digests() -> None:
    import hashlib

    keys = [f"key {i}" for i in range(50)]
    digests = sorted(keys, key=lambda key: hashlib.sha256(key.encode()).hexdigest())
    assert {keys[i] for i in smallest_hashes(keys, 7)} == set(digests[:7])
    assert smallest_hashes(keys, 99).tolist() == list(range(50))
    assert smallest_hashes([b"x", b"x", b"x"], 2).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("labels", "groups"), [([0], ["a"]), ([0] * 9, ["a"] * 9), ([], [])], ids=["one row", "one group", "nothing"]
)
def test_what_cannot_be_parted_is_refused(labels: list[int], groups: list[str]) -> None:
    with pytest.raises(DataError, match=rf"{len(labels)} rows in {len(set(groups))} groups cannot be parted"):
        hold_out(labels, groups, 1, 0.2)


def test_fractions_must_leave_rows() -> None:
    with pytest.raises(ValueError, match="leave no rows to train on"):
        PartOptions(seed=1, validation=0.5, test=0.5)
    with pytest.raises(ValueError, match=r"fraction is 1.5, allowed is more than 0 and less than 1"):
        hold_out([0, 1], ["a", "b"], 1, 1.5)
