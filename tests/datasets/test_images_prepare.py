"""Preparing images: the arrays are the publisher's images, split by class, and the same bytes each time."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from components.arrays import SPLITS, open_array
from components.datasets.core.catalogue import Entry, load_catalogue
from components.datasets.core.fetching import fetch
from components.datasets.core.sources import MIRROR_VARIABLE, mirror_folder
from components.datasets.images.kind import PrepareOptions, prepare
from components.errors import DataError
from components.files import sha256_path
from tests.datasets.checkouts import ROOT, left_files
from tests.datasets.pictures import DIGITS, idx_bytes, image_entry, random_images

SAMPLE = ROOT / "data" / "samples" / "images"
SHAPE = (3, 2, 1)
MIRROR = mirror_folder(None)
mirrored = pytest.mark.skipif(
    MIRROR is None or not (MIRROR / "cifar10").is_dir(), reason=f"{MIRROR_VARIABLE} names no folder with cifar10/"
)

Arrays = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]]


def arrays_of(folder: Path) -> Arrays:
    images, labels, splits = (open_array(folder / f"{name}.npy") for name in ("images", "labels", "splits"))
    return images, labels, splits


def prepared(name: str, folder: Path, root: Path = ROOT, **options: Any) -> dict[str, Any]:
    entry = load_catalogue(ROOT).entry(name)
    told: list[tuple[int, int | None]] = []
    wanted = PrepareOptions(**({"seed": 0} | options))
    summary = prepare(entry, fetch(entry, root).paths, wanted, folder, lambda done, total: told.append((done, total)))
    # progress rises to its end, so that a bar never runs back
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (2 * summary["rows_of_entry"], 2 * summary["rows_of_entry"])
    return summary


def published(part: str, rows: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The shipped files read in the plainest way."""
    images, labels = (
        gzip.decompress((SAMPLE / f"fashion-mnist-sample-{part}-{kind}-ubyte.gz").read_bytes())
        for kind in ("images-idx3", "labels-idx1")
    )
    pixels = np.frombuffer(images[16:], dtype=np.uint8).reshape(rows, 28, 28, 1)
    return pixels, np.frombuffer(labels[8:], dtype=np.uint8)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("prepared")
    return folder, prepared("fashion-mnist-sample", folder, validation=0.2)


def test_the_arrays_are_the_contract(sample: tuple[Path, dict[str, Any]]) -> None:
    folder, summary = sample
    assert left_files(folder) == ["images.npy", "labels.npy", "splits.npy"]
    images, labels, splits = arrays_of(folder)
    assert (images.shape, images.dtype) == ((7000, 28, 28, 1), np.uint8)
    assert (labels.shape, labels.dtype, splits.shape, splits.dtype) == ((7000,), np.int64, (7000,), np.uint8)
    assert (summary["rows"], summary["rows_of_entry"], summary["shape"]) == (7000, 7000, [28, 28, 1])
    assert summary["splits"] == {"train": 4800, "validation": 1200, "test": 1000}
    json.dumps(summary, allow_nan=False)


def test_the_images_are_the_published_ones_in_their_order(sample: tuple[Path, dict[str, Any]]) -> None:
    images, labels, splits = arrays_of(sample[0])
    for rows, part, test in ((slice(0, 6000), "train", False), (slice(6000, 7000), "t10k", True)):
        pixels, classes = published(part, len(range(7000)[rows]))
        assert np.array_equal(images[rows], pixels)
        assert np.array_equal(labels[rows], classes)
        assert ((splits[rows] == SPLITS.index("test")) == test).all()


def test_every_class_has_its_share_in_every_split(sample: tuple[Path, dict[str, Any]]) -> None:
    folder, summary = sample
    _, labels, splits = arrays_of(folder)
    assert summary["classes"][9] == "Ankle boot"
    for split, rows in (("train", 480), ("validation", 120), ("test", 100)):
        assert summary["counts"][split] == dict.fromkeys(summary["classes"], rows)
        counted = np.bincount(labels[splits == SPLITS.index(split)], minlength=10)
        assert counted.tolist() == [rows] * 10


def test_the_sample_is_balanced_and_without_copies(sample: tuple[Path, dict[str, Any]]) -> None:
    images, _, _ = arrays_of(sample[0])
    assert len({image.tobytes() for image in images}) == 7000
    assert sample[1]["duplicates"] == {"within": 0, "across": 0}
    assert sample[1]["published_splits"] == ["train", "test"]


def test_same_options_same_bytes_and_another_seed_another_split(
    sample: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    for name, seed in (("again", 0), ("other", 1)):
        (tmp_path / name).mkdir()
        prepared("fashion-mnist-sample", tmp_path / name, validation=0.2, seed=seed)
    assert sha256_path(tmp_path / "again") == sha256_path(sample[0])
    first, other = arrays_of(sample[0]), arrays_of(tmp_path / "other")
    assert np.array_equal(first[0], other[0])
    assert np.array_equal(first[1], other[1])
    moved = (first[2] != other[2]).sum()
    # two choices of 1,200 of 6,000 have 240 in common on average
    assert 1800 < moved < 2040


def test_a_smaller_choice_is_part_of_a_larger_one(tmp_path: Path) -> None:
    found = {}
    for limit in (200, 900):
        folder = tmp_path / str(limit)
        folder.mkdir()
        summary = prepared("fashion-mnist-sample", folder, rows={"train": limit, "validation": 100, "test": 50})
        assert summary["splits"] == {"train": limit, "validation": 100, "test": 50}
        assert (summary["rows"], summary["rows_of_entry"]) == (limit + 150, 7000)
        images, labels, splits = arrays_of(folder)
        found[limit] = {(images[row].tobytes(), int(labels[row])) for row in np.flatnonzero(splits == 0)}
        assert sum(sum(counts.values()) for counts in summary["counts"].values()) == limit + 150
    assert found[200] < found[900]


def own_entry(folder: Path, **parts: tuple[NDArray[np.uint8], list[int]]) -> tuple[Entry, list[Path]]:
    files = []
    for split, (images, labels) in parts.items():
        for kind, array in (("images", images[..., 0]), ("labels", np.asarray(labels, dtype=np.uint8))):
            (folder / f"{split}-{kind}").write_bytes(idx_bytes(array))
            files.append((f"{split}-{kind}", split))
    return image_entry("images-idx", files, shape=SHAPE, classes=DIGITS), [folder / name for name, _ in files]


def prepared_with_copies(tmp_path: Path, **options: Any) -> tuple[Arrays, dict[str, Any], NDArray[np.uint8]]:
    """60 images to train on, of which rows 50 to 54 repeat rows 0 to 4, and 20 to test, five of them in train too."""
    images = random_images(11, 80, SHAPE)
    images[50:55] = images[0:5]
    images[60:65] = images[10:15]
    labels = [row % 3 for row in range(80)]
    for row in range(5):
        labels[50 + row], labels[60 + row] = labels[row], labels[10 + row]
    entry, paths = own_entry(tmp_path, train=(images[:60], labels[:60]), test=(images[60:], labels[60:]))
    folder = tmp_path / "out"
    folder.mkdir()
    wanted = PrepareOptions(**({"seed": 3, "validation": 0.3} | options))
    summary = prepare(entry, paths, wanted, folder, lambda done, total: None)
    return arrays_of(folder), summary, images


@pytest.mark.parametrize("seed", range(6))
def test_copies_are_counted_and_never_on_both_sides_of_the_split(tmp_path: Path, seed: int) -> None:
    (_, _, splits), summary, _ = prepared_with_copies(tmp_path, seed=seed)
    assert summary["rows"] == 80
    assert summary["duplicates"] == {"within": 5, "across": 5}
    assert np.array_equal(splits[0:5], splits[50:55])
    assert set(splits[:60].tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("dropped", "left"),
    [
        (["within"], [*range(50), *range(55, 80)]),
        (["across"], [*range(10), *range(15, 80)]),
        (["within", "across"], [*range(10), *range(15, 50), *range(55, 80)]),
    ],
)
def test_copies_are_dropped_where_asked_the_earlier_split_gives_way(
    tmp_path: Path, dropped: list[str], left: list[int]
) -> None:
    (images, _, splits), summary, given = prepared_with_copies(tmp_path, drop_duplicates=dropped)
    assert np.array_equal(images, given[left])
    assert (summary["rows"], summary["rows_of_entry"]) == (len(left), 80)
    assert summary["duplicates"] == {"within": 5, "across": 5}
    assert (splits == SPLITS.index("test")).sum() == 20


def test_a_published_validation_split_is_kept(tmp_path: Path) -> None:
    parts = {
        split: (random_images(seed, 6, SHAPE), [0, 1, 2, 0, 1, 2])
        for seed, split in enumerate(("validation", "test", "train"))
    }
    entry, paths = own_entry(tmp_path, **parts)
    folder = tmp_path / "out"
    folder.mkdir()
    prepare(entry, paths, PrepareOptions(seed=0), folder, lambda done, total: None)
    assert arrays_of(folder)[2].tolist() == [1] * 6 + [2] * 6 + [0] * 6


def test_too_few_images_to_hold_some_out(tmp_path: Path) -> None:
    entry, paths = own_entry(tmp_path, train=(random_images(0, 2, SHAPE), [0, 1]))
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(DataError, match="2 rows in 2 groups cannot be parted"):
        prepare(entry, paths, PrepareOptions(seed=0), folder, lambda done, total: None)


def test_a_fault_found_while_reading_leaves_nothing_but_the_stages_own_folder(tmp_path: Path) -> None:
    entry, paths = own_entry(tmp_path, train=(random_images(0, 3, SHAPE), [0, 1, 3]))
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(DataError, match=r"train-labels, row 3: got label 3"):
        prepare(entry, paths, PrepareOptions(seed=0), folder, lambda done, total: None)
    assert left_files(folder) == []


@mirrored
@pytest.mark.parametrize(
    ("name", "rows", "classes", "shape"),
    [
        ("mnist", {"train": 60_000, "test": 10_000}, None, [28, 28, 1]),
        ("cifar10-4k", {"train": 4000, "test": 1000}, 10, [32, 32, 3]),
        ("cifar100-4k", {"train": 4000, "test": 1000}, 100, [32, 32, 3]),
    ],
)
def test_mirrored_sets_are_prepared_whole(
    tmp_path: Path, name: str, rows: dict[str, int], classes: int | None, shape: list[int]
) -> None:
    (tmp_path / "out").mkdir()
    summary = prepared(name, tmp_path / "out", tmp_path)
    counts = summary["counts"]
    train = {label: counts["train"][label] + counts["validation"][label] for label in summary["classes"]}
    assert {"train": sum(train.values()), "test": summary["splits"]["test"]} == rows
    assert summary["shape"] == shape
    assert summary["duplicates"] == {"within": 0, "across": 0}
    if classes is not None:
        assert set(train.values()) == {rows["train"] // classes}
        assert set(counts["test"].values()) == {rows["test"] // classes}


@mirrored
def test_mnist_has_its_known_histogram(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    prepared("mnist", tmp_path / "out", tmp_path)
    images, labels, splits = arrays_of(tmp_path / "out")
    test = splits == SPLITS.index("test")
    assert np.bincount(labels[~test]).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(labels[test]).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    pixels = images[~test] / 255
    assert (round(float(pixels.mean()), 4), round(float(pixels.std()), 4)) == (0.1307, 0.3081)
