"""IDX files: what is written comes back, and a header is believed only as far as the content bears it out."""

import gzip
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.datasets.images.idx import LIMIT_BYTES, ROWS_AT_ONCE, read_array, read_idx
from components.datasets.images.source import ImageSource
from components.errors import ConfigError, DataError
from tests.datasets.checkouts import left_files
from tests.datasets.pictures import DIGITS, idx_bytes, idx_header, image_entry, random_images, whole

SHAPE = (3, 2, 1)
FILES = (("images", "train"), ("labels", "train"))
IMAGES = random_images(0, 5, SHAPE)
LABELS = np.asarray([2, 0, 1, 1, 0], dtype=np.uint8)
GOOD = {"images": idx_bytes(IMAGES[..., 0]), "labels": idx_bytes(LABELS)}


def read(folder: Path, files: tuple[tuple[str, str | None], ...] = FILES, **contents: bytes) -> ImageSource:
    for name, content in (GOOD | contents).items():
        (folder / name).write_bytes(content)
    entry = image_entry("images-idx", files, shape=SHAPE, classes=DIGITS)
    return read_idx([folder / name for name, _ in files], entry)


def test_images_and_labels_come_as_they_were_written(tmp_path: Path) -> None:
    source = read(tmp_path)
    images, labels = whole(source, "train")
    assert (source.shape, source.classes, source.parts["train"].rows) == (SHAPE, DIGITS, 5)
    assert (images.dtype, labels.dtype) == (np.uint8, np.int64)
    assert np.array_equal(images, IMAGES)
    assert labels.tolist() == [2, 0, 1, 1, 0]


def test_a_part_can_be_read_again_and_comes_in_pieces(tmp_path: Path) -> None:
    images = random_images(1, ROWS_AT_ONCE + 3, SHAPE)
    labels = np.zeros(len(images), dtype=np.uint8)
    part = read(tmp_path, images=idx_bytes(images[..., 0]), labels=idx_bytes(labels)).parts["train"]
    assert [len(batch) for batch, _ in part.batches()] == [ROWS_AT_ONCE, 3]
    assert np.array_equal(np.concatenate([batch for batch, _ in part.batches()]), images)


def test_colour_has_a_dimension_of_its_own(tmp_path: Path) -> None:
    images = random_images(2, 2, (3, 2, 3))
    (tmp_path / "images").write_bytes(idx_bytes(images))
    (tmp_path / "labels").write_bytes(idx_bytes(LABELS[:2]))
    entry = image_entry("images-idx", FILES, shape=(3, 2, 3), classes=DIGITS)
    assert np.array_equal(whole(read_idx([tmp_path / "images", tmp_path / "labels"], entry), "train")[0], images)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 2**32 - 1), st.booleans())
def test_any_array_comes_back_packed_or_not(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], seed: int, packed: bool
) -> None:
    array = np.random.default_rng(seed).integers(0, 256, sizes, dtype=np.uint8)
    path = tmp_path_factory.mktemp("idx") / "array"
    path.write_bytes(gzip.compress(idx_bytes(array)) if packed else idx_bytes(array))
    assert np.array_equal(read_array(path, len(sizes)), array)


@given(st.integers(0, len(GOOD["images"]) - 1), st.booleans())
def test_a_file_cut_anywhere_is_refused(tmp_path_factory: pytest.TempPathFactory, length: int, packed: bool) -> None:
    path = tmp_path_factory.mktemp("idx") / "images"
    content = GOOD["images"][:length]
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(DataError, match="images"):
        read_array(path, 3)


PIXELS = IMAGES.tobytes()
FAULTS = {
    "more images than told": ({"images": idx_header(4, 3, 2) + PIXELS}, r"images, header: got the sizes \(4, 3, 2\)"),
    "fewer images than told": (
        {"images": idx_header(6, 3, 2) + PIXELS},
        r"header: got the sizes \(6, 3, 2\) before 30 bytes of content, allowed is the 36 bytes",
    ),
    "a byte too many": ({"images": GOOD["images"] + b"\0"}, r"before 31 bytes of content, allowed is the 30 bytes"),
    "packed, a byte too many": (
        {"images": gzip.compress(GOOD["images"] + b"\0")},
        r"before more than 30 bytes of content, allowed is the 30 bytes",
    ),
    "packed, a byte short": ({"images": gzip.compress(GOOD["images"][:-1])}, r"before 29 bytes of content"),
    "another type": ({"images": b"\0\0\x0d\x03" + GOOD["images"][4:]}, r"bytes 1 to 4: got 00 00 0d 03, allowed is 00"),
    "another rank": ({"labels": idx_header(5, 1) + LABELS.tobytes()}, r"labels, bytes 1 to 4: got 00 00 08 02"),
    "no magic number": ({"images": b"\x89PNG" + GOOD["images"][4:]}, r"bytes 1 to 4: got 89 50 4e 47"),
    "header cut": ({"images": GOOD["images"][:11]}, r"header: got 11 bytes, allowed is a header of 16 bytes"),
    "no images": ({"images": idx_header(0, 3, 2)}, r"header: got the sizes \(0, 3, 2\), so no content"),
    "sizes whose product overflows": (
        {"images": idx_header(2**32 - 1, 2**32 - 1, 2**32 - 1)},
        r"allowed is at most 1,073,741,824 bytes",
    ),
    "other size": ({"images": idx_header(5, 2, 3) + PIXELS}, r"got images of \(2, 3\), allowed is images of \(3, 2\)"),
    "a label short": ({"labels": idx_bytes(LABELS[:4])}, r"labels, header: got 4 labels, allowed is one for each of"),
    "label out of range": (
        {"labels": idx_bytes(np.asarray([0, 1, 2, 3, 0], dtype=np.uint8))},
        r"labels, row 4: got label 3, allowed is 0 to 2 \(3 classes\)",
    ),
    "web page": ({"images": b"<!DOCTYPE html><html><body>Not found</body></html>"}, r"images: got an HTML page"),
    "empty file": ({"labels": b""}, r"labels: got an empty file"),
    "packed file cut": ({"images": gzip.compress(GOOD["images"])[:-9]}, r"images: got a broken archive"),
    "packed file damaged": (
        {"images": gzip.compress(GOOD["images"])[:-6] + b"\0\0" + gzip.compress(GOOD["images"])[-4:]},
        r"images: got a broken archive \(CRC check failed",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_one_line_with_their_place(tmp_path: Path, name: str) -> None:
    contents, told = FAULTS[name]
    with pytest.raises(DataError, match=told) as caught:
        read(tmp_path, **contents)
    assert str(caught.value).startswith(str(tmp_path))
    assert "\n" not in str(caught.value)
    assert left_files(tmp_path) == ["images", "labels"]


def test_a_small_file_that_swells_is_stopped_early(tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(gzip.compress(idx_header(5, 3, 2) + bytes(1 << 26), compresslevel=1))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="before more than 30 bytes"):
            read_array(path, 3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 23


def test_a_header_that_promises_too_much_gets_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(gzip.compress(idx_header(LIMIT_BYTES + 1) + bytes(10)))
    with pytest.raises(DataError, match=r"allowed is at most 1,073,741,824 bytes in all"):
        read_array(path, 1)


def test_absent_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read_array(tmp_path / "images", 3)
    with pytest.raises(DataError, match="is a folder"):
        read_array(tmp_path, 3)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        pytest.param((("images", "train"),), "needs pairs of files", id="images alone"),
        pytest.param((("images", "train"), ("labels", "test")), "of the same `split`", id="splits differ"),
        pytest.param((("images", None), ("labels", None)), "a `split` of its own", id="no split"),
        pytest.param((("images", "unlabelled"), ("labels", "unlabelled")), "one of train, validation, test", id="kind"),
        pytest.param((*FILES, ("images2", "train"), ("labels2", "train")), "splits train, train", id="twice"),
    ],
)
def test_entries_that_do_not_fit(tmp_path: Path, files: tuple[tuple[str, str | None], ...], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read(tmp_path, files)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"shape": SHAPE}, "classes: Field required"),
        ({"shape": SHAPE, "classes": DIGITS, "colour": 1}, "colour: Extra inputs"),
        ({"shape": (3, 2), "classes": DIGITS}, "shape"),
        ({"shape": (3, 2, 2), "classes": DIGITS}, "shape.2: Input should be 1 or 3"),
        ({"shape": SHAPE, "classes": ("one", "one")}, "classes names 'one' twice"),
    ],
)
def test_options_that_are_not_known(tmp_path: Path, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=rf"options of pictures in data/catalogue.yaml is refused: .*{told}"):
        read_idx([tmp_path / "images", tmp_path / "labels"], image_entry("images-idx", FILES, **options))
