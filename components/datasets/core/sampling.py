"""Choosing a part of a data set: representative, reproducible, and owing nothing to the order of rows."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from components.files import sha256_bytes


def smallest_hashes(keys: Sequence[str | bytes], count: int) -> NDArray[np.intp]:
    """Ascending positions of the `count` keys with the smallest sha256; all of them where there are no more.

    A smaller choice is part of a larger one. Equal keys are taken in their order.
    """
    if count >= len(keys):
        return np.arange(len(keys))
    digests = [sha256_bytes(key if isinstance(key, bytes) else key.encode()) for key in keys]
    order = sorted(range(len(keys)), key=digests.__getitem__)
    return np.asarray(sorted(order[:count]), dtype=np.intp)
