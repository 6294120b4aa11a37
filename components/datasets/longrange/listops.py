"""ListOps: nested lists of digits under MIN, MAX, MED (median, rounded down) and SM (sum modulo 10), after Nangia and
Bowman (2018) in the long form of Tay et al. (2021).

A list has two to ten members; each is another list with probability 1/4, else a digit, all choices uniform; a row is
kept if its length lies within bounds and it is new. The published generator writes each list curried, with round
parentheses around every step; they carry nothing, and the published input pipeline drops them. So does this one: a
list is an opening token, its members and a closing token, 15 tokens in all beside padding.

Trees grow level by level for many rows at once, values are worked out from the deepest level up and places from the
root down.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.arrays import SPLITS
from components.datasets.core.catalogue import Entry
from components.datasets.longrange.config import ListOpsOptions, PrepareOptions
from components.datasets.longrange.generating import Generated, generated, variant
from components.datasets.longrange.source import SequenceRow, Sequences, split_seed
from components.errors import DataError
from components.files import sha256_bytes
from components.progress import Tell

OPERATORS = ("MIN", "MAX", "MED", "SM")
LIST_PROBABILITY = 0.25
FIRST_DIGIT, FIRST_OPERATOR = 1, 11
CLOSE = FIRST_OPERATOR + len(OPERATORS)
VOCABULARY = {
    **{FIRST_DIGIT + digit: str(digit) for digit in range(10)},
    **{FIRST_OPERATOR + place: f"[{name}" for place, name in enumerate(OPERATORS)},
    CLOSE: "]",
}
CLASSES = tuple(str(digit) for digit in range(10))
# Trees that grow at once. Part of what a seed means: another number gives other rows.
TREES_AT_ONCE = 512
# So many batches in a row without a new expression: there are no more of that length, or next to none.
FRUITLESS_BATCHES = 200


def read(paths: Sequence[Path], entry: Entry) -> Generated:
    """The generator of the entry, which has no files. Raises DataError or ConfigError for one that says otherwise."""
    return generated(paths, entry, sequences)


def sequences(options: PrepareOptions, tell: Tell) -> Sequences:
    """As many expressions as `options.rows` asks of each split, no expression twice. Raises DataError where there are
    fewer of that length.
    """
    form = options.listops or ListOpsOptions()
    wanted = {split: int(getattr(options.rows, split)) for split in SPLITS}

    def rows() -> Iterator[SequenceRow]:
        known: set[str] = set()
        for code, split in enumerate(SPLITS):
            generator = np.random.Generator(np.random.PCG64(split_seed(options.seed, split)))
            for tokens, value in _new_expressions(generator, form, wanted[split], known):
                yield SequenceRow(code, value, tokens)

    total = sum(wanted.values())
    facts = {"rows_of_entry": total, **variant(form, ListOpsOptions(), "ListOps")}
    return Sequences(total, CLASSES, VOCABULARY, np.uint8, False, rows, facts)


def _new_expressions(
    generator: np.random.Generator, form: ListOpsOptions, count: int, known: set[str]
) -> Iterator[tuple[NDArray[np.uint8], int]]:
    done = fruitless = 0
    while done < count:
        before = done
        for tokens, value in expressions(generator, form):
            digest = sha256_bytes(tokens.tobytes())
            if digest in known:
                continue
            known.add(digest)
            yield tokens, value
            done += 1
            if done == count:
                return
        fruitless = fruitless + 1 if done == before else 0
        if fruitless == FRUITLESS_BATCHES:
            raise DataError(
                f"{len(known)} different lists with more than {form.min_length} and fewer than {form.max_length} "
                "tokens were found where more are asked for; allow longer ones (listops.max_length) or take fewer rows"
            )


@dataclass
class Level:
    """The nodes of one depth of all trees (n,), the members of one list side by side."""

    tree: NDArray[np.int64]
    is_list: NDArray[np.bool_]
    # digit of a digit, operator of a list
    symbol: NDArray[np.int64]
    # of the lists alone, in their order
    members: NDArray[np.int64]
    length: NDArray[np.int64]
    value: NDArray[np.int64]


def expressions(generator: np.random.Generator, form: ListOpsOptions) -> Iterator[tuple[NDArray[np.uint8], int]]:
    """Those of one batch of trees whose length is within bounds: tokens (length,) and value."""
    levels = grow(generator, form)
    _measure(levels)
    lengths = levels[0].length
    tokens = _tokens(levels)
    ends = np.cumsum(lengths)
    kept = (lengths > form.min_length) & (lengths < form.max_length)
    for tree in np.flatnonzero(kept):
        yield tokens[ends[tree] - lengths[tree] : ends[tree]].copy(), int(levels[0].value[tree])


def grow(generator: np.random.Generator, form: ListOpsOptions) -> list[Level]:
    """The levels from the roots down. A tree that already has too many nodes gets no more lists; it is too long."""
    tree = np.arange(TREES_AT_ONCE)
    # a root that is a digit has length 1 and would never be kept
    is_list = np.ones(TREES_AT_ONCE, dtype=bool)
    levels: list[Level] = []
    size = np.zeros(TREES_AT_ONCE, dtype=np.int64)
    for depth in range(1, form.max_depth + 1):
        size += np.bincount(tree, minlength=TREES_AT_ONCE)
        is_list &= size[tree] < form.max_length
        lists = int(is_list.sum())
        symbol = generator.integers(0, 10, len(tree))
        symbol[is_list] = generator.integers(0, len(OPERATORS), lists)
        members = generator.integers(2, form.max_args, lists, endpoint=True)
        nothing = np.zeros(len(tree), dtype=np.int64)
        levels.append(Level(tree, is_list, symbol, members, nothing, nothing.copy()))
        if not lists:
            break
        tree = np.repeat(tree[is_list], members)
        may_nest = depth + 1 < form.max_depth
        is_list = generator.random(len(tree)) < (LIST_PROBABILITY if may_nest else 0.0)
    return levels


def _measure(levels: list[Level]) -> None:
    """Length and value of every node, from the deepest level up."""
    for depth in range(len(levels) - 1, -1, -1):
        level = levels[depth]
        level.length[:] = 1
        level.value[:] = level.symbol
        if not len(level.members):
            continue
        below = levels[depth + 1]
        first = np.cumsum(level.members) - level.members
        level.length[level.is_list] = 2 + np.add.reduceat(below.length, first)
        level.value[level.is_list] = applied(level.symbol[level.is_list], below.value, first, level.members)


def applied(
    operators: NDArray[np.int64], values: NDArray[np.int64], first: NDArray[np.int64], members: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The value of each list, by operator."""
    owner = np.repeat(np.arange(len(members)), members)
    ordered = values[np.lexsort((values, owner))]
    # the two middle ones are the same where the number of members is odd
    middle = ordered[first + (members - 1) // 2] + ordered[first + members // 2]
    by_operator = (
        np.minimum.reduceat(values, first),
        np.maximum.reduceat(values, first),
        middle // 2,
        np.add.reduceat(values, first) % 10,
    )
    return np.choose(operators, by_operator)


def _tokens(levels: list[Level]) -> NDArray[np.uint8]:
    """The tokens of all trees end to end."""
    tokens = np.zeros(int(levels[0].length.sum()), dtype=np.uint8)
    place = np.cumsum(levels[0].length) - levels[0].length
    for depth, level in enumerate(levels):
        tokens[place] = np.where(level.is_list, FIRST_OPERATOR + level.symbol, FIRST_DIGIT + level.symbol)
        tokens[(place + level.length - 1)[level.is_list]] = CLOSE
        if len(level.members):
            place = _places_below(place[level.is_list], level.members, levels[depth + 1].length)
    return tokens


def _places_below(place: NDArray[np.int64], members: NDArray[np.int64], lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Where the members of lists at `place` begin: behind the opening token and the members before them."""
    before = np.cumsum(lengths) - lengths
    first = np.cumsum(members) - members
    places: NDArray[np.int64] = np.repeat(place + 1 - before[first], members) + before
    return places
