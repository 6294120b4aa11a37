"""Images reduced to numbers, and their statistics against published ones: closed forms, errors that are true."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from components.arrays import open_array, save_array
from components.config import DatasetConfig
from components.datasets.core.catalogue import load_catalogue
from components.datasets.core.fetching import fetch
from components.datasets.core.sources import MIRROR_VARIABLE, mirror_folder
from components.datasets.images.config import GateOptions, PrepareOptions, Statistics
from components.datasets.images.kind import prepare
from components.files import sha256_bytes, write_json
from components.quality.core.drift import Drift
from components.quality.core.expectations import run_suites
from components.quality.images.gate import gate
from components.quality.images.pixels import ROWS_AT_ONCE, reduce_images
from components.quality.images.statistics import channel_statistics, published_suite

ROOT = Path(__file__).resolve().parents[2]
CONFIGURED = {
    path.stem: DatasetConfig(**content)
    for path in sorted((ROOT / "conf" / "dataset").glob("*.yaml"))
    if (content := yaml.safe_load(path.read_text(encoding="utf-8")))["kind"] == "images"
}
MIRROR = mirror_folder(None)
mirrored = pytest.mark.skipif(
    MIRROR is None or not (MIRROR / "cifar10").is_dir(), reason=f"{MIRROR_VARIABLE} names no folder with cifar10/"
)


@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 5), st.sampled_from([1, 3]), st.integers(0, 2**32 - 1))
def test_the_reduction_is_that_of_the_pixels(rows: int, height: int, width: int, channels: int, seed: int) -> None:
    images = np.random.default_rng(seed).integers(0, 256, (rows, height, width, channels), dtype=np.uint8)
    reduced = reduce_images(images)
    scaled = images / 255
    np.testing.assert_allclose(reduced.means, scaled.mean(axis=(1, 2)), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(reduced.squares, (scaled**2).mean(axis=(1, 2)), rtol=1e-12, atol=1e-15)
    flat = images.reshape(rows, -1)
    assert reduced.blank.tolist() == [len(set(image.tolist())) == 1 for image in flat]
    assert (reduced.least.tolist(), reduced.largest.tolist()) == (flat.min(axis=1).tolist(), flat.max(axis=1).tolist())
    assert reduced.digests == [sha256_bytes(image.tobytes()) for image in images]


def test_the_reduction_owes_nothing_to_its_batches() -> None:
    images = np.random.default_rng(0).integers(0, 256, (ROWS_AT_ONCE + 5, 2, 2, 3), dtype=np.uint8)
    whole, last = reduce_images(images), reduce_images(images[ROWS_AT_ONCE:])
    assert len(whole.digests) == len(images)
    assert np.array_equal(whole.means[ROWS_AT_ONCE:], last.means)
    assert whole.digests[ROWS_AT_ONCE:] == last.digests


def reduced_of(images: NDArray[np.floating[Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return images.mean(axis=(1, 2)), (images**2).mean(axis=(1, 2))


def test_two_images_by_hand() -> None:
    # two images of two pixels: values 0, 0.4 and 0.2, 1.0
    images = np.asarray([[0.0, 0.4], [0.2, 1.0]]).reshape(2, 1, 2, 1)
    mean, std, mean_error, std_error = (float(value[0]) for value in channel_statistics(*reduced_of(images)))
    # image means 0.2 and 0.6; mean squares 0.08 and 0.52
    assert mean == pytest.approx(0.4)
    assert std == pytest.approx(np.sqrt(0.3 - 0.16))
    assert mean_error == pytest.approx(0.2 / np.sqrt(2))
    # s - 2 m x is 0.08 - 0.16 and 0.52 - 0.48: a deviation of 0.06
    assert std_error == pytest.approx(0.06 / np.sqrt(2) / (2 * np.sqrt(0.14)))


def test_statistics_are_those_of_all_pixels() -> None:
    images = np.random.default_rng(1).random((40, 3, 5, 3))
    mean, std, _, _ = channel_statistics(*reduced_of(images))
    np.testing.assert_allclose(mean, images.mean(axis=(0, 1, 2)))
    np.testing.assert_allclose(std, images.std(axis=(0, 1, 2)))


def correlated_images(rng: np.random.Generator, rows: int) -> NDArray[np.float64]:
    """Images whose pixels belong together, by a brightness and a contrast of their own: pixels are no sample."""
    level = rng.uniform(0.2, 0.7, (rows, 1, 1, 1))
    contrast = rng.uniform(0.02, 0.2, (rows, 1, 1, 1))
    return level + contrast * rng.standard_normal((rows, 6, 6, 1))


def test_the_standard_errors_are_what_samples_scatter_by() -> None:
    rng = np.random.default_rng(20260404)
    found = np.asarray([channel_statistics(*reduced_of(correlated_images(rng, 200))) for _ in range(400)])[..., 0]
    scatter = found[:, :2].std(axis=0)
    told = found[:, 2:].mean(axis=0)
    # the scatter of 400 samples is itself known to about 3.5 %
    np.testing.assert_allclose(told, scatter, rtol=0.12)
    # as if pixels were independent the error would be a sixth of that
    assert told[0] > 3 * found[:, 1].mean() / np.sqrt(200 * 36)


def verdict(images: NDArray[np.float64], published: Statistics) -> bool:
    (check,) = run_suites("s", (published_suite(*reduced_of(images), published),))
    return check.passed


@pytest.mark.parametrize("rows", [50, 400, 3000])
def test_samples_pass_and_shifts_beyond_what_their_size_implies_do_not(rows: int) -> None:
    rng = np.random.default_rng(7)
    population = correlated_images(rng, 60_000)
    published = Statistics(mean=(round(float(population.mean()), 4),), std=(round(float(population.std()), 4),))
    sample = correlated_images(rng, rows)
    assert verdict(sample, published)
    _, _, mean_error, std_error = (float(value[0]) for value in channel_statistics(*reduced_of(sample)))
    assert not verdict(sample + 9 * mean_error, published)
    assert not verdict(sample - 9 * mean_error, published)
    # a larger contrast about the same mean
    middle = sample.mean()
    stretch = 1 + 9 * std_error / sample.std()
    assert not verdict(middle + stretch * (sample - middle), published)


def test_identical_images_must_have_exactly_the_published_values() -> None:
    image = np.asarray([0.25, 0.75]).reshape(1, 1, 2, 1)
    images = np.repeat(image, 5, axis=0)
    assert verdict(images, Statistics(mean=(0.5,), std=(0.25,)))
    assert verdict(images, Statistics(mean=(0.50009,), std=(0.25,)))
    assert not verdict(images, Statistics(mean=(0.5002,), std=(0.25,)))
    assert not verdict(images, Statistics(mean=(0.5,), std=(0.2497,)))


def test_nothing_to_compare_is_refused() -> None:
    assert not verdict(np.zeros((0, 2, 2, 1)), Statistics(mean=(0.0,), std=(0.0,)))


@pytest.mark.parametrize("name", CONFIGURED)
def test_the_configuration_fits_its_entry(name: str) -> None:
    config = CONFIGURED[name]
    options = GateOptions(**config.gate)
    PrepareOptions(**config.prepare)
    entry = load_catalogue(ROOT).entry(config.entry)
    assert options.published is not None
    assert len(options.published.mean) == entry.options["shape"][2]


def test_every_set_is_configured() -> None:
    assert set(CONFIGURED) >= {
        "cifar10",
        "cifar10-4k",
        "cifar100",
        "cifar100-4k",
        "fashion-mnist",
        "fashion-mnist-sample",
        "mnist",
    }


@pytest.mark.parametrize(
    "name",
    [
        "fashion-mnist-sample",
        *(pytest.param(name, marks=mirrored) for name in ("mnist", "cifar10-4k", "cifar100-4k")),
    ],
)
def test_real_sets_pass_as_they_are_and_not_brightened(name: str, tmp_path: Path) -> None:
    config = CONFIGURED[name]
    entry = load_catalogue(ROOT).entry(config.entry)
    paths = fetch(entry, ROOT if entry.shipped else tmp_path).paths
    folder = tmp_path / "out"
    folder.mkdir()
    summary = prepare(entry, paths, PrepareOptions(**config.prepare), folder, lambda done, total: None)
    write_json(folder / "summary.json", summary)
    options = GateOptions(**config.gate)
    drift = Drift(None, options.drift.model_copy(update={"require_reference": False}))
    report = gate(folder, options, subject=name, docs_folder=None, drift=drift)
    assert report.findings == ()
    brighter = np.minimum(np.asarray(open_array(folder / "images.npy"), dtype=np.uint16) + 10, 255).astype(np.uint8)
    save_array(folder / "images.npy", brighter)
    report = gate(folder, options, subject=name, docs_folder=None, drift=drift)
    assert "statistics/published" in {check.name for check in report.refused}
