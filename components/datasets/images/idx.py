"""The IDX form of the MNIST family: a header of magic number and sizes, then bytes. Images and labels are two files."""

import itertools
import math
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from components.datasets.core.archives import GZIP_MAGIC, gunzip, readable_head
from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault
from components.datasets.images.checks import labels_in_range, splits_of
from components.datasets.images.options import ImageOptions, image_options
from components.datasets.images.source import Batch, ImagePart, ImageSource
from components.errors import ConfigError

UNSIGNED_BYTE = 0x08
ROWS_AT_ONCE = 4096
# No file of this family is larger; a header that says more is not believed.
LIMIT_BYTES = 1 << 30


def read_idx(paths: Sequence[Path], entry: Entry) -> ImageSource:
    """The splits of `entry`, whose files come in pairs: images, then labels, each with its split.

    Raises DataError with file and place where header and content disagree or a label is none of the classes.
    """
    options = image_options(entry)
    pairs = list(zip(entry.files[::2], entry.files[1::2], strict=False))
    if len(paths) % 2 or any(images.split != labels.split for images, labels in pairs):
        raise ConfigError(
            f"{entry.name} in data/catalogue.yaml needs pairs of files, images and then labels, of the same `split`"
        )
    splits = splits_of(entry, entry.files[::2])
    parts = {
        split: _part(images, labels, options)
        for split, images, labels in zip(splits, paths[::2], paths[1::2], strict=True)
    }
    return ImageSource(options.shape, options.classes, parts)


def _part(images_path: Path, labels_path: Path, options: ImageOptions) -> ImagePart:
    height, width, channels = options.shape
    wanted = (height, width) if channels == 1 else options.shape
    images = read_array(images_path, 1 + len(wanted))
    labels = read_array(labels_path, 1)
    if images.shape[1:] != wanted:
        raise fault(images_path, "header", f"images of {images.shape[1:]}", f"images of {wanted}")
    if len(images) != len(labels):
        raise fault(
            labels_path,
            "header",
            f"{len(labels):,} labels",
            f"one for each of the {len(images):,} of {images_path.name}",
        )
    labels_in_range(labels_path, labels, len(options.classes))

    def batches() -> Iterator[Batch]:
        for start in range(0, len(images), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            yield images[rows].reshape(-1, *options.shape), labels[rows].astype(np.int64)

    return ImagePart(len(images), batches)


def read_array(path: Path, rank: int) -> NDArray[np.uint8]:
    """The bytes of an IDX file (gzip or plain) as an array of that rank; a plain file is mapped. Raises DataError."""
    head = readable_head(path)
    begin = 4 + 4 * rank
    if not head.startswith(GZIP_MAGIC):
        sizes = _sizes(path, head[:begin], rank)
        follow = path.stat().st_size - begin
        if follow != math.prod(sizes):
            raise _disagreement(path, sizes, f"{follow:,}")
        return np.memmap(path, dtype=np.uint8, mode="r", offset=begin, shape=sizes)
    chunks = gunzip(path, begin + LIMIT_BYTES)
    first = next(chunks, b"")
    sizes = _sizes(path, first[:begin], rank)
    total = math.prod(sizes)
    content = np.empty(total, dtype=np.uint8)
    count = 0
    for chunk in itertools.chain((first[begin:],), chunks):
        if count + len(chunk) > total:
            raise _disagreement(path, sizes, f"more than {total:,}")
        content[count : count + len(chunk)] = np.frombuffer(chunk, dtype=np.uint8)
        count += len(chunk)
    if count != total:
        raise _disagreement(path, sizes, f"{count:,}")
    return content.reshape(sizes)


def _sizes(path: Path, header: bytes, rank: int) -> tuple[int, ...]:
    """The sizes that a header of 4 + 4 `rank` bytes gives, none of them zero. Raises DataError."""
    magic = bytes([0, 0, UNSIGNED_BYTE, rank])
    if header[:4] != magic:
        told = f"{magic.hex(' ')}, the magic number of IDX for unsigned bytes in {rank} dimensions"
        raise fault(path, "bytes 1 to 4", header[:4].hex(" "), told)
    if len(header) < 4 + 4 * rank:
        raise fault(path, "header", f"{len(header)} bytes", f"a header of {4 + 4 * rank} bytes")
    sizes: tuple[int, ...] = struct.unpack(f">{rank}I", header[4:])
    if min(sizes) == 0:
        raise fault(path, "header", f"the sizes {sizes}, so no content", "one row or more")
    if math.prod(sizes) > LIMIT_BYTES:
        raise fault(path, "header", f"the sizes {sizes}", f"at most {LIMIT_BYTES:,} bytes in all")
    return sizes


def _disagreement(path: Path, sizes: tuple[int, ...], came: str) -> Exception:
    expected = f"the {math.prod(sizes):,} bytes of these sizes"
    return fault(path, "header", f"the sizes {sizes} before {came} bytes of content", expected)
