"""Dashes and dots to pixels, for many images at once.

A pixel is as bright as the share of it that a shape covers, counted at 4 by 4 points; where shapes overlap the brighter
one counts. (The published drawing is twice as large and made small again with a Lanczos filter.)
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

POINTS = 4

Places = NDArray[np.float64]
Covered = Callable[[Places, Places], NDArray[np.bool_]]


class Canvas:
    """Images (n, size, size) that start dark, with a border to draw over."""

    def __init__(self, images: int, size: int, border: int):
        self._border = border
        self._pixels = np.zeros((images, size + 2 * border, size + 2 * border))

    @property
    def pixels(self) -> NDArray[np.float64]:
        inner = slice(self._border, self._pixels.shape[1] - self._border)
        return self._pixels[:, inner, inner]

    def add_dashes(self, images: NDArray[np.intp], dashes: Places, thickness: float, brightness: float) -> None:
        """One dash (y0, x0, y1, x1) in each of `images` (n,), with square ends."""
        along = dashes[:, 2:] - dashes[:, :2]
        length = np.maximum(np.hypot(along[:, 0], along[:, 1]), 1e-9)
        unit_y, unit_x = ((along[:, axis] / length)[:, None, None] for axis in (0, 1))

        def covered(y: Places, x: Places) -> NDArray[np.bool_]:
            ahead = y * unit_y + x * unit_x
            aside = y * unit_x - x * unit_y
            within: NDArray[np.bool_] = (np.abs(ahead) <= length[:, None, None] / 2) & (np.abs(aside) <= thickness / 2)
            return within

        reach = (float(length.max(initial=0.0)) + thickness) / 2
        self._add(images, (dashes[:, :2] + dashes[:, 2:]) / 2, reach, covered, brightness)

    def add_dots(self, images: NDArray[np.intp], centres: Places, radius: float, brightness: float) -> None:
        """One dot (y, x) in each of `images` (n,)."""
        self._add(images, centres, radius, lambda y, x: y**2 + x**2 <= radius**2, brightness)

    def _add(
        self, images: NDArray[np.intp], centres: Places, reach: float, covered: Covered, brightness: float
    ) -> None:
        """Draw a shape around each of `centres` (n, 2); `covered(y, x)` is asked of points relative to the centre."""
        window = math.ceil(reach) + 1
        if window > self._border:
            raise ValueError(f"a shape of reach {reach:g} needs a border of {window} pixels, got {self._border}")
        steps = np.arange(-window, window + 1)
        corner = np.floor(centres).astype(np.int64)
        points = (steps[:, None] + (np.arange(POINTS) + 0.5) / POINTS).ravel()
        y, x = (points[None, :] + (corner[:, axis] - centres[:, axis])[:, None] for axis in (0, 1))
        hits = covered(y[:, :, None], x[:, None, :])
        share = hits.reshape(len(centres), len(steps), POINTS, len(steps), POINTS).mean(axis=(2, 4))
        rows = (corner[:, 0, None] + steps + self._border)[:, :, None]
        columns = (corner[:, 1, None] + steps + self._border)[:, None, :]
        where = (images[:, None, None], rows, columns)
        self._pixels[where] = np.maximum(self._pixels[where], share * brightness)
