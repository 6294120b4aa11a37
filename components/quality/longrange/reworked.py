"""Rows worked out again, each by another way than the one that made them. A fault is told in a few words.

Expressions are read from the end with a stack, where the generator works level by level on trees. Curves are found
again as connected groups of dashes that lie close to each other, whatever their order; bytes are decoded.
"""

import codecs
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from components.quality.longrange.prepared import PathfinderSummary, PixelsSummary, Prepared, Ragged, Summary

Told = TypeVar("Told", bound=Summary)

# Geometry is in hundredths of a pixel; an end may be off by the rounding of two places.
PER_PIXEL = 100
ROUNDING = 2
# From a pixel's middle to its corner, and a little.
HALF_PIXEL = 0.75

OPERATIONS: Mapping[str, Callable[[Sequence[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda members: int(statistics.median(members)),
    "[SM": lambda members: sum(members) % 10,
}


def faults(prepared: Prepared, rows: Sequence[int]) -> list[str]:
    """What is wrong with each of `rows`; an empty text where nothing is."""
    rework = REWORKERS[prepared.summary.task]
    return [rework(prepared, row) for row in rows]


def evaluated(words: Sequence[str]) -> int | str:
    """The value of an expression in prefix form, or in words why it is none."""
    stack: list[int | None] = []
    for word in reversed(words):
        if word == "]":
            stack.append(None)
            continue
        if word not in OPERATIONS:
            if not (len(word) == 1 and word.isdecimal()):
                return f"the unknown token {word!r}"
            stack.append(int(word))
            continue
        members: list[int] = []
        while stack and (top := stack.pop()) is not None:
            members.append(top)
            if not stack:
                return f"a list {word} that is not closed"
        if not members:
            return f"a list {word} without members"
        stack.append(OPERATIONS[word](members))
    if len(stack) != 1 or stack[0] is None:
        return f"{len(stack)} values in place of one"
    return stack[0]


def _listops(prepared: Prepared, row: int) -> str:
    words = [prepared.vocabulary.get(token, f"token {token}") for token in prepared.sides["sequence"].row(row).tolist()]
    value = evaluated(words)
    if isinstance(value, str):
        return value
    said = _class_of(prepared, row)
    return "" if str(value) == said else f"value {value}, labelled {said}"


def _bytes(prepared: Prepared, row: int) -> str:
    found = (_undecodable(side, row) for side in prepared.sides.values())
    return next((fault for fault in found if fault), "")


def _undecodable(side: Ragged, row: int) -> str:
    tokens = side.row(row)
    if len(tokens) and tokens.min() == 0:
        return "padding"
    # the last character may be cut, so that what has come may be unfinished and not wrong
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode((np.asarray(tokens, dtype=np.int64) - 1).astype(np.uint8).tobytes())
    except UnicodeDecodeError as error:
        return f"byte 0x{error.object[error.start]:02x} at {error.start}, which is not UTF-8"
    return ""


def _pixels(prepared: Prepared, row: int) -> str:
    height, width = _summary(prepared, PixelsSummary).shape
    came = len(prepared.sides["sequence"].row(row))
    return "" if came == height * width else f"{came} pixels of {height} by {width}"


def _pathfinder(prepared: Prepared, row: int) -> str:
    told = _summary(prepared, PathfinderSummary)
    size = told.size
    tokens = prepared.sides["sequence"].row(row)
    if len(tokens) != size * size:
        return f"{len(tokens)} pixels of {size} by {size}"
    dashes, dots = (np.asarray(prepared.arrays[name][row], dtype=np.float64) for name in ("dashes", "dots"))
    if dashes.shape[1:] != (4,) or dots.shape != (2, 2):
        return f"dashes {dashes.shape} and dots {dots.shape} where four numbers a dash and two dots are due"
    dashes = dashes[dashes[:, 0] >= 0]
    image = np.asarray(tokens, dtype=np.int64).reshape(size, size) - 1
    fault = _not_as_drawn(image, dashes / PER_PIXEL, dots / PER_PIXEL, told)
    if fault:
        return fault
    groups = connected_groups(dashes, PER_PIXEL * told.gap + ROUNDING)
    ends = dashes.reshape(-1, 2)
    at = []
    for dot in dots:
        gaps = np.hypot(*(ends - dot).T)
        if gaps.min() > ROUNDING:
            return "a dot that is at no end of a dash"
        at.append(groups[int(gaps.argmin()) // 2])
    found = "connected" if at[0] == at[1] else "apart"
    said = _class_of(prepared, row)
    return "" if found == said else f"dots that are {found}, labelled {said}"


def connected_groups(dashes: NDArray[np.float64], reach: float) -> NDArray[np.int64]:
    """The group of each dash (k,): those with ends no farther apart than `reach` are in one group, and so on."""
    from scipy.sparse.csgraph import connected_components

    ends = dashes.reshape(-1, 2, 2)
    gaps = ends[:, None, :, None] - ends[None, :, None, :]
    near = np.sqrt((gaps**2).sum(axis=-1)).min(axis=(2, 3)) <= reach
    _, groups = connected_components(near, directed=False)
    found: NDArray[np.int64] = np.asarray(groups, dtype=np.int64)
    return found


def _not_as_drawn(
    image: NDArray[np.int64], dashes: NDArray[np.float64], dots: NDArray[np.float64], told: PathfinderSummary
) -> str:
    """Whether the image shows these dashes and dots and nothing else; lengths in pixels."""
    size = len(image)
    if not len(dashes):
        return "no dashes"
    middles = np.concatenate(((dashes[:, :2] + dashes[:, 2:]) / 2, dots))
    if middles.min() < 0 or middles.max() >= size:
        return "a dash or a dot outside the image"
    seen = image[middles[:, 0].astype(int), middles[:, 1].astype(int)]
    if (seen <= 0).any():
        return "a dash or a dot that the image does not show"
    bright = np.argwhere(image > 0) + 0.5
    along = dashes[:, 2:] - dashes[:, :2]
    to = bright[:, None] - dashes[None, :, :2]
    share = np.clip((to * along).sum(axis=2) / np.maximum((along**2).sum(axis=1), 1e-9), 0, 1)
    aside = np.sqrt(((to - share[..., None] * along) ** 2).sum(axis=2)).min(axis=1)
    away = np.sqrt(((bright[:, None] - dots[None]) ** 2).sum(axis=2)).min(axis=1)
    strange = (aside > told.dash_thickness / 2 + HALF_PIXEL) & (away > told.marker_radius + HALF_PIXEL)
    return f"{int(strange.sum())} bright pixels beside all dashes and dots" if strange.any() else ""


def _summary(prepared: Prepared, kind: type[Told]) -> Told:
    if not isinstance(prepared.summary, kind):
        raise TypeError(f"a {prepared.summary.task} set was opened without its own summary")
    return prepared.summary


def _class_of(prepared: Prepared, row: int) -> str:
    label, classes = int(prepared.arrays["labels"][row]), prepared.summary.classes
    return classes[label] if 0 <= label < len(classes) else f"label {label}"


REWORKERS: Mapping[str, Callable[[Prepared, int], str]] = {
    "listops": _listops,
    "pathfinder": _pathfinder,
    "bytes": _bytes,
    "pixels": _pixels,
    "retrieval": _bytes,
}
