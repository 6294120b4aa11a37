"""Images reduced to a few numbers each, a batch at a time: what the gate compares in place of pixels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.files import sha256_bytes

ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Reduced:
    """By image: mean (n, C) and mean square (n, C) of the pixels in units of 255, least and largest byte, digest."""

    means: NDArray[np.float64]
    squares: NDArray[np.float64]
    least: NDArray[np.uint8]
    largest: NDArray[np.uint8]
    digests: list[str]

    @property
    def blank(self) -> NDArray[np.bool_]:
        """Images (n,) with one value in all pixels and channels."""
        blank: NDArray[np.bool_] = self.least == self.largest
        return blank

    @property
    def brightness(self) -> NDArray[np.float64]:
        """Mean over all pixels and channels (n,), 0 to 1."""
        brightness: NDArray[np.float64] = self.means.mean(axis=1)
        return brightness

    @property
    def contrast(self) -> NDArray[np.float64]:
        """Standard deviation over all pixels and channels (n,), 0 to 0.5."""
        contrast: NDArray[np.float64] = np.sqrt(np.maximum(self.squares.mean(axis=1) - self.brightness**2, 0.0))
        return contrast


def reduce_images(images: NDArray[Any]) -> Reduced:
    """A few numbers for each of the images (n, H, W, C) uint8, n at least 1."""
    means, squares, least, largest = [], [], [], []
    digests: list[str] = []
    for start in range(0, len(images), ROWS_AT_ONCE):
        batch = np.ascontiguousarray(images[start : start + ROWS_AT_ONCE])
        flat = batch.reshape(len(batch), -1, batch.shape[-1])
        # sums of bytes and of their squares are exact in whole numbers
        whole = flat.astype(np.int64)
        means.append(whole.sum(axis=1) / (flat.shape[1] * 255))
        squares.append((whole**2).sum(axis=1) / (flat.shape[1] * 255**2))
        least.append(flat.min(axis=(1, 2)))
        largest.append(flat.max(axis=(1, 2)))
        digests += [sha256_bytes(image.tobytes()) for image in batch]
    return Reduced(
        np.concatenate(means), np.concatenate(squares), np.concatenate(least), np.concatenate(largest), digests
    )
