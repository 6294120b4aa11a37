"""ListOps: every expression is well formed and worth its label, of the lengths that are asked for, and comes once."""

import statistics
from collections import Counter, deque
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from components.arrays import SPLITS
from components.datasets.longrange import listops
from components.datasets.longrange.config import ListOpsOptions, PrepareOptions
from components.datasets.longrange.listops import CLASSES, OPERATORS, VOCABULARY, sequences
from components.datasets.longrange.source import SequenceRow
from components.errors import ConfigError, DataError
from tests.datasets.sequences import generated_entry, in_memory, rows_options, silent

SHORT = {"min_length": 20, "max_length": 90}


def short_rows(rows: tuple[int, int, int] = (200, 30, 30), seed: int = 7, **form: int) -> list[SequenceRow]:
    return in_memory(sequences(rows_options("listops", rows, seed, listops=SHORT | form), silent))


@pytest.fixture(scope="module")
def rows() -> list[SequenceRow]:
    return short_rows()


@pytest.fixture(scope="module")
def published() -> list[SequenceRow]:
    return in_memory(sequences(rows_options("listops", (150, 10, 10)), silent))


def words_of(row: SequenceRow) -> list[str]:
    return [VOCABULARY[token] for token in row.tokens.tolist()]


OPERATIONS = {"[MIN": min, "[MAX": max, "[MED": lambda v: int(statistics.median(v)), "[SM": lambda v: sum(v) % 10}


def parsed(words: deque[str], depth: int = 1) -> tuple[int, int, list[int]]:
    """Value, depth of the deepest list and numbers of members, by descending into the text from its beginning."""
    word = words.popleft()
    if not word.startswith("["):
        return int(word), depth - 1, []
    values, deepest, sizes = [], depth, []
    while words[0] != "]":
        value, below, inner = parsed(words, depth + 1)
        values.append(value)
        deepest = max(deepest, below)
        sizes += inner
    words.popleft()
    return OPERATIONS[word](values), deepest, [*sizes, len(values)]


@pytest.mark.parametrize("which", ["rows", "published"])
def test_every_label_is_the_value_of_its_expression(which: str, request: pytest.FixtureRequest) -> None:
    for row in request.getfixturevalue(which):
        words = deque(words_of(row))
        value, deepest, sizes = parsed(words)
        assert value == row.label
        # nothing follows the outermost list
        assert not words
        # digits alone stand at the deepest place of ten
        assert deepest <= 9
        assert 2 <= min(sizes) <= max(sizes) <= 10


def test_lengths_lie_strictly_between_the_bounds(rows: list[SequenceRow], published: list[SequenceRow]) -> None:
    for some, low, high in ((rows, 20, 90), (published, 500, 2000)):
        lengths = [len(row.tokens) for row in some]
        assert low < min(lengths) <= max(lengths) < high
        # and use most of what is allowed
        assert max(lengths) - min(lengths) > 0.6 * (high - low)


def test_the_splits_have_their_rows_and_no_expression_comes_twice(rows: list[SequenceRow]) -> None:
    assert Counter(row.split for row in rows) == {0: 200, 1: 30, 2: 30}
    assert len({row.tokens.tobytes() for row in rows}) == len(rows)


def test_tokens_are_the_fifteen_of_the_vocabulary_and_each_occurs(rows: list[SequenceRow]) -> None:
    seen = set(np.concatenate([row.tokens for row in rows]).tolist())
    assert seen == set(VOCABULARY) == set(range(1, 16))
    assert sorted(VOCABULARY.values()) == sorted([*CLASSES, *(f"[{name}" for name in OPERATORS), "]"])


def test_the_same_seed_gives_the_same_rows_and_another_seed_others(rows: list[SequenceRow]) -> None:
    again, other = short_rows(), short_rows(seed=8)
    assert [row.tokens.tobytes() for row in rows] == [row.tokens.tobytes() for row in again]
    assert not {row.tokens.tobytes() for row in rows} & {row.tokens.tobytes() for row in other}


def test_fewer_rows_are_the_first_of_more(rows: list[SequenceRow]) -> None:
    fewer = short_rows((50, 20, 10))
    for code, count in enumerate((50, 20, 10)):
        whole = [row.tokens.tobytes() for row in rows if row.split == code]
        assert [row.tokens.tobytes() for row in fewer if row.split == code] == whole[:count]


def test_choices_have_the_published_probabilities() -> None:
    # lengths bounded by nothing, so that no tree was left out of the count
    form = ListOpsOptions(min_length=0, max_length=65_536, max_depth=5)
    generator = np.random.Generator(np.random.PCG64(3))
    batches = [listops.grow(generator, form) for _ in range(4)]
    levels = [level for batch in batches for level in batch]
    below_root = [level for batch in batches for level in batch[1:4]]
    # lists may stand at depths 2 to 4 of 5, each member being one with probability 1/4
    nested = np.concatenate([level.is_list for level in below_root[0::3] + below_root[1::3]])
    assert abs(nested.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / len(nested))
    assert not any(batch[4].is_list.any() for batch in batches)
    members = np.concatenate([level.members for level in levels])
    operators = np.concatenate([level.symbol[level.is_list] for level in levels])
    digits = np.concatenate([level.symbol[~level.is_list] for level in levels])
    for values, kinds in ((members, range(2, 11)), (operators, range(4)), (digits, range(10))):
        counts = np.asarray([(values == kind).sum() for kind in kinds])
        assert counts.sum() == len(values)
        expected = len(values) / len(kinds)
        # chi-square with up to 9 degrees of freedom: above 33 once in ten thousand draws
        assert ((counts - expected) ** 2 / expected).sum() < 33


LISTS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=12), min_size=1, max_size=6)


@settings(max_examples=200)
@given(lists=LISTS, data=st.data())
def test_each_operator_is_what_its_name_says(lists: list[list[int]], data: st.DataObject) -> None:
    operators = data.draw(st.lists(st.integers(0, 3), min_size=len(lists), max_size=len(lists)))
    members = np.asarray([len(values) for values in lists])
    found = listops.applied(
        np.asarray(operators), np.concatenate([np.asarray(v) for v in lists]), np.cumsum(members) - members, members
    )
    plain = (min, max, lambda values: int(statistics.median(values)), lambda values: sum(values) % 10)
    assert found.tolist() == [plain[operator](values) for operator, values in zip(operators, lists, strict=True)]


@settings(max_examples=25, deadline=None)
@given(
    low=st.integers(0, 60),
    width=st.integers(5, 80),
    max_depth=st.integers(2, 12),
    max_args=st.integers(3, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_form_keeps_its_bounds(low: int, width: int, max_depth: int, max_args: int, seed: int) -> None:
    form = ListOpsOptions(min_length=low, max_length=low + width, max_depth=max_depth, max_args=max_args)
    for tokens, value in listops.expressions(np.random.Generator(np.random.PCG64(seed)), form):
        found, deepest, sizes = parsed(deque(VOCABULARY[token] for token in tokens.tolist()))
        assert found == value
        assert low < len(tokens) < low + width
        assert deepest < max_depth
        assert max(sizes) <= max_args


def test_the_summary_says_what_is_not_as_published() -> None:
    whole = sequences(rows_options("listops", (1, 1, 1)), silent)
    short = sequences(rows_options("listops", (1, 1, 1), listops=SHORT), silent)
    assert whole.facts["variant"] == "ListOps with the published settings"
    assert short.facts["variant"] == ("ListOps with min_length 20 in place of 500, max_length 90 in place of 2000")


def test_more_rows_than_there_are_expressions_are_refused() -> None:
    form = {"min_length": 3, "max_length": 5, "max_args": 2}
    # [OP a b ] alone has that length: 4 operators on 10 by 10 digits
    with pytest.raises(DataError, match="400 different lists with more than 3 and fewer than 5 tokens were found"):
        short_rows((390, 10, 1), **form)
    assert len(short_rows((380, 10, 10), **form)) == 400


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"min_length": 50, "max_length": 51}, "no list has more than 50 and fewer than 51 tokens"),
        ({"max_args": 1}, "greater than or equal to 2"),
        ({"max_depth": 1}, "greater than or equal to 2"),
    ],
)
def test_impossible_forms_are_refused(form: dict[str, int], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        rows_options("listops", (1, 1, 1), listops=form)


def test_a_generator_must_be_told_how_many() -> None:
    with pytest.raises(ValidationError, match=r"task listops needs rows\.train, rows\.validation and rows\.test"):
        PrepareOptions.model_validate({"task": "listops", "seed": 1, "rows": {"train": 5}})
    with pytest.raises(ValidationError, match="section pathfinder belongs to pathfinder, here the task is listops"):
        rows_options("listops", (1, 1, 1), pathfinder={})


def test_the_reader_takes_no_files_and_no_options() -> None:
    entry = generated_entry("listops-generator")
    assert listops.read((), entry) is sequences
    with pytest.raises(DataError, match="got 1 files for the generator listops-generator, allowed are none"):
        listops.read((Path("a"),), entry)
    with pytest.raises(ConfigError, match=r"options of made in data/catalogue\.yaml is refused: depth"):
        listops.read((), generated_entry("listops-generator", options={"depth": 3}))


def test_splits_owe_nothing_to_each_other() -> None:
    one, other = short_rows((10, 10, 5)), short_rows((60, 10, 5))
    for code in range(1, len(SPLITS)):
        assert [row.tokens.tobytes() for row in one if row.split == code] == [
            row.tokens.tobytes() for row in other if row.split == code
        ]
