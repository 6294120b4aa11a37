"""What a task yields: rows of tokens that can be read from the first again, and what the tokens mean."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from components.arrays import SPLITS

PADDING = 0
# A byte or a pixel v has the token v + 1, so that padding is no value.
SHIFT = 1


@dataclass(frozen=True)
class SequenceRow:
    """One row: code of its split, label, tokens (length,), second tokens of a pair, and what the gate checks it by."""

    split: int
    label: int
    tokens: NDArray[Any]
    second: NDArray[Any] | None = None
    truth: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Sequences:
    """A set of `total` rows. `rows()` begins to yield them from the first, the same each time it is called.

    `vocabulary` gives the meaning of each token but padding. `truth` has, by name, type and shape of what each row's
    `truth` holds. `facts` are for the summary, JSON types only, and hold at least `rows_of_entry`.
    """

    total: int
    classes: tuple[str, ...]
    vocabulary: Mapping[int, str]
    dtype: DTypeLike
    pairs: bool
    rows: Callable[[], Iterator[SequenceRow]]
    facts: dict[str, Any]
    truth: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] = field(default_factory=dict)


def byte_tokens(text: str, max_length: int | None) -> NDArray[np.uint8]:
    """The tokens of the UTF-8 bytes of `text`, (length,) uint8. A cut may fall inside a character, as in the published
    task; no byte of UTF-8 is above 0xf4, so that a token fits into eight bits.
    """
    content = np.frombuffer(text.encode("utf-8")[:max_length], dtype=np.uint8)
    return content + np.uint8(SHIFT)


def level_vocabulary(unit: str) -> dict[int, str]:
    """Meaning of the tokens of 256 levels, such as bytes or pixels."""
    return {level + SHIFT: f"{unit} {level}" for level in range(256)}


def split_seed(seed: int, split: str) -> list[int]:
    """What a generator of one split is seeded with: splits of any size owe nothing to each other."""
    return [seed, SPLITS.index(split)]
