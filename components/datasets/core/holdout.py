"""Holding out a part of rows: whole groups, each class with its share, the same choice whatever the order of rows."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from components.errors import DataError
from components.files import sha256_bytes


def hold_out(labels: Sequence[int | str], groups: Sequence[str], seed: int, fraction: float) -> NDArray[np.bool_]:
    """Which of n rows are held out: about `fraction` of each class, no group on both sides.

    Groups are taken in the order of the sha256 of seed and name, so that rows added later move no group that was there.
    A group is taken while every class it touches still lacks rows. Raises DataError where nothing or all would be held
    out.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"fraction is {fraction}, allowed is more than 0 and less than 1")
    rows_of: dict[str, list[int]] = defaultdict(list)
    for row, group in enumerate(groups):
        rows_of[group].append(row)
    wanted = {label: count * fraction for label, count in Counter(labels).items()}
    held = np.zeros(len(labels), dtype=bool)
    for group in sorted(rows_of, key=lambda name: sha256_bytes(f"{seed} {name}".encode())):
        rows = rows_of[group]
        needed = Counter(labels[row] for row in rows)
        # half a row over is nearer than half a row short
        if all(wanted[label] >= count / 2 for label, count in needed.items()):
            held[rows] = True
            for label, count in needed.items():
                wanted[label] -= count
    if not held.any() or held.all():
        came = f"{len(labels)} rows in {len(rows_of)} groups"
        raise DataError(f"{came} cannot be parted so that {fraction:g} is held out; take more rows or another fraction")
    return held
