"""Which rows of a set are used and in which split, decided from identities alone before any content is written.

An identity is a digest of what makes two rows the same row (the pixels, the text); a group is what keeps different rows
together (a thread, an author). Both are strings, so that a plan for millions of rows fits in memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.arrays import SPLITS
from components.datasets.core.holdout import hold_out
from components.datasets.core.joining import Joined
from components.datasets.core.options import PartOptions
from components.datasets.core.sampling import smallest_hashes

LEFT_OUT = 255
TRAIN, VALIDATION, TEST = range(3)


@dataclass
class RowIndex:
    """What is known of each row, in the order of reading: published split, identity, class, groups if any."""

    splits: list[str] = field(default_factory=list)
    identities: list[str] = field(default_factory=list)
    labels: list[int | str] = field(default_factory=list)
    groups: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, split: str, identity: str, label: int | str, *groups: str) -> None:
        self.splits.append(split)
        self.identities.append(identity)
        self.labels.append(label)
        self.groups.append(groups)

    def __len__(self) -> int:
        return len(self.splits)


@dataclass(frozen=True)
class Plan:
    """`splits` (n,) uint8: the code of each row's split, or LEFT_OUT. `facts` are for the summary, JSON types only.

    `groups` names what each row is tied to, directly or by others: rows of one name are in one split, unless the
    publisher parted them.
    """

    splits: NDArray[np.uint8]
    groups: list[str]
    facts: dict[str, Any]

    def rows(self) -> dict[str, int]:
        return {name: int((self.splits == code).sum()) for code, name in enumerate(SPLITS)}


def plan_rows(index: RowIndex, options: PartOptions) -> Plan:
    """Choose and split the rows of `index`. Raises DataError where they cannot be split as asked."""
    splits = np.asarray([SPLITS.index(name) for name in index.splits], dtype=np.uint8)
    facts: dict[str, Any] = {"rows_of_entry": len(index)}
    within, across = _copies(splits, index.identities)
    facts["duplicates"] = {"within": int(within.sum()), "across": int(across.sum())}
    copies = {"within": within, "across": across}
    for dropped in options.drop_duplicates:
        splits[copies[dropped]] = LEFT_OUT
    groups = _joined(index)
    for code, fraction in ((TEST, options.test), (VALIDATION, options.validation)):
        if SPLITS[code] in index.splits:
            continue
        # the validation part is a fraction of the whole, not of what the test left
        left = fraction if code == TEST or "test" in index.splits else fraction / (1 - options.test)
        rows = np.flatnonzero(splits == TRAIN)
        held = hold_out([index.labels[i] for i in rows], [groups[i] for i in rows], options.seed, left)
        splits[rows[held]] = code
    for code, name in enumerate(SPLITS):
        limit = getattr(options.rows, name)
        rows = np.flatnonzero(splits == code)
        if limit is not None and len(rows) > limit:
            kept = smallest_hashes([index.identities[i] for i in rows], limit)
            splits[np.setdiff1d(rows, rows[kept])] = LEFT_OUT
    facts["published_splits"] = [name for name in SPLITS if name in index.splits]
    return Plan(splits, groups, facts)


def _copies(splits: NDArray[np.uint8], identities: Sequence[str]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Rows that come again in their split, and rows that also stand in a later split."""
    within = np.zeros(len(splits), dtype=bool)
    across = np.zeros(len(splits), dtype=bool)
    seen: list[set[str]] = [set() for _ in SPLITS]
    for row, (code, identity) in enumerate(zip(splits.tolist(), identities, strict=True)):
        within[row] = identity in seen[code]
        seen[code].add(identity)
    for row, (code, identity) in enumerate(zip(splits.tolist(), identities, strict=True)):
        across[row] = any(identity in later for later in seen[code + 1 :])
    return within, across


def _joined(index: RowIndex) -> list[str]:
    """One name for all rows that are connected by equal identities or equal groups, the smallest name among them."""
    joined = Joined()
    for identity, groups in zip(index.identities, index.groups, strict=True):
        for group in groups:
            joined.join(f"i {identity}", f"g {group}")
    return [joined.root(f"i {identity}") for identity in index.identities]
