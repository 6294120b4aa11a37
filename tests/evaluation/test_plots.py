"""Plots: the same bytes for the same data under any style, other bytes for other data, and no trace of the moment."""

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from components.evaluation import plots

NAMES = ["PAYLOAD", "ROCKET BODY", "DEBRIS"]
STEPS = np.arange(0, 50, 5)
FALLING = np.exp(-STEPS / 20)
CONFUSION = np.array([[90, 2, 3], [1, 8, 4], [0, 0, 0]])
USE = np.arange(51, dtype=float).reshape(3, 17)


def confusion(path: Path, factor: float = 1.0) -> None:
    plots.plot_confusion(CONFUSION + (factor - 1.0), NAMES, path)


def use(path: Path, factor: float = 1.0) -> None:
    plots.plot_prototype_use(USE**factor, NAMES, path)


def separation(path: Path, factor: float = 1.0) -> None:
    plots.plot_separation(STEPS, FALLING * factor, FALLING + 1, FALLING, path)


def training(path: Path, factor: float = 1.0) -> None:
    plots.plot_training(STEPS, {"train": FALLING * factor, "validation": FALLING}, {"accuracy": 1 - FALLING}, path)


FIGURES = [confusion, use, separation, training]


@pytest.mark.parametrize("figure", FIGURES)
def test_bytes_depend_on_the_data_alone(figure: Callable[..., None], tmp_path: Path) -> None:
    figure(tmp_path / "plots" / "a.png")
    first = (tmp_path / "plots" / "a.png").read_bytes()
    with mpl.rc_context({"font.size": 22, "axes.facecolor": "red", "savefig.dpi": 33}):
        figure(tmp_path / "b.png")
    figure(tmp_path / "c.png", 1.5)
    assert (tmp_path / "b.png").read_bytes() == first
    assert (tmp_path / "c.png").read_bytes() != first
    with Image.open(tmp_path / "b.png") as image:
        # resolution only: no software, no date
        assert set(image.info) <= {"dpi"}
        assert min(image.size) > 300
        # something besides white was drawn
        assert np.asarray(image.convert("L")).std() > 5


def test_no_figure_stays_open(tmp_path: Path) -> None:
    import matplotlib.pyplot as plt

    training(tmp_path / "t.png")
    assert plt.get_fignums() == []


def test_awkward_data_are_drawn(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    plots.plot_confusion([[5]], ["ONE"], tmp_path / "one.png")
    plots.plot_prototype_use(np.zeros((2, 3)), ["a", "b"], tmp_path / "unused.png")
    plots.plot_separation([0], [0.0], [0.0], [1.0], tmp_path / "point.png")
    # a loss below zero has no logarithm
    plots.plot_training([0, 1], {"loss": [1.0, -1.0]}, {"accuracy": [0.5, 0.5]}, tmp_path / "negative.png")
    assert len(list(tmp_path.glob("*.png"))) == 4
    assert [str(warning.message) for warning in recwarn] == []


@pytest.mark.parametrize(
    ("draw", "part"),
    [
        (lambda path: plots.plot_confusion(np.ones((2, 3)), NAMES, path), r"\(2, 3\) for 3 classes"),
        (lambda path: plots.plot_prototype_use(-USE, NAMES, path), "numbers from 0"),
        (lambda path: plots.plot_prototype_use(USE, NAMES[:2], path), "for 2 classes"),
        (lambda path: plots.plot_separation(STEPS, FALLING[1:], FALLING, FALLING, path), "least distance"),
        (lambda path: plots.plot_training(STEPS, {}, {"a": FALLING}, path), "are none"),
        (lambda path: plots.plot_training([0], {"loss": [np.nan]}, {"a": [1.0]}, path), "loss has shape"),
        (lambda path: plots.plot_training([], {"loss": []}, {"a": []}, path), "steps has shape"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_and_write_nothing(
    draw: Callable[[Path], None], part: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=part):
        draw(tmp_path / "x.png")
    assert list(tmp_path.iterdir()) == []
