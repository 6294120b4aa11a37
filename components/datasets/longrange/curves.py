"""Dashed curves that do not touch: the geometry of Pathfinder, for many images at once.

A dash is its two ends (y0, x0, y1, x1), in pixels from the upper left corner. A curve goes on behind a dash by `margin`
straight ahead and, after a turn, by `margin` and one dash in the new direction. A turn by the angle a is drawn with
weight cos(continuity * a) ** 2. Every dash keeps `clearance` from all others but the one that it follows.

A contour that finds no way on gives up its last few dashes and goes on from there. Beginning the whole image anew, as
the published generator does, needs about a thousand beginnings for one image of these settings.

Ends are rounded to hundredths of a pixel when they are placed, so that what is stored is exactly what was drawn.
"""

import numpy as np
from numpy.typing import NDArray

from components.datasets.longrange.config import PathfinderOptions

Dashes = NDArray[np.float64]
Images = NDArray[np.intp]

# Images begun at once. Part of what a seed means, as are the numbers below it.
IMAGES_AT_ONCE = 1024
DASH_ATTEMPTS = 12
MOST_GIVEN_UP = 4
# Steps of growing or giving up after which an unfinished image is left out.
MOVES = 160
SEED_ATTEMPTS = 24
DISTRACTOR_ATTEMPTS = 10

PER_PIXEL = 100
# Where a dash is not there: so far away that it is in nobody's way.
NOWHERE = 1e6

_ANGLES = np.linspace(-np.pi / 2, np.pi / 2, 4097)
_TURN_SHARES = (_ANGLES + np.sin(2 * _ANGLES) / 2) / np.pi + 0.5


def draw_curves(generator: np.random.Generator, form: PathfinderOptions) -> Dashes:
    """Images (n, form.dashes, 4), n varies: the first contour, the second, then the distractors, each in its order.

    Images in which a contour could not be finished are left out; the dashes of a distractor that found no place are at
    NOWHERE.
    """
    dashes = np.full((IMAGES_AT_ONCE, form.dashes, 4), NOWHERE)
    headings = np.zeros((IMAGES_AT_ONCE, form.dashes))
    # a view: what is not drawn yet need not be kept clear of
    finished = _grow_contours(generator, form, dashes[:, : 2 * form.contour_length], headings)
    dashes, headings = dashes[finished], headings[finished]
    for number in range(form.distractors):
        begin = 2 * form.contour_length + number * form.distractor_length
        _add_distractor(generator, form, dashes, headings, begin)
    return dashes


def turns(generator: np.random.Generator, continuity: float, count: int) -> NDArray[np.float64]:
    """Angles (count,) with density proportional to cos(continuity * a) ** 2 where that argument is within a quarter."""
    angles: NDArray[np.float64] = np.interp(generator.random(count), _TURN_SHARES, _ANGLES) / continuity
    return angles


def clear_of(new: Dashes, others: Dashes, form: PathfinderOptions) -> NDArray[np.bool_]:
    """Whether dash n of `new` (n, 4) keeps the clearance from all of `others` (n, k, 4).

    Where two segments do not cross, their distance is at an end of one of them. Dashes that cross have ends closer than
    half a dash, which the options keep below the clearance.
    """
    gap_y = others[..., 0] + others[..., 2] - (new[:, 0] + new[:, 2])[:, None]
    gap_x = others[..., 1] + others[..., 3] - (new[:, 1] + new[:, 3])[:, None]
    # dashes whose middles are farther apart are out of reach; twice, since the sums above are twice the middles
    reach = 2 * (form.clearance + form.dash_length + 2 / PER_PIXEL)
    rows, columns = np.nonzero(gap_y**2 + gap_x**2 < reach**2)
    near = segment_distances(new[rows], others[rows, columns])
    clear = np.ones(len(new), dtype=bool)
    clear[rows[near < form.clearance]] = False
    return clear


def segment_distances(one: Dashes, other: Dashes) -> NDArray[np.float64]:
    """Distance (n,) of segments (n, 4) that do not cross."""
    squares = (
        _to_segment(one[:, :2], other),
        _to_segment(one[:, 2:], other),
        _to_segment(other[:, :2], one),
        _to_segment(other[:, 2:], one),
    )
    closest: NDArray[np.float64] = np.sqrt(np.minimum.reduce(squares))
    return closest


def _to_segment(point: NDArray[np.float64], segment: Dashes) -> NDArray[np.float64]:
    """Squared distance (n,) of points (n, 2) from segments (n, 4)."""
    along_y, along_x = segment[:, 2] - segment[:, 0], segment[:, 3] - segment[:, 1]
    to_y, to_x = point[:, 0] - segment[:, 0], point[:, 1] - segment[:, 1]
    share = np.clip((to_y * along_y + to_x * along_x) / (along_y**2 + along_x**2), 0.0, 1.0)
    squared: NDArray[np.float64] = (to_y - share * along_y) ** 2 + (to_x - share * along_x) ** 2
    return squared


def _direction(angle: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack((np.sin(angle), np.cos(angle)), axis=-1)


def _dash(start: NDArray[np.float64], angle: NDArray[np.float64], form: PathfinderOptions) -> Dashes:
    ends = np.concatenate((start, start + form.dash_length * _direction(angle)), axis=-1)
    return np.round(ends * PER_PIXEL) / PER_PIXEL


def _inside(dashes: Dashes, form: PathfinderOptions) -> NDArray[np.bool_]:
    edge = form.padding + form.margin + form.dash_thickness / 2
    inside: NDArray[np.bool_] = np.all((dashes >= edge) & (dashes <= form.size - edge), axis=-1)
    return inside


def _grow_contours(
    generator: np.random.Generator, form: PathfinderOptions, dashes: Dashes, headings: NDArray[np.float64]
) -> Images:
    """Draw both contours into `dashes`, the shorter one a dash at a time; the images in which both were finished."""
    whole = form.contour_length
    alive = _begin_contours(generator, form, dashes, headings)
    lengths = np.ones((len(dashes), 2), dtype=np.int64)
    for _ in range(MOVES):
        growing = alive[lengths[alive].min(axis=1) < whole]
        if not len(growing):
            break
        contour = (lengths[growing, 1] < lengths[growing, 0]).astype(np.int64)
        length = lengths[growing, contour]
        grown = _extend(generator, form, dashes, headings, growing, contour * whole + length)
        given_up = generator.integers(1, MOST_GIVEN_UP, len(growing), endpoint=True)
        new_length = np.where(grown, length + 1, np.maximum(length - given_up, 1))
        for step in range(1, MOST_GIVEN_UP + 1):
            # the dashes from the new length up to the old one are no more
            gone = length - step >= new_length
            dashes[growing[gone], (contour * whole + length - step)[gone]] = NOWHERE
        lengths[growing, contour] = new_length
    finished: Images = alive[lengths[alive].min(axis=1) == whole]
    return finished


def _begin_contours(
    generator: np.random.Generator, form: PathfinderOptions, dashes: Dashes, headings: NDArray[np.float64]
) -> Images:
    """First dashes: one in the middle of the image, one at `seed_distance` from it. The images where both fit."""
    count = len(dashes)
    places = (0, form.contour_length)
    middle = 2 * form.seed_distance
    first = middle + generator.random((count, 2)) * (form.size - 2 * middle)
    second = first + form.seed_distance * _direction(generator.random(count) * 2 * np.pi)
    for place, start in zip(places, (first, second), strict=True):
        headings[:, place] = generator.random(count) * 2 * np.pi
        dashes[:, place] = _dash(start, headings[:, place], form)
    one, other = (dashes[:, place] for place in places)
    return np.flatnonzero(_inside(one, form) & _inside(other, form) & clear_of(one, other[:, None], form))


def _extend(
    generator: np.random.Generator,
    form: PathfinderOptions,
    dashes: Dashes,
    headings: NDArray[np.float64],
    images: Images,
    place: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Put the dash `place` (n,) behind the one before it in each of `images` (n,); where that was possible, (n,)."""
    grown = np.zeros(len(images), dtype=bool)
    for _ in range(DASH_ATTEMPTS):
        waiting = np.flatnonzero(~grown)
        if not len(waiting):
            break
        chosen, last = images[waiting], place[waiting] - 1
        old = headings[chosen, last]
        angle = old + turns(generator, form.continuity, len(chosen))
        start = dashes[chosen, last, 2:] + form.margin * (_direction(old) + _direction(angle))
        new = _dash(start, angle, form)
        fits = np.flatnonzero(_inside(new, form))
        others = dashes[chosen[fits]]
        others[np.arange(len(fits)), last[fits]] = NOWHERE
        fits = fits[clear_of(new[fits], others, form)]
        dashes[chosen[fits], last[fits] + 1] = new[fits]
        headings[chosen[fits], last[fits] + 1] = angle[fits]
        grown[waiting[fits]] = True
    return grown


def _add_distractor(
    generator: np.random.Generator,
    form: PathfinderOptions,
    dashes: Dashes,
    headings: NDArray[np.float64],
    begin: int,
) -> None:
    """One distractor in each image, if one of some attempts finds a place for all of its dashes."""
    waiting = np.arange(len(dashes))
    for _ in range(DISTRACTOR_ATTEMPTS):
        growing = _seed_distractor(generator, form, dashes, headings, waiting, begin)
        for place in range(begin + 1, begin + form.distractor_length):
            grown = _extend(generator, form, dashes, headings, growing, np.full(len(growing), place))
            growing = growing[grown]
        waiting = np.setdiff1d(waiting, growing)
        dashes[waiting, begin : begin + form.distractor_length] = NOWHERE


def _seed_distractor(
    generator: np.random.Generator,
    form: PathfinderOptions,
    dashes: Dashes,
    headings: NDArray[np.float64],
    images: Images,
    place: int,
) -> Images:
    """A first dash anywhere that is free, in each of `images`; the images in which one was found."""
    waiting = images
    for _ in range(SEED_ATTEMPTS):
        angle = generator.random(len(waiting)) * 2 * np.pi
        new = _dash(generator.random((len(waiting), 2)) * form.size, angle, form)
        fits = _inside(new, form) & clear_of(new, dashes[waiting], form)
        dashes[waiting[fits], place] = new[fits]
        headings[waiting[fits], place] = angle[fits]
        waiting = waiting[~fits]
    return np.setdiff1d(images, waiting)
