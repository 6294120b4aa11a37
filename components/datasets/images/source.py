"""What the readers of images yield: parts that stream, so that no set is held in memory whole."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# images (n, H, W, C) uint8 and labels (n,) int64
Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]


@dataclass(frozen=True)
class ImagePart:
    """One split: how many images it has, and a function that begins to yield them from the first, in batches."""

    rows: int
    batches: Callable[[], Iterator[Batch]]


@dataclass(frozen=True)
class ImageSource:
    """The splits of one set. All images have one shape (H, W, C); labels index into `classes`."""

    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    parts: Mapping[str, ImagePart]
