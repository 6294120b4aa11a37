"""Pathfinder: curves that keep their distances, dots that are what the label says, and pixels that show both."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from components.datasets.longrange import pathfinder
from components.datasets.longrange.config import PathfinderOptions
from components.datasets.longrange.curves import NOWHERE, clear_of, draw_curves, segment_distances, turns
from components.datasets.longrange.drawing import Canvas
from components.datasets.longrange.pathfinder import drawn, sequences
from components.datasets.longrange.source import SequenceRow
from components.errors import DataError
from tests.datasets.sequences import generated_entry, in_memory, rows_options, silent

PUBLISHED = PathfinderOptions()
# Small and loose, so that a batch takes a moment.
LOOSE = {"contour_length": 5, "distractor_length": 2, "distractors": 2}
ROUNDED = 0.02


def loose_rows(rows: tuple[int, int, int] = (60, 20, 20), seed: int = 7) -> list[SequenceRow]:
    return in_memory(sequences(rows_options("pathfinder", rows, seed, pathfinder=LOOSE), silent))


@pytest.fixture(scope="module")
def rows() -> list[SequenceRow]:
    return loose_rows()


@pytest.fixture(scope="module")
def curves() -> NDArray[np.float64]:
    """One batch with the published settings."""
    return draw_curves(np.random.Generator(np.random.PCG64(5)), PUBLISHED)


def sampled(dashes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points (k, 41, 2) along dashes (k, 4)."""
    shares = np.linspace(0, 1, 41)[None, :, None]
    return dashes[:, None, :2] * (1 - shares) + dashes[:, None, 2:] * shares


def test_distractors_are_whole_or_absent_and_contours_always_whole(curves: NDArray[np.float64]) -> None:
    there = curves[:, :, 0] != NOWHERE
    contours = there[:, : 2 * PUBLISHED.contour_length]
    distractors = there[:, 2 * PUBLISHED.contour_length :].reshape(len(curves), PUBLISHED.distractors, -1)
    assert contours.all()
    assert (distractors.all(axis=2) | ~distractors.any(axis=2)).all()
    # the settings are crowded: most images have two or three of the five
    assert 2 < distractors.all(axis=2).sum(axis=1).mean() < 4
    assert len(curves) > 500


def test_dashes_have_their_length_and_stay_inside(curves: NDArray[np.float64]) -> None:
    dashes = curves[curves[:, :, 0] != NOWHERE]
    lengths = np.hypot(dashes[:, 2] - dashes[:, 0], dashes[:, 3] - dashes[:, 1])
    assert np.abs(lengths - PUBLISHED.dash_length).max() < ROUNDED
    edge = PUBLISHED.padding + PUBLISHED.margin + PUBLISHED.dash_thickness / 2
    assert dashes.min() >= edge
    assert dashes.max() <= PUBLISHED.size - edge
    # hundredths of a pixel, so that what is stored is what was drawn
    assert np.allclose(dashes * 100, np.round(dashes * 100), atol=1e-6)


def test_a_curve_goes_on_within_twice_the_margin_and_turns_at_most_a_quarter(curves: NDArray[np.float64]) -> None:
    starts = range(0, 2 * PUBLISHED.contour_length, PUBLISHED.contour_length)
    for start in starts:
        contour = curves[:, start : start + PUBLISHED.contour_length]
        gaps = np.hypot(*np.moveaxis(contour[:, 1:, :2] - contour[:, :-1, 2:], -1, 0))
        assert gaps.max() <= 2 * PUBLISHED.margin + ROUNDED
        # a quarter turn leaves the diagonal of a square of one margin
        assert gaps.min() >= np.sqrt(2) * PUBLISHED.margin - ROUNDED
        along = contour[:, :, 2:] - contour[:, :, :2]
        assert (along[:, 1:] * along[:, :-1]).sum(axis=-1).min() > -ROUNDED * PUBLISHED.dash_length


def test_dashes_that_do_not_follow_each_other_keep_their_distance(curves: NDArray[np.float64]) -> None:
    for image in curves[:25]:
        there = np.flatnonzero(image[:, 0] != NOWHERE)
        points = sampled(image[there])
        gaps = np.sqrt(((points[:, None, :, None] - points[None, :, None, :]) ** 2).sum(axis=-1)).min(axis=(2, 3))
        for one, place in enumerate(there):
            for other in range(one + 1, len(there)):
                if not follows(int(place), int(there[other])):
                    assert gaps[one, other] >= PUBLISHED.clearance - 1e-9


def follows(place: int, other: int) -> bool:
    """Whether two places, in drawing order, are neighbours of one curve."""
    if other != place + 1:
        return False
    both = 2 * PUBLISHED.contour_length
    begins = (
        other % PUBLISHED.contour_length == 0 if other < both else (other - both) % PUBLISHED.distractor_length == 0
    )
    return not begins


def test_the_curves_begin_as_published(curves: NDArray[np.float64]) -> None:
    first, second = curves[:, 0, :2], curves[:, PUBLISHED.contour_length, :2]
    middle = 2 * PUBLISHED.seed_distance
    assert first.min() >= middle - ROUNDED
    assert first.max() <= PUBLISHED.size - middle + ROUNDED
    assert np.abs(np.hypot(*(second - first).T) - PUBLISHED.seed_distance).max() < ROUNDED


@pytest.mark.parametrize("continuity", [0.8, 1.0, 2.0])
def test_turns_have_the_published_density(continuity: float) -> None:
    angles = np.sort(turns(np.random.Generator(np.random.PCG64(1)), continuity, 20_000))
    assert np.abs(angles).max() <= np.pi / 2 / continuity
    # the integral of cos(u) ** 2, by a fine sum and not by its closed form
    grid = np.linspace(-np.pi / 2, np.pi / 2, 200_001)
    density = np.cos(grid) ** 2
    shares = np.interp(angles * continuity, grid, np.cumsum(density) / density.sum())
    # Kolmogorov's distance: above 1.95 / sqrt(n) once in a thousand draws
    assert np.abs(shares - (np.arange(20_000) + 0.5) / 20_000).max() < 1.95 / np.sqrt(20_000)


def test_distances_of_segments_against_densely_sampled_ones() -> None:
    rng = np.random.default_rng(3)
    one = rng.uniform(0, 10, (300, 4))
    other = rng.uniform(0, 10, (300, 4)) + np.asarray([0, 12, 0, 12])
    exact = segment_distances(one, other)
    near = np.sqrt(((sampled(one)[:, :, None] - sampled(other)[:, None]) ** 2).sum(axis=-1)).min(axis=(1, 2))
    # points lie up to half of a fortieth of the length apart from the nearest ones, which is less than 0.36
    assert (near >= exact - 1e-9).all()
    assert (near - exact).max() < 0.36
    assert segment_distances(np.asarray([[0.0, 0, 0, 4]]), np.asarray([[3.0, 2, 5, 2]]))[0] == 3


def test_a_dash_too_near_is_refused_and_one_far_enough_is_not() -> None:
    lying = np.asarray([[[10.0, 10, 10, 12]]])
    for gap, clear in ((PUBLISHED.clearance - 0.01, False), (PUBLISHED.clearance, True)):
        # beside it, and ahead of it
        for new in ([10 + gap, 10, 10 + gap, 12], [10, 12 + gap, 10, 14 + gap]):
            assert bool(clear_of(np.asarray([new]), lying, PUBLISHED)[0]) is clear


def test_labels_are_what_a_walk_along_the_dashes_finds(rows: list[SequenceRow]) -> None:
    form = PathfinderOptions(**LOOSE)
    for row in rows:
        dashes = row.truth["dashes"].astype(float)
        dots = row.truth["dots"].astype(float)
        there = dashes[dashes[:, 0] >= 0]
        assert walk(there, dots[0], dots[1], 100 * 2 * form.margin + 2) is (row.label == 1)


def walk(dashes: NDArray[np.float64], start: NDArray[np.float64], goal: NDArray[np.float64], reach: float) -> bool:
    """Whether `goal` can be come to from `start`, along dashes and over gaps of at most `reach`, by breadth first."""
    ends = dashes.reshape(-1, 2)
    frontier = [int(np.abs(ends - start).sum(axis=1).argmin())]
    seen = set(frontier)
    while frontier:
        at = frontier.pop(0)
        if np.abs(ends[at] - goal).max() < 1:
            return True
        near = {at ^ 1, *np.flatnonzero(np.hypot(*(ends - ends[at]).T) <= reach).tolist()}
        frontier += sorted(near - seen)
        seen |= near
    return False


def test_labels_are_balanced_two_by_two(rows: list[SequenceRow]) -> None:
    for code in range(3):
        labels = [row.label for row in rows if row.split == code]
        assert all(first + second == 1 for first, second in zip(labels[::2], labels[1::2], strict=True))
    # and which comes first is left to chance
    assert 10 < sum(row.label for row in rows[:60:2]) < 20
    assert Counter(row.split for row in rows) == {0: 60, 1: 20, 2: 20}


def test_dots_are_ends_of_contours_and_never_of_distractors(rows: list[SequenceRow]) -> None:
    length = LOOSE["contour_length"]
    for row in rows:
        contours = row.truth["dashes"][: 2 * length].reshape(2, length, 4)
        begun, ended = row.truth["dots"].tolist()
        begins, ends = contours[:, 0, :2].tolist(), contours[:, -1, 2:].tolist()
        assert begun in begins
        assert ended in ends
        assert (begins.index(begun) == ends.index(ended)) is (row.label == 1)


def test_the_same_seed_gives_the_same_images_and_another_seed_others(rows: list[SequenceRow]) -> None:
    again, other = loose_rows(), loose_rows(seed=8)
    assert [row.tokens.tobytes() for row in rows] == [row.tokens.tobytes() for row in again]
    assert [row.truth["dashes"].tobytes() for row in rows] == [row.truth["dashes"].tobytes() for row in again]
    assert not {row.tokens.tobytes() for row in rows} & {row.tokens.tobytes() for row in other}
    assert len({row.tokens.tobytes() for row in rows}) == len(rows)


def test_fewer_rows_are_the_first_of_more(rows: list[SequenceRow]) -> None:
    fewer = loose_rows((11, 20, 3))
    for code, count in enumerate((11, 20, 3)):
        whole = [row.tokens.tobytes() for row in rows if row.split == code]
        assert [row.tokens.tobytes() for row in fewer if row.split == code] == whole[:count]


def test_tokens_are_the_pixels_that_the_stored_geometry_gives(rows: list[SequenceRow]) -> None:
    form = PathfinderOptions(**LOOSE)
    stored = np.stack([row.truth["dashes"] for row in rows]).astype(float) / 100
    stored[stored[:, :, 0] < 0] = NOWHERE
    pixels = drawn(stored, np.stack([row.truth["dots"] for row in rows]) / 100, form)
    tokens = np.stack([row.tokens.reshape(form.size, form.size) for row in rows])
    assert np.array_equal(pixels.astype(int) + 1, tokens.astype(int))
    assert (tokens.max(axis=(1, 2)) == 256).all()
    assert tokens.min() == 1


def canvas_with_dash(dash: tuple[float, float, float, float], thickness: float, size: int = 12) -> NDArray[np.float64]:
    canvas = Canvas(1, size, 6)
    canvas.add_dashes(np.asarray([0]), np.asarray([dash]), thickness, 1.0)
    return canvas.pixels[0]


def test_a_dash_covers_the_share_of_each_pixel_that_it_lies_on() -> None:
    pixels = canvas_with_dash((5.0, 3.0, 5.0, 7.0), 0.5)
    expected = np.zeros((12, 12))
    # half a pixel thick on the line between two rows: a quarter of each
    expected[4:6, 3:7] = 0.25
    assert np.array_equal(pixels, expected)
    assert np.array_equal(canvas_with_dash((3.0, 5.0, 7.0, 5.0), 0.5), expected.T)
    assert np.array_equal(canvas_with_dash((5.0, 7.0, 5.0, 3.0), 0.5), expected)


def test_areas_are_right_whatever_the_direction() -> None:
    rng = np.random.default_rng(2)
    for angle in rng.uniform(0, 2 * np.pi, 20):
        begin = rng.uniform(8, 12, 2)
        end = begin + 5 * np.asarray([np.sin(angle), np.cos(angle)])
        area = canvas_with_dash((*begin, *end), 2.0, 20).sum()
        # 5 by 2 pixels, counted at 16 points a pixel
        assert abs(area - 10) < 0.6
    canvas = Canvas(1, 20, 8)
    canvas.add_dots(np.asarray([0]), np.asarray([[9.3, 10.8]]), 4.0, 0.5)
    assert abs(canvas.pixels.sum() / 0.5 - np.pi * 16) < 0.02 * np.pi * 16
    assert canvas.pixels[0, 9, 10] == 0.5


def test_where_shapes_overlap_the_brighter_one_counts_and_the_edge_cuts() -> None:
    canvas = Canvas(2, 12, 6)
    for brightness in (0.4, 1.0, 0.4):
        canvas.add_dots(np.asarray([1]), np.asarray([[6.0, 6.0]]), 3.0, brightness)
    assert canvas.pixels[1].max() == 1.0
    assert canvas.pixels[0].max() == 0.0
    canvas.add_dots(np.asarray([0]), np.asarray([[0.0, 6.0]]), 3.0, 1.0)
    # half of it lies outside
    assert abs(canvas.pixels[0].sum() - np.pi * 9 / 2) < 0.05 * np.pi * 9
    with pytest.raises(ValueError, match="needs a border of 8 pixels, got 6"):
        canvas.add_dots(np.asarray([0]), np.asarray([[6.0, 6.0]]), 7.0, 1.0)


def test_images_are_scaled_to_their_brightest_point() -> None:
    form = PathfinderOptions(distractors=1, distractor_length=1, contour_length=2, dash_thickness=1)
    # on whole rows of pixels, so that a pixel in the middle of a dash is covered whole
    dashes = np.asarray(
        [[[4.5, 4, 4.5, 6], [4.5, 8, 4.5, 10], [20.5, 4, 20.5, 6], [20.5, 8, 20.5, 10], [28.5, 4, 28.5, 6]]]
    )
    dots = np.asarray([[[4.5, 4], [20.5, 10]]])
    (image,) = drawn(dashes, dots, form)
    assert (int(image[28, 4]), int(image[4, 8]), int(image[20, 10])) == (255, round(255 * 0.75), round(255 / 2))


def test_the_size_is_free_and_the_summary_tells_of_it() -> None:
    made = sequences(rows_options("pathfinder", (3, 2, 2), pathfinder={"size": 48, **LOOSE}), silent)
    assert {len(row.tokens) for row in in_memory(made)} == {48 * 48}
    assert made.facts["variant"] == (
        "Pathfinder with size 48 in place of 32, contour_length 5 in place of 14, distractor_length 2 in place of 4, "
        "distractors 2 in place of 5"
    )
    assert sequences(rows_options("pathfinder", (1, 1, 1)), silent).facts["variant"] == (
        "Pathfinder with the published settings"
    )


def test_settings_without_room_are_refused() -> None:
    crowded = {"contour_length": 40, "margin": 4, "dash_length": 8, "size": 32, "seed_distance": 3}
    with pytest.raises(DataError, match="no image of 32 pixels could be finished with two contours of 40 dashes"):
        in_memory(sequences(rows_options("pathfinder", (1, 1, 1), pathfinder=crowded), silent))


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"seed_distance": 8}, "seed_distance 8 leaves no place to begin in an image of 32 pixels"),
        ({"dash_length": 5.2}, r"dash_length 5\.2 is more than twice what lies between dashes \(2\.5\)"),
        ({"continuity": 0.2}, "greater than or equal to 0.5"),
        ({"blur": 1}, "Extra inputs are not permitted"),
    ],
)
def test_impossible_settings_are_refused(form: dict[str, float], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        rows_options("pathfinder", (1, 1, 1), pathfinder=form)


def test_the_reader_takes_no_files() -> None:
    entry = generated_entry("pathfinder-generator")
    assert pathfinder.read((), entry) is sequences
    with pytest.raises(DataError, match="got 1 files for the generator pathfinder-generator, allowed are none"):
        pathfinder.read((Path("a"),), entry)
