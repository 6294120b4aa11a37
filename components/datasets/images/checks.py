"""Checks that readers of images share."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from components.datasets.core.faults import fault


def labels_in_range(path: Path, labels: NDArray[np.integer], classes: tuple[str, ...], first_row: int = 0) -> None:
    """Raise DataError at the first label that is no index into `classes`."""
    wrong = np.flatnonzero((labels < 0) | (labels >= len(classes)))
    if len(wrong):
        row = int(wrong[0])
        allowed = f"0 to {len(classes) - 1} ({len(classes)} classes)"
        raise fault(path, f"row {first_row + row + 1}", f"label {int(labels[row])}", allowed)
