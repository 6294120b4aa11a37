"""Checks that readers of images share."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from components.arrays import SPLITS
from components.datasets.core.catalogue import DataFile, Entry
from components.datasets.core.faults import fault
from components.errors import ConfigError


def labels_in_range(path: Path, labels: NDArray[np.integer], classes: int, place: str = "", first_row: int = 0) -> None:
    """Raise DataError at the first label that is none of 0 to `classes` - 1. `place` goes before the row."""
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        row = int(wrong[0])
        allowed = f"0 to {classes - 1} ({classes} classes)"
        raise fault(path, f"{place}row {first_row + row + 1}", f"label {int(labels[row])}", allowed)


def splits_of(entry: Entry, files: Sequence[DataFile]) -> list[str]:
    """The split of each of `files`. Raises ConfigError where one has none, or where two have the same."""
    splits = [str(file.split) for file in files]
    if len(set(splits)) != len(splits) or not set(splits) <= set(SPLITS):
        raise ConfigError(
            f"{entry.name} in data/catalogue.yaml has files of the splits {', '.join(splits)}; "
            f"each file of images needs a `split` of its own, one of {', '.join(SPLITS)}"
        )
    return splits


def only_path(paths: Sequence[Path], entry: Entry) -> Path:
    """The path of an entry that is one archive. Raises ConfigError where it has several files."""
    if len(paths) != 1:
        raise ConfigError(f"{entry.name} in data/catalogue.yaml has {len(paths)} files; {entry.reader} reads one")
    return paths[0]
