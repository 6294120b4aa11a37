"""Pictures of codebooks and trees: the same bytes for the same data, and a refusal of what does not fit."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from components.evaluation import pictures

STEPS = np.arange(1, 9)
IMAGES = np.linspace(0, 1, 3 * 1 * 4 * 5).reshape(3, 1, 4, 5)
LINKS = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])


def rows(path: Path, factor: float = 1.0) -> None:
    pictures.plot_reconstructions({"image": IMAGES, "rebuilt": IMAGES**factor}, path)


def codebook(path: Path, factor: float = 1.0) -> None:
    pictures.plot_codebook(STEPS, {"train": factor / STEPS}, {"in use": 1 / STEPS}, path)


def codes(path: Path, factor: float = 1.0) -> None:
    pictures.plot_use_of_codes([0.5 * factor, 0.2, 0.3, 0.0], path)


def tree(path: Path, factor: float = 1.0) -> None:
    pictures.plot_tree([LINKS], [np.array([0.5, 0.3, 0.2 * factor]), np.array([0.6, 0.4])], path)


@pytest.mark.parametrize("picture", [rows, codebook, codes, tree])
def test_bytes_depend_on_the_data_alone(picture: Callable[..., None], tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    picture(tmp_path / "b.png")
    picture(tmp_path / "c.png", 1.7)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "c.png").read_bytes() != (tmp_path / "a.png").read_bytes()
    with Image.open(tmp_path / "a.png") as image:
        assert min(image.size) > 100


def test_prototypes_stand_beside_those_they_belong_to() -> None:
    assert pictures._spread(np.array([2, 0, 1])).tolist() == pytest.approx([0.5, 5 / 6, 1 / 6])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda path: pictures.plot_reconstructions({"a": IMAGES, "b": IMAGES[:2]}, path), "one shape"),
        (lambda path: pictures.plot_reconstructions({"a": IMAGES[:, 0]}, path), "one shape"),
        (lambda path: pictures.plot_use_of_codes([], path), "one number from 0 for each code"),
        (lambda path: pictures.plot_use_of_codes([0.5, -0.1], path), "one number from 0 for each code"),
        (lambda path: pictures.plot_tree([LINKS], [np.ones(3)], path), "between two levels of sizes"),
        (lambda path: pictures.plot_tree([LINKS], [np.ones(2), np.ones(3)], path), "between two levels of sizes"),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        call(tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()
