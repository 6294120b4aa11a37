"""CIFAR's binary archives: channels in their places, the right label of two, and every member whole."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from components.datasets.images.cifar import ROWS_AT_ONCE, read_cifar_binary
from components.datasets.images.source import ImageSource
from components.errors import ConfigError, DataError
from tests.datasets.checkouts import left_files
from tests.datasets.pictures import image_entry, random_images, write_tar

SHAPE = (32, 32, 3)
CLASSES = tuple("abcdefghij")
COARSE = ("low", "high")
DISTINCT = 10
IMAGES = random_images(3, DISTINCT, SHAPE)
NAMES = "\n".join(CLASSES).encode() + b"\n\n"
TRAIN = [f"data_batch_{number}.bin" for number in range(1, 6)]


def rows_of(*labels: np.ndarray, times: int) -> bytes:
    """Each distinct image `times` times: label bytes, then red, green and blue, each line by line."""
    pixels = np.stack(
        [[image[row, column, channel] for channel in range(3) for row in range(32) for column in range(32)]
         for image in IMAGES]
    )  # fmt: skip
    table = np.concatenate([*(label[:, None] for label in labels), pixels], axis=1).astype(np.uint8)
    return np.tile(table, (times, 1)).tobytes()


FINE = np.arange(DISTINCT)
TEN = rows_of(FINE, times=1000)
HUNDRED = rows_of(FINE // 5, FINE, times=1000)


def ten(changes: Mapping[str, bytes | None] | None = None) -> dict[str, bytes]:
    """The members of the smaller archive, with `changes`; None leaves one out."""
    members: dict[str, bytes | None] = {"batches.meta.txt": NAMES, **dict.fromkeys(TRAIN, TEN), "test_batch.bin": TEN}
    members |= changes or {}
    return {f"cifar-10-batches-bin/{name}": content for name, content in members.items() if content is not None}


def hundred(changes: Mapping[str, bytes] | None = None) -> dict[str, bytes]:
    members = {
        "coarse_label_names.txt": "\n".join(COARSE).encode(),
        "fine_label_names.txt": NAMES,
        "test.bin": HUNDRED,
        "train.bin": HUNDRED * 5,
    }
    return {f"./cifar-100-binary/{name}": content for name, content in (members | dict(changes or {})).items()}


def read(path: Path, **options: object) -> ImageSource:
    entry = image_entry("images-cifar-binary", [(path.name, None)], **({"shape": SHAPE, "classes": CLASSES} | options))
    return read_cifar_binary([path], entry)


@pytest.fixture(scope="module")
def ten_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tar(tmp_path_factory.mktemp("cifar") / "cifar-10-binary.tar.gz", ten())


@pytest.fixture(scope="module")
def hundred_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tar(tmp_path_factory.mktemp("cifar") / "cifar-100-binary.tar.gz", hundred())


def first_and_counts(source: ImageSource, split: str) -> tuple[np.ndarray, list[int], int]:
    """The first ten images and labels, and the number of all; every row is compared with its period of ten."""
    count = 0
    for images, labels in source.parts[split].batches():
        assert len(images) <= ROWS_AT_ONCE
        places = (np.arange(len(labels)) + count) % DISTINCT
        assert np.array_equal(images, IMAGES[places])
        count += len(labels)
    images, labels = next(source.parts[split].batches())
    return images[:DISTINCT], labels[:DISTINCT].tolist(), count


def test_the_whole_of_cifar_10(ten_path: Path) -> None:
    source = read(ten_path)
    assert {split: part.rows for split, part in source.parts.items()} == {"train": 50_000, "test": 10_000}
    for split, rows in (("train", 50_000), ("test", 10_000)):
        images, labels, count = first_and_counts(source, split)
        assert np.array_equal(images, IMAGES)
        assert (labels, count) == (list(range(10)), rows)


@pytest.mark.parametrize(
    ("labels", "classes", "expected"),
    [("fine", CLASSES, list(range(10))), ("coarse", COARSE, [0] * 5 + [1] * 5)],
)
def test_cifar_100_by_either_label(
    hundred_path: Path, labels: str, classes: tuple[str, ...], expected: list[int]
) -> None:
    source = read(hundred_path, layout="cifar-100", labels=labels, classes=classes)
    assert source.classes == classes
    images, found, count = first_and_counts(source, "test")
    assert np.array_equal(images, IMAGES)
    assert (found, count, source.parts["train"].rows) == (expected, 10_000, 50_000)


def label_at(content: bytes, row: int, position: int, label: int, row_bytes: int) -> bytes:
    place = row * row_bytes + position
    return content[:place] + bytes([label]) + content[place + 1 :]


FAULTS: Mapping[str, tuple[dict[str, bytes | None], str]] = {
    "member missing": (
        {"data_batch_3.bin": None},
        r"got no member data_batch_3\.bin \(it has batches\.meta\.txt, data_batch_1\.bin, .*, test_batch\.bin\)",
    ),
    "names missing": ({"batches.meta.txt": None}, r"got no member batches\.meta\.txt"),
    "member short": (
        {"data_batch_1.bin": TEN[:-1]},
        r"member data_batch_1\.bin: got 30,729,999 bytes, allowed is 30,730,000, 10,000 rows of 3,073",
    ),
    "member long": ({"data_batch_1.bin": TEN + b"\0"}, r"member data_batch_1\.bin: got 30,730,001 bytes"),
    "other class": (
        {"batches.meta.txt": NAMES.replace(b"c", b"cat")},
        r"member batches\.meta\.txt, name 3: got 'cat', allowed is 'c', as in the catalogue",
    ),
    "a class too few": ({"batches.meta.txt": NAMES[2:]}, r"got 9 names, allowed is the 10 of the catalogue"),
    "names in latin-1": (
        {"batches.meta.txt": b"caf\xe9\n" + NAMES},
        r"member cifar-10-batches-bin/batches\.meta\.txt, line 1, byte 4: got byte 0xe9, allowed is ascii text",
    ),
    "names with NUL": ({"batches.meta.txt": b"a\0\n" + NAMES}, "line 1, byte 2: got a NUL byte"),
    "member in two folders": ({"copy/test_batch.bin": TEN}, r"got a second test_batch\.bin, allowed is one"),
    "path that leaves": ({"../../etc/passwd": b"x"}, "got a path that leaves its folder"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_members(tmp_path: Path, name: str) -> None:
    changes, told = FAULTS[name]
    # the fault is found before any other member of images is asked for its size
    small: dict[str, bytes | None] = dict.fromkeys((*TRAIN, "test_batch.bin"), b"")
    path = write_tar(tmp_path / "cifar-10-binary.tar.gz", ten(small | changes))
    with pytest.raises(DataError, match=told) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert left_files(tmp_path) == [path.name]


def test_a_label_out_of_range_is_named_with_its_row(tmp_path: Path) -> None:
    spoilt = label_at(TEN, 9998, 0, 10, 3073)
    source = read(write_tar(tmp_path / "a.tar.gz", ten({"data_batch_3.bin": spoilt})))
    told = r"member cifar-10-batches-bin/data_batch_3\.bin, row 9999: got label 10, allowed is 0 to 9 \(10 classes\)"
    with pytest.raises(DataError, match=told):
        list(source.parts["train"].batches())
    assert sum(len(labels) for _, labels in source.parts["test"].batches()) == 10_000


def test_the_label_that_is_not_used_is_checked_too(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar.gz", hundred({"test.bin": label_at(HUNDRED, 4, 0, 2, 3074)}))
    source = read(path, layout="cifar-100")
    with pytest.raises(DataError, match=r"test\.bin, row 5: got label 2, allowed is 0 to 1 \(2 classes\)"):
        list(source.parts["test"].batches())


def test_a_truncated_archive(tmp_path: Path, ten_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(ten_path.read_bytes()[:-2000])
    with pytest.raises(DataError, match="got a broken archive"):
        read(path)


def test_what_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(b"<html><head><title>404</title></head></html>")
    with pytest.raises(DataError, match="got an HTML page"):
        read(path)


def test_a_member_that_would_swell_is_refused_by_its_size(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar.gz", {"test_batch.bin": bytes((1 << 28) + 1)})
    assert path.stat().st_size < 1 << 21
    with pytest.raises(DataError, match=r"got more than 268,435,456 bytes unpacked"):
        read(path)


def test_entries_that_do_not_fit(ten_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"labels is 'coarse', but cifar-10 has fine"):
        read(ten_path, labels="coarse")
    two = image_entry("images-cifar-binary", [("a", None), ("b", None)], shape=SHAPE, classes=CLASSES)
    with pytest.raises(ConfigError, match="has 2 files; images-cifar-binary reads one"):
        read_cifar_binary([ten_path, ten_path], two)
