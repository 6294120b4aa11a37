"""Pictures: the same bytes for the same comparison, other bytes for another, from one seed to forty arms."""

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from components.evaluation.comparison.labelling import Box, place, short
from components.evaluation.comparison.paired import Comparison, compare
from components.evaluation.comparison.pictures import VERDICTS, plot_arms, plot_differences, plot_front

METRIC = "test/accuracy"


def study(arms: int, seeds: int, factor: float = 1.0) -> Comparison:
    draws = np.random.default_rng(3)
    shared = draws.normal(0.7, 0.02, size=seeds)
    values = {
        f"prototypes={arm},a-long-name-that-goes-on-and-on-for-arm-{arm}": {
            seed: float(factor * (shared[seed] + 0.001 * arm + draws.normal(0, 0.005))) for seed in range(seeds)
        }
        for arm in range(arms)
    }
    return compare(values, reference=next(iter(values)), goal="maximise", resamples=199)


def front(comparison: Comparison, path: Path) -> None:
    costs = {arm.name: 10.0 * 1.5**position for position, arm in enumerate(comparison.arms)}
    plot_front(comparison, costs, "parameters", path, METRIC)


def arms(comparison: Comparison, path: Path) -> None:
    plot_arms(comparison, path, METRIC)


def differences(comparison: Comparison, path: Path) -> None:
    plot_differences(comparison, path, METRIC)


Picture = Callable[[Comparison, Path], None]
PICTURES: list[Picture] = [arms, differences, front]


@pytest.mark.parametrize("picture", PICTURES)
def test_bytes_depend_on_the_comparison_alone(picture: Picture, tmp_path: Path) -> None:
    picture(study(4, 5), tmp_path / "plots" / "a.png")
    first = (tmp_path / "plots" / "a.png").read_bytes()
    with mpl.rc_context({"font.size": 22, "axes.facecolor": "red", "savefig.dpi": 33}):
        picture(study(4, 5), tmp_path / "b.png")
    picture(study(4, 5, factor=1.1), tmp_path / "c.png")
    assert (tmp_path / "b.png").read_bytes() == first
    assert (tmp_path / "c.png").read_bytes() != first
    with Image.open(tmp_path / "b.png") as image:
        assert set(image.info) <= {"dpi"}
        assert np.asarray(image.convert("L")).std() > 5


@pytest.mark.parametrize("picture", PICTURES)
@pytest.mark.parametrize(("arms", "seeds"), [(2, 1), (2, 2), (3, 30), (40, 5)])
def test_few_and_many(picture: Picture, arms: int, seeds: int, tmp_path: Path) -> None:
    picture(study(arms, seeds), tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        width, height = image.size
        # room for every row, and nothing that a page could not hold
        assert 200 < height < 3000
        assert 800 < width < 1700
        if picture is not front:
            assert height > 35 * arms
        pixels = np.asarray(image.convert("L"))
    # nothing is cut off: the outermost pixels are blank
    assert min(pixels[0].min(), pixels[-1].min(), pixels[:, 0].min(), pixels[:, -1].min()) == 255


def test_the_reference_alone_has_two_pictures(tmp_path: Path) -> None:
    alone = study(1, 5)
    arms(alone, tmp_path / "a.png")
    front(alone, tmp_path / "b.png")
    with pytest.raises(ValueError, match="no arm beside the reference"):
        differences(alone, tmp_path / "c.png")


def test_arms_on_one_point_and_at_one_cost(tmp_path: Path) -> None:
    values = {name: {1: 0.5, 2: 0.5, 3: 0.5} for name in "abc"}
    compared = compare(values, reference="a", goal="minimise", resamples=99)
    arms(compared, tmp_path / "a.png")
    differences(compared, tmp_path / "b.png")
    plot_front(compared, dict.fromkeys("abc", 0.0), "steps", tmp_path / "c.png", METRIC)
    assert len(list(tmp_path.iterdir())) == 3


def test_arms_that_lack_seeds_have_gaps(tmp_path: Path) -> None:
    values = {"a": {1: 0.5, 2: 0.6, 3: 0.4}, "b": {1: 0.6, 3: 0.5}, "c": {1: 0.6, 2: 0.5, 3: 0.4}}
    compared = compare(values, reference="a", goal="minimise", resamples=99, common_seeds=True)
    arms(compared, tmp_path / "a.png")
    differences(compared, tmp_path / "b.png")
    assert len(list(tmp_path.iterdir())) == 2


def test_a_cost_that_is_missing_or_not_finite_is_refused(tmp_path: Path) -> None:
    compared = study(2, 2)
    names = [arm.name for arm in compared.arms]
    with pytest.raises(ValueError, match=f"there is no steps for {names[1]}"):
        plot_front(compared, {names[0]: 1.0}, "steps", tmp_path / "a.png", METRIC)
    with pytest.raises(ValueError, match="only finite numbers"):
        plot_front(compared, {names[0]: 1.0, names[1]: float("nan")}, "steps", tmp_path / "a.png", METRIC)


def test_verdicts_differ_in_colour_and_in_marker() -> None:
    assert len({colour for colour, _ in VERDICTS.values()}) == len({marker for _, marker in VERDICTS.values()}) == 5


POINT = st.tuples(st.integers(100, 900), st.integers(100, 500))


@given(st.lists(POINT, min_size=1, max_size=5, unique=True), st.integers(20, 60))
def test_names_keep_clear_of_each_other_where_there_is_room(points: list[tuple[int, int]], width: int) -> None:
    frame = Box(0, 0, 1000, 600)
    taken = [Box(x - 3, y - 3, x + 3, y + 3) for x, y in points]
    for point in points:
        box = place(point, (width, 10), taken, frame)
        assert (box.right - box.left, box.top - box.bottom) == pytest.approx((width, 10))
        assert sum(box.overlap(other) for other in taken) == pytest.approx(0.0, abs=1e-3)
        assert frame.left <= box.left < box.right <= frame.right
        assert frame.bottom <= box.bottom < box.top <= frame.top
        # within reach of its point
        assert box.distance(*point) <= 111
        taken.append(box)


def test_a_name_without_room_hides_as_little_as_can_be_and_stays_inside() -> None:
    frame = Box(0, 0, 100, 100)
    # all is taken but a strip at the right
    assert place((50, 50), (20, 10), [Box(0, 0, 73, 100)], frame).left >= 73
    assert place((95, 50), (60, 10), [frame], frame).right <= 100
    assert place((2, 99), (60, 10), [frame], frame).left >= 0


def test_long_names_keep_both_ends() -> None:
    assert short("temperature=1") == "temperature=1"
    cut = short("a" * 40 + "-" + "b" * 40, 44)
    assert len(cut) == 44
    assert cut == "a" * 22 + "…" + "b" * 21
