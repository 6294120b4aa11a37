"""Pictures in parquet and in archives: decoded to the pixels that were encoded, refused with their place otherwise."""

import contextlib
import io
import struct
import tracemalloc
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from components.datasets.images.decoding import MAX_PIXELS, decode
from components.datasets.images.folder import read_folder
from components.datasets.images.parquet_images import read_parquet_images
from components.datasets.images.source import ImageSource
from components.errors import ConfigError, DataError
from tests.datasets.checkouts import left_files
from tests.datasets.pictures import encoded, image_entry, parquet_bytes, random_images, whole, write_tar

SHAPE = (4, 5, 3)
GREY = (4, 5, 1)
CLASSES = ("cat", "dog", "eel")
IMAGES = random_images(5, 4, SHAPE)
LABELS = [2, 0, 1, 0]
PLACE = "row 1"
PATH = Path("a.parquet")


def decoded(content: bytes, shape: tuple[int, int, int] = SHAPE, **how: bool) -> NDArray[np.uint8]:
    return decode(PATH, PLACE, content, shape, **how)


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3]), st.integers(0, 2**32 - 1))
def test_a_picture_comes_back_as_its_pixels(height: int, width: int, channels: int, seed: int) -> None:
    image = random_images(seed, 1, (height, width, channels))[0]
    assert np.array_equal(decoded(encoded(image), image.shape), image)


def test_jpeg_is_read_too() -> None:
    image = np.full((8, 8, 3), 90, dtype=np.uint8)
    assert np.abs(decoded(encoded(image, "JPEG", quality=95), (8, 8, 3)).astype(int) - 90).max() <= 2


def with_header(width: int, height: int) -> bytes:
    """A PNG whose header promises that size, with hardly any content."""

    def piece(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pieces = piece(b"IHDR", header), piece(b"IDAT", zlib.compress(b"\0")), piece(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(pieces)


def saved(picture: Image.Image, kind: str = "PNG", **how: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format=kind, **how)
    return buffer.getvalue()


OF_IMAGE = Image.fromarray(IMAGES[0])
REFUSED: Mapping[str, tuple[bytes, str]] = {
    "other size": (encoded(IMAGES[0].transpose(1, 0, 2)), r"got 5 by 4 pixels in mode RGB, allowed is a PNG or JPEG"),
    "grey": (encoded(IMAGES[0][..., :1]), "got 4 by 5 pixels in mode L, allowed .* in mode RGB"),
    "palette": (saved(OF_IMAGE.quantize(4)), "in mode P"),
    "alpha": (saved(OF_IMAGE.convert("RGBA")), "in mode RGBA"),
    "sixteen bits": (saved(Image.new("I;16", (5, 4))), "in mode I;16"),
    "one colour that is transparent": (saved(OF_IMAGE, transparency=(1, 2, 3)), "mode RGB with transparency"),
    "several pictures": (
        saved(OF_IMAGE, save_all=True, append_images=[Image.fromarray(IMAGES[1])]),
        "mode RGB, 2 of them",
    ),
    "another form": (saved(OF_IMAGE, "BMP"), "got no readable picture"),
    "nothing": (b"", "got no readable picture"),
    "web page": (b"<html></html>", "got no readable picture"),
    "cut": (encoded(IMAGES[0])[:-20], "got no readable picture"),
    "JPEG cut": (saved(OF_IMAGE, "JPEG")[:-40], "got no readable picture"),
    "a size without content": (with_header(5, 4), "got no readable picture"),
    "huge by its header": (with_header(12000, 12000), "got 12000 by 12000 pixels"),
    "huger by its header": (with_header(60000, 60000), "got no readable picture .*exceeds limit"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_fitting_picture(name: str) -> None:
    content, told = REFUSED[name]
    with warnings.catch_warnings():
        # Pillow's own complaints must not reach a user beside ours
        warnings.simplefilter("error")
        with pytest.raises(DataError, match=told) as caught:
            decoded(content)
    assert str(caught.value).startswith("a.parquet, row 1: got ")
    assert "\n" not in str(caught.value)


@given(st.data())
def test_a_damaged_png_is_refused_or_harmless(data: st.DataObject) -> None:
    content = bytearray(encoded(IMAGES[0]))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    try:
        found = decoded(bytes(content))
    except DataError:
        return
    # only what follows the last sum can be changed without notice, and it is no pixel
    assert place >= len(content) - 12
    assert np.array_equal(found, IMAGES[0])


@settings(max_examples=200)
@given(st.sampled_from(["PNG", "JPEG"]), st.binary(max_size=40), st.data())
def test_rubbish_never_ends_in_another_error(kind: str, rubbish: bytes, data: st.DataObject) -> None:
    content = bytearray(encoded(IMAGES[0], kind))
    place = data.draw(st.integers(0, len(content)))
    content[place : place + data.draw(st.integers(0, 40))] = rubbish
    # anything but an array or a DataError ends the test
    with contextlib.suppress(DataError):
        assert decoded(bytes(content)).shape == SHAPE


def test_resizing_keeps_what_has_the_size_and_the_mean_of_what_has_not() -> None:
    assert np.array_equal(decoded(encoded(IMAGES[0]), resize=True), IMAGES[0])
    plain = np.full((40, 30, 3), (10, 120, 250), dtype=np.uint8)
    assert (decoded(encoded(plain), resize=True) == (10, 120, 250)).all()
    halves = np.zeros((64, 64, 1), dtype=np.uint8)
    halves[:, 32:] = 200
    small = decoded(encoded(halves), (8, 8, 1), resize=True)
    assert (small[:, :3] == 0).all()
    assert (small[:, 5:] == 200).all()
    assert abs(float(small.mean()) - 100) < 1


def test_resizing_has_a_limit_that_is_asked_before_decoding() -> None:
    side = int(MAX_PIXELS**0.5) + 1
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=rf"got {side} by {side} pixels .*at most {MAX_PIXELS:,} pixels"):
            decoded(with_header(side, side), resize=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def read_parquet(folder: Path, content: bytes, **options: object) -> ImageSource:
    (folder / "train.parquet").write_bytes(content)
    known = {"shape": SHAPE, "classes": CLASSES, "class_column": "class", "unique_paths": True}
    entry = image_entry("images-parquet", [("train.parquet", "train")], **(known | options))
    return read_parquet_images([folder / "train.parquet"], entry)


def good(**columns: Any) -> bytes:
    return parquet_bytes(IMAGES, LABELS, CLASSES, **columns)


def test_parquet_gives_its_rows_in_order(tmp_path: Path) -> None:
    source = read_parquet(tmp_path, good())
    images, labels = whole(source, "train")
    assert np.array_equal(images, IMAGES)
    assert (labels.tolist(), labels.dtype, source.parts["train"].rows) == (LABELS, np.int64, 4)


def test_columns_are_called_as_the_entry_says(tmp_path: Path) -> None:
    cells = [{"bytes": encoded(image), "path": None} for image in IMAGES]
    content = good(img=None, label=None, **{"class": None}, picture=cells, fine=pa.array(LABELS, type=pa.int8()))
    options = {"image_column": "picture", "label_column": "fine", "class_column": None, "unique_paths": False}
    assert np.array_equal(whole(read_parquet(tmp_path, content, **options), "train")[0], IMAGES)


def cells(change: Callable[[list[dict[str, Any] | None]], object]) -> list[dict[str, Any] | None]:
    made: list[dict[str, Any] | None] = [
        {"bytes": encoded(image), "path": f"{row}.png"} for row, image in enumerate(IMAGES)
    ]
    change(made)
    return made


def put(row: int, value: dict[str, Any] | None) -> list[dict[str, Any] | None]:
    return cells(lambda made: made.__setitem__(row, value))


FAULTS: Mapping[str, tuple[bytes, str]] = {
    "column missing": (
        good(label=None),
        r"got no column 'label' \(it has img, class\), allowed is exactly the columns",
    ),
    "column too many": (good(size=[1] * 4), "got an unknown column 'size'"),
    "label as text": (good(label=["2", "0", "1", "0"]), "column label: got the type string, allowed is whole numbers"),
    "label missing": (good(label=pa.array([2, None, 1, 0])), "row 2, column label: got no value"),
    "label out of range": (good(label=[2, 0, 3, 0]), r"row 3: got label 3, allowed is 0 to 2 \(3 classes\)"),
    "negative label": (good(label=[2, 0, 1, -1]), "row 4: got label -1"),
    "name of another class": (
        good(**{"class": ["eel", "cat", "cat", "cat"]}),
        "row 3, column class: got 'cat' beside label 1, allowed is 'dog', which that label is",
    ),
    "picture missing": (good(img=put(1, None)), "row 2, column img: got no value"),
    "picture without bytes": (
        good(img=put(2, {"bytes": None, "path": "x.png"})),
        "row 3, column img: got no readable picture",
    ),
    "picture of another size": (
        good(img=put(3, {"bytes": encoded(random_images(0, 1, (5, 4, 3))[0]), "path": "x.png"})),
        "row 4, column img: got 5 by 4 pixels",
    ),
    "same name again": (
        good(img=put(3, {"bytes": encoded(IMAGES[3]), "path": "1.png"})),
        r"row 4, column img, path: got '1\.png' again \(first in row 2\), allowed is one row for each name",
    ),
    "no name": (good(img=put(0, {"bytes": encoded(IMAGES[0]), "path": ""})), "row 1, column img, path: got no name"),
    "another layout": (good(img=[encoded(image) for image in IMAGES]), "column img: got the type binary"),
    "web page": (b"<!doctype html><p>Sign in</p>", "got an HTML page"),
    "cut": (good()[:-100], "got a broken parquet file"),
    "another form": (b"label,img\n1,2\n", "allowed is a parquet file"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_in_parquet_are_one_line_with_their_place(tmp_path: Path, name: str) -> None:
    content, told = FAULTS[name]
    with pytest.raises(DataError, match=told) as caught:
        list(read_parquet(tmp_path, content).parts["train"].batches())
    assert str(caught.value).startswith(str(tmp_path / "train.parquet"))
    assert "\n" not in str(caught.value)
    assert left_files(tmp_path) == ["train.parquet"]


def test_rows_are_counted_over_batches(tmp_path: Path) -> None:
    images = random_images(7, 1100, (1, 1, 3))
    labels = [0] * 1099 + [3]
    content = parquet_bytes(images, labels, (*CLASSES, "x"))
    with pytest.raises(DataError, match=r"row 1100: got label 3"):
        list(read_parquet(tmp_path, content, shape=(1, 1, 3)).parts["train"].batches())


def test_parquet_files_need_splits_of_their_own(tmp_path: Path) -> None:
    for files in ([("a", None)], [("a", "train"), ("b", "train")], [("a", "unlabelled")]):
        entry = image_entry("images-parquet", files, shape=SHAPE, classes=CLASSES)
        with pytest.raises(ConfigError, match="each file of images needs a `split` of its own"):
            read_parquet_images([tmp_path / name for name, _ in files], entry)


def zipped(path: Path, members: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def read_archive(path: Path, **options: object) -> ImageSource:
    entry = image_entry("images-folder", [(path.name, None)], **({"shape": SHAPE, "classes": CLASSES} | options))
    return read_folder([path], entry)


PICTURES = {
    f"{CLASSES[label]}/{row}.png": encoded(image) for row, (image, label) in enumerate(zip(IMAGES, LABELS, strict=True))
}


@pytest.mark.parametrize("write", [zipped, write_tar])
def test_folders_of_classes_are_one_split(tmp_path: Path, write: Callable[[Path, Mapping[str, bytes]], Path]) -> None:
    source = read_archive(write(tmp_path / "pets.archive", PICTURES))
    images, labels = whole(source, "train")
    assert list(source.parts) == ["train"]
    assert np.array_equal(images, IMAGES)
    assert labels.tolist() == LABELS


def test_folders_of_splits_are_kept(tmp_path: Path) -> None:
    members = {f"{('test', 'train')[row % 2]}/{name}": content for row, (name, content) in enumerate(PICTURES.items())}
    source = read_archive(zipped(tmp_path / "pets.zip", members))
    assert {split: part.rows for split, part in source.parts.items()} == {"train": 2, "test": 2}
    assert np.array_equal(whole(source, "test")[0], IMAGES[::2])
    assert whole(source, "train")[1].tolist() == LABELS[1::2]


def test_pictures_of_other_sizes_are_resized_where_the_entry_says_so(tmp_path: Path) -> None:
    large = encoded(np.full((9, 9, 3), 70, dtype=np.uint8))
    path = zipped(tmp_path / "pets.zip", {"cat/a.png": large})
    with pytest.raises(DataError, match=r"member cat/a\.png: got 9 by 9 pixels"):
        list(read_archive(path).parts["train"].batches())
    assert (whole(read_archive(path, resize=True), "train")[0] == 70).all()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("a.png", r"member a\.png: got the folders \(none\), allowed is CLASS/NAME or SPLIT/CLASS/NAME"),
        ("cow/a.png", r"member cow/a\.png: got the folders cow, .*classes cat, dog, eel and the splits train, valid"),
        ("pets/cat/a.png", "got the folders pets/cat"),
        ("train/cat/small/a.png", "got the folders train/cat/small"),
        ("../cat/a.png", "got a path that leaves its folder"),
        ("/cat/a.png", "got a path that leaves its folder"),
    ],
)
def test_members_elsewhere_are_refused(tmp_path: Path, name: str, told: str) -> None:
    path = zipped(tmp_path / "pets.zip", PICTURES | {name: encoded(IMAGES[0])})
    with pytest.raises(DataError, match=told):
        read_archive(path)
    assert left_files(tmp_path) == ["pets.zip"]


def test_other_files_among_the_pictures_are_named(tmp_path: Path) -> None:
    source = read_archive(zipped(tmp_path / "pets.zip", PICTURES | {"cat/notes.txt": b"my cat"}))
    with pytest.raises(DataError, match=r"pets\.zip, member cat/notes\.txt: got no readable picture"):
        list(source.parts["train"].batches())


def test_what_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "pets.zip").write_bytes(b"<html>")
    with pytest.raises(DataError, match="got an HTML page"):
        read_archive(tmp_path / "pets.zip")
    with pytest.raises(DataError, match="is a folder, allowed is an archive"):
        read_archive(tmp_path)
