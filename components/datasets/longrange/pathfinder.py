"""Pathfinder: are two dots the ends of one dashed curve? After Linsley et al. (2018), with the settings of the 32 by 32
task of Tay et al. (2021): two contours of 14 dashes, up to five distractors of 4, one dot at the beginning of a contour
and one at the end of the same contour or of the other.

What differs from the published generator: places are continuous, not whole pixels; a contour that finds no way on steps
back, see `curves`; coverage is counted, see `drawing`; labels are balanced, each of two images in a row having one of
them. The published settings draw distractors brighter than contours, and so does this generator.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from components.arrays import SPLITS
from components.datasets.core.catalogue import Entry
from components.datasets.longrange.config import PathfinderOptions, PrepareOptions
from components.datasets.longrange.curves import NOWHERE, PER_PIXEL, Dashes, draw_curves
from components.datasets.longrange.drawing import Canvas
from components.datasets.longrange.generating import Generated, generated, variant
from components.datasets.longrange.source import SHIFT, SequenceRow, Sequences, level_vocabulary, split_seed
from components.errors import DataError
from components.progress import Tell

CLASSES = ("apart", "connected")
# In `dashes.npy`, where there is no dash.
ABSENT = -1
# So many batches in a row in which no image could be finished: the settings leave no room.
FRUITLESS_BATCHES = 10


def read(paths: Sequence[Path], entry: Entry) -> Generated:
    """The generator of the entry, which has no files. Raises DataError or ConfigError for one that says otherwise."""
    return generated(paths, entry, sequences)


def sequences(options: PrepareOptions, tell: Tell) -> Sequences:
    """As many images as `options.rows` asks of each split, row by row from the upper left corner.

    Beside its tokens (size * size,) a row has its true geometry in hundredths of a pixel: dashes (form.dashes, 4) and
    dots (2, 2). Raises DataError where the settings leave no room for the contours.
    """
    form = options.pathfinder or PathfinderOptions()
    wanted = {split: int(getattr(options.rows, split)) for split in SPLITS}

    def rows() -> Iterator[SequenceRow]:
        for code, split in enumerate(SPLITS):
            generator = np.random.Generator(np.random.PCG64(split_seed(options.seed, split)))
            for image, label, truth in islice(images(generator, form), wanted[split]):
                yield SequenceRow(code, label, image.ravel().astype(np.uint16) + SHIFT, truth=truth)

    total = sum(wanted.values())
    facts = {
        "rows_of_entry": total,
        "size": form.size,
        "gap": 2 * form.margin,
        "dash_thickness": form.dash_thickness,
        "marker_radius": form.marker_radius,
        **variant(form, PathfinderOptions(), "Pathfinder"),
    }
    truth = {"dashes": (np.int16, (form.dashes, 4)), "dots": (np.int16, (2, 2))}
    return Sequences(total, CLASSES, level_vocabulary("brightness"), np.uint16, False, rows, facts, truth)


def images(
    generator: np.random.Generator, form: PathfinderOptions
) -> Iterator[tuple[NDArray[np.uint8], int, dict[str, NDArray[np.int16]]]]:
    """Without end: an image (size, size) uint8, its label, its dashes and dots."""
    fruitless = 0
    while True:
        dashes = draw_curves(generator, form)
        # two by two, so that the labels stay balanced
        dashes = dashes[: len(dashes) // 2 * 2]
        fruitless = 0 if len(dashes) else fruitless + 1
        if fruitless == FRUITLESS_BATCHES:
            raise DataError(
                f"no image of {form.size} pixels could be finished with two contours of {form.contour_length} dashes; "
                "take fewer or shorter dashes, or larger images (section pathfinder)"
            )
        coins = generator.integers(0, 2, len(dashes) // 2)
        labels = np.stack((coins, 1 - coins), axis=1).ravel()
        dots = _dots(generator, form, dashes, labels)
        pixels = drawn(dashes, dots, form)
        stored = np.where(dashes == NOWHERE, ABSENT, np.round(dashes * PER_PIXEL)).astype(np.int16)
        placed = np.round(dots * PER_PIXEL).astype(np.int16)
        for number, label in enumerate(labels.tolist()):
            yield pixels[number], label, {"dashes": stored[number], "dots": placed[number]}


def _dots(
    generator: np.random.Generator, form: PathfinderOptions, dashes: Dashes, labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The dots (n, 2, 2) as (y, x): the beginning of one of the contours, and the end of the same or of the other."""
    every = np.arange(len(dashes))
    begun = generator.integers(0, 2, len(dashes))
    ended = np.where(labels == 1, begun, 1 - begun)
    first = dashes[every, begun * form.contour_length, :2]
    last = dashes[every, ended * form.contour_length + form.contour_length - 1, 2:]
    return np.stack((first, last), axis=1)


def drawn(dashes: Dashes, dots: NDArray[np.float64], form: PathfinderOptions) -> NDArray[np.uint8]:
    """Images (n, size, size) of dashes (n, k, 4) and dots (n, 2, 2), each scaled so that its brightest point is 255."""
    border = int(np.ceil(max(form.dash_length / 2 + form.dash_thickness, form.marker_radius))) + 2
    canvas = Canvas(len(dashes), form.size, border)
    every = np.arange(len(dashes))
    for place in range(dashes.shape[1]):
        there = every[dashes[:, place, 0] != NOWHERE]
        contrast = form.contour_contrast if place < 2 * form.contour_length else form.distractor_contrast
        canvas.add_dashes(there, dashes[there, place], form.dash_thickness, contrast)
    for place in range(2):
        canvas.add_dots(every, dots[:, place], form.marker_radius, 1.0)
    pixels = canvas.pixels
    brightest = np.maximum(pixels.max(axis=(1, 2), keepdims=True), 1e-9) if len(pixels) else 1.0
    scaled: NDArray[np.uint8] = np.round(255 * pixels / brightest).astype(np.uint8)
    return scaled
