"""The gate of images: accepts a good folder, and for every check refuses a folder that only this check refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.arrays import SPLITS, save_array
from components.datasets.images.config import GateOptions, Statistics
from components.errors import DataError
from components.files import canonical_json, write_json
from components.quality.core.drift import Drift
from components.quality.core.profile import profile_of
from components.quality.core.report import GateReport
from components.quality.images.gate import gate, observations

SHAPE = (6, 6, 3)
CLASSES = ("ant", "bee", "cod")
ROWS = {"train": 300, "validation": 90, "test": 90}


class Prepared:
    """A prepared folder of random images, good unless it is spoilt."""

    def __init__(self) -> None:
        rng = np.random.default_rng(20260404)
        rows = sum(ROWS.values())
        levels = rng.uniform(0, 255, (rows, *SHAPE))
        # channels of different brightness, so that none can be taken for another
        self.images: Any = np.clip(np.round(levels + 255 * np.asarray([-0.05, 0, 0.05])), 0, 255).astype(np.uint8)
        self.labels: Any = np.arange(rows, dtype=np.int64) % len(CLASSES)
        self.splits: Any = np.repeat(np.arange(3, dtype=np.uint8), list(ROWS.values()))
        self.summary: Any = {"classes": list(CLASSES), "shape": list(SHAPE)}

    def write(self, folder: Path) -> Path:
        for name in ("images", "labels", "splits"):
            save_array(folder / f"{name}.npy", getattr(self, name))
        write_json(folder / "summary.json", self.summary)
        return folder


def published() -> Statistics:
    """The statistics of all good images but the test split, to four decimals as they are published."""
    good = Prepared()
    pixels = good.images[good.splits != 2] / 255
    return Statistics(
        mean=tuple(round(float(value), 4) for value in pixels.mean(axis=(0, 1, 2))),
        std=tuple(round(float(value), 4) for value in pixels.std(axis=(0, 1, 2))),
    )


PUBLISHED = published()


def options(**changes: Any) -> GateOptions:
    return GateOptions(**({"min_rows": 400, "published": PUBLISHED} | changes))


@pytest.fixture(scope="module")
def drift(tmp_path_factory: pytest.TempPathFactory) -> Drift:
    folder = Prepared().write(tmp_path_factory.mktemp("accepted"))
    return Drift(profile_of(observations(folder)), options().drift)


def judged(folder: Path, drift: Drift, **changes: Any) -> GateReport:
    return gate(folder, options(**changes), subject="data/prepared/pictures", docs_folder=None, drift=drift)


def refused(report: GateReport) -> set[str]:
    return {check.name for check in report.refused}


def test_a_good_folder_passes_with_every_check_asked(tmp_path: Path, drift: Drift) -> None:
    report = judged(Prepared().write(tmp_path), drift)
    assert report.findings == ()
    assert report.verdict == "passed"
    names = {check.name for check in report.checks}
    assert len(names) == len(report.checks)
    assert set(ONLY_THIS) <= names


def test_the_same_folder_gives_the_same_bytes(tmp_path: Path, drift: Drift) -> None:
    Prepared().write(tmp_path)
    first, second = (canonical_json(judged(tmp_path, drift).to_json()) for _ in range(2))
    assert first == second
    assert str(tmp_path) not in first


Spoil = Callable[[Prepared], object]


def setting(**values: Any) -> Spoil:
    return lambda folder: [setattr(folder, name, value) for name, value in values.items()]


def no_images_of_a_class_in_a_split(folder: Prepared) -> None:
    # all bees of the validation split become ants and cods in turn
    bees = np.flatnonzero((folder.splits == 1) & (folder.labels == 1))
    folder.labels[bees] = np.where(np.arange(len(bees)) % 2, 0, 2)


def a_class_grows_in_a_split(folder: Prepared) -> None:
    ants = np.flatnonzero((folder.splits == 2) & (folder.labels == 0))
    folder.labels[ants[:-4]] = 1


def a_copy_within(folder: Prepared) -> None:
    folder.images[7] = folder.images[4]


def a_copy_across(folder: Prepared) -> None:
    folder.images[310] = folder.images[4]


def one_blank(folder: Prepared) -> None:
    folder.images[12] = 117


def darker_by_a_little(folder: Prepared) -> None:
    # one channel of three, by less than the drift of brightness shows
    folder.images[..., 1] = np.clip(folder.images[..., 1].astype(int) - 9, 0, 255)


def channels_swapped(folder: Prepared) -> None:
    # red and blue the other way round, as another library stores them
    folder.images = np.ascontiguousarray(folder.images[..., ::-1])


def less_contrast(folder: Prepared) -> None:
    middle = folder.images.astype(float).mean(axis=(0, 1, 2))
    folder.images = np.round(middle + 0.9 * (folder.images - middle)).astype(np.uint8)


def half_of_the_images_darker(folder: Prepared) -> None:
    folder.images[::2] //= 2


def scaled_to_one(folder: Prepared) -> None:
    folder.images = np.round(folder.images / 255).astype(np.uint8)


ONLY_THIS: dict[str, Spoil] = {
    "arrays/form": setting(labels=np.zeros(480, dtype=np.int32)),
    "arrays/same_rows": lambda folder: setattr(folder, "splits", folder.splits[:-1]),
    "arrays/shape": setting(summary={"classes": list(CLASSES), "shape": [6, 5, 3]}),
    "splits/known": lambda folder: folder.splits.__setitem__(5, 3),
    "classes/known": lambda folder: folder.labels.__setitem__(5, 3),
    "classes/drift": a_class_grows_in_a_split,
    "classes/in_every_split": no_images_of_a_class_in_a_split,
    "images/range": scaled_to_one,
    "images/copies_within_a_split": a_copy_within,
    "images/copies_across_splits": a_copy_across,
    "images/one_value_only": one_blank,
    "statistics/published": darker_by_a_little,
    "drift/index": half_of_the_images_darker,
}
# A fault that several questions meet by nature: the others follow from the first.
IMPLIED = {
    # a share of nothing is far from any share
    "classes/in_every_split": {"classes/drift"},
    # images of zeros and ones are blank or alike now and then, dark, and not as published
    "images/range": {
        "images/copies_within_a_split",
        "images/copies_across_splits",
        "images/one_value_only",
        "statistics/published",
        "drift/index",
    },
    "drift/index": {"statistics/published"},
}


@pytest.mark.parametrize("check", ONLY_THIS)
def test_only_this_check_refuses(check: str, tmp_path: Path, drift: Drift) -> None:
    folder = Prepared()
    ONLY_THIS[check](folder)
    report = judged(folder.write(tmp_path), drift)
    assert check in refused(report)
    assert refused(report) <= {check} | IMPLIED.get(check, set())


@pytest.mark.parametrize(
    ("spoil", "check", "share", "option"),
    [
        (a_copy_within, "images/copies_within_a_split", "1 of 480", "max_duplicates_within"),
        (a_copy_across, "images/copies_across_splits", "2 of 480", "max_duplicates_across"),
        (one_blank, "images/one_value_only", "1 of 480", "max_blank"),
    ],
)
def test_a_single_copy_or_blank_image_is_told_and_can_be_allowed(
    spoil: Spoil, check: str, share: str, option: str, tmp_path: Path, drift: Drift
) -> None:
    folder = Prepared()
    spoil(folder)
    (finding,) = (found for found in judged(folder.write(tmp_path), drift).refused)
    few, many = map(int, share.split(" of "))
    assert finding.name == check
    assert f"{few / many:.4g}" in str(finding.observed)
    assert option in finding.expected
    assert judged(tmp_path, drift, **{option: few / many}).verdict == "passed"
    assert refused(judged(tmp_path, drift, **{option: 0.99 * few / many})) == {check}


@pytest.mark.parametrize("spoil", [channels_swapped, less_contrast])
def test_statistics_that_are_not_the_published_ones(spoil: Spoil, tmp_path: Path, drift: Drift) -> None:
    folder = Prepared()
    spoil(folder)
    report = judged(folder.write(tmp_path), drift)
    assert "statistics/published" in refused(report)
    # without published values nothing of it is asked
    assert "statistics/published" not in {check.name for check in judged(tmp_path, drift, published=None).checks}


@pytest.mark.parametrize(
    "published", [Statistics(mean=(0.5,), std=(0.28,)), Statistics(mean=(0.5,) * 4, std=(0.28,) * 4)]
)
def test_published_values_of_other_channels_are_refused(published: Statistics, tmp_path: Path, drift: Drift) -> None:
    report = judged(Prepared().write(tmp_path), drift, published=published)
    assert refused(report) == {"statistics/published"}
    assert "480" not in report.findings[0]
    assert "390 images of 3 channels" in report.findings[0]


def test_published_values_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="mean has 3 channels and std 1"):
        Statistics(mean=(0.1, 0.2, 0.3), std=(0.1,))


@pytest.mark.parametrize("split", SPLITS)
def test_an_empty_split_is_refused(split: str, tmp_path: Path, drift: Drift) -> None:
    folder = Prepared()
    code = SPLITS.index(split)
    folder.splits[folder.splits == code] = (code + 1) % 3
    assert "splits/rows" in refused(judged(folder.write(tmp_path), drift))


def test_no_images_at_all_are_refused(tmp_path: Path, drift: Drift) -> None:
    folder = Prepared()
    folder.images, folder.labels, folder.splits = folder.images[:0], folder.labels[:0], folder.splits[:0]
    report = judged(folder.write(tmp_path), drift)
    assert "arrays/rows" in refused(report)


def test_too_few_images_are_refused(tmp_path: Path, drift: Drift) -> None:
    assert refused(judged(Prepared().write(tmp_path), drift, min_rows=481)) == {"splits/min_rows"}


def test_images_without_pixels_are_refused(tmp_path: Path, drift: Drift) -> None:
    folder = Prepared()
    folder.images = np.zeros((480, 6, 0, 3), dtype=np.uint8)
    folder.summary["shape"] = [6, 0, 3]
    assert refused(judged(folder.write(tmp_path), drift)) == {"arrays/shape"}


@pytest.mark.parametrize("kind", ["float32", "int64"])
def test_images_of_another_type_are_refused(kind: str, tmp_path: Path, drift: Drift) -> None:
    folder = Prepared()
    folder.images = folder.images.astype(kind)
    assert refused(judged(folder.write(tmp_path), drift)) == {"arrays/form"}


@pytest.mark.parametrize(
    "summary",
    [
        {},
        [],
        {"classes": None, "shape": list(SHAPE)},
        {"classes": 3, "shape": list(SHAPE)},
        {"classes": [], "shape": list(SHAPE)},
        {"classes": ["ant", "ant"], "shape": list(SHAPE)},
        {"classes": ["ant", 1], "shape": list(SHAPE)},
        {"classes": [["ant"]], "shape": list(SHAPE)},
        {"classes": list(CLASSES), "shape": [6, 6]},
        {"classes": list(CLASSES), "shape": "663"},
    ],
)
def test_a_summary_that_is_none_is_refused(summary: Any, tmp_path: Path, drift: Drift) -> None:
    folder = Prepared()
    folder.summary = summary
    report = judged(folder.write(tmp_path), drift)
    assert refused(report) == {"files/summary"}
    with pytest.raises(DataError, match="shape of an image; delete the prepared folder"):
        observations(tmp_path)


@pytest.mark.parametrize("spoil", ["absent", "text", "cut"])
@pytest.mark.parametrize("name", ["images", "labels", "splits"])
def test_files_that_are_no_arrays_are_refused(name: str, spoil: str, tmp_path: Path, drift: Drift) -> None:
    path = Prepared().write(tmp_path) / f"{name}.npy"
    content = path.read_bytes()
    path.unlink()
    if spoil != "absent":
        path.write_bytes(b"not an array" if spoil == "text" else content[:-50])
    report = judged(tmp_path, drift)
    assert refused(report) == {"files/readable"}
    assert f"{name}.npy" in report.findings[0]


def test_a_version_without_a_reference_needs_leave(tmp_path: Path) -> None:
    Prepared().write(tmp_path)
    strict = options()
    assert refused(judged(tmp_path, Drift(None, strict.drift))) == {"drift/reference"}
    lenient = strict.drift.model_copy(update={"require_reference": False})
    assert judged(tmp_path, Drift(None, lenient)).verdict == "passed"


def test_pages_are_written_and_those_of_an_earlier_run_go(tmp_path: Path, drift: Drift) -> None:
    folder, pages = tmp_path / "prepared", tmp_path / "docs"
    folder.mkdir()
    Prepared().write(folder)
    gate(folder, options(), subject="data/prepared/pictures", docs_folder=pages, drift=drift)
    assert (pages / "index.html").is_file()
    (folder / "images.npy").unlink()
    gate(folder, options(), subject="data/prepared/pictures", docs_folder=pages, drift=drift)
    assert not pages.exists()


def test_observations_are_those_of_the_pixels(tmp_path: Path) -> None:
    folder = Prepared()
    found = observations(folder.write(tmp_path))
    pixels = folder.images.reshape(480, -1) / 255
    np.testing.assert_allclose(found["brightness"], pixels.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found["contrast"], pixels.std(axis=1), rtol=1e-9)
    assert found["class"] == [CLASSES[label] for label in folder.labels]
