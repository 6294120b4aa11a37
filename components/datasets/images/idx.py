"""The IDX form of the MNIST family: a header of magic number and sizes, then bytes. Images and labels are two files."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from components.datasets.core.archives import GZIP_MAGIC, gunzip, readable_head
from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault
from components.datasets.images.checks import labels_in_range
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
    if len(paths) % 2 or any(file.split is None for file in entry.files):
        raise ConfigError(
            f"{entry.name} in data/catalogue.yaml needs pairs of files, images and labels, each with `split`"
        )
    parts = {
        str(file.split): _part(images, labels, options)
        for file, images, labels in zip(entry.files[::2], paths[::2], paths[1::2], strict=True)
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
    labels_in_range(labels_path, labels, options.classes)

    def batches() -> Iterator[Batch]:
        for start in range(0, len(images), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            yield images[rows].reshape(-1, *options.shape), labels[rows].astype(np.int64)

    return ImagePart(len(images), batches)


def read_array(path: Path, rank: int) -> NDArray[np.uint8]:
    """The bytes of an IDX file (gzip or plain) as an array of that rank. Raises DataError."""
    head = readable_head(path)
    if head.startswith(GZIP_MAGIC):
        content = np.frombuffer(b"".join(gunzip(path, LIMIT_BYTES)), dtype=np.uint8)
    else:
        content = np.memmap(path, dtype=np.uint8, mode="r")
    magic = bytes(content[:4])
    if len(magic) < 4 or magic[:2] != b"\0\0":
        raise fault(path, "bytes 1 to 4", magic.hex(" "), f"the magic number 00 00 08 {rank:02x} of an IDX file")
    if magic[2] != UNSIGNED_BYTE or magic[3] != rank:
        raise fault(path, "bytes 1 to 4", magic.hex(" "), f"00 00 08 {rank:02x}, unsigned bytes in {rank} dimensions")
    begin = 4 + 4 * rank
    sizes = tuple(int(size) for size in np.frombuffer(bytes(content[4:begin]), dtype=">i4"))
    if len(sizes) < rank or min(sizes) < 0:
        raise fault(path, "header", f"the sizes {sizes}", f"{rank} sizes")
    if sizes[0] == 0:
        raise fault(path, "header", "no rows", "one row or more")
    expected = int(np.prod(sizes, dtype=np.int64))
    if len(content) - begin != expected:
        raise fault(
            path,
            "header",
            f"sizes {sizes} for {len(content) - begin:,} bytes that follow",
            f"sizes of {expected:,} bytes",
        )
    return content[begin:].reshape(sizes)
