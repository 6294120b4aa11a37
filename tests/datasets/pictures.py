"""Small files of images in every form that a reader takes, for the tests of images."""

import gzip
import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image

from components.datasets.core.catalogue import Entry
from components.datasets.images.source import ImageSource

DIGITS = ("zero", "one", "two")


def image_entry(reader: str, files: Sequence[tuple[str, str | None]], **options: Any) -> Entry:
    """An entry of `files` (name, split), whose digests no reader looks at."""
    described = [
        {"name": name, "split": split, "sha256": "0" * 64, "bytes": 1, "sources": [{"mirror": name}]}
        for name, split in files
    ]
    texts = dict.fromkeys(("title", "description", "licence", "citation"), "for tests")
    return Entry.model_validate({"name": "pictures", "reader": reader, "files": described, "options": options} | texts)


def random_images(seed: int, count: int, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def whole(source: ImageSource, split: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """All images and labels of one split."""
    batches = list(source.parts[split].batches())
    return np.concatenate([images for images, _ in batches]), np.concatenate([labels for _, labels in batches])


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    return idx_header(*array.shape) + array.tobytes()


def idx_header(*sizes: int) -> bytes:
    return bytes([0, 0, 8, len(sizes)]) + b"".join(size.to_bytes(4, "big") for size in sizes)


def encoded(image: NDArray[np.uint8], kind: str = "PNG", **how: Any) -> bytes:
    """A grey (H, W, 1) or coloured (H, W, 3) image as a picture file."""
    buffer = io.BytesIO()
    Image.fromarray(image.squeeze(axis=2) if image.shape[2] == 1 else image).save(buffer, format=kind, **how)
    return buffer.getvalue()


def parquet_bytes(images: NDArray[np.uint8], labels: Sequence[int], classes: Sequence[str], **columns: Any) -> bytes:
    """The hub's layout with the columns img, label and class; `columns` replaces some, None takes one out."""
    table: dict[str, Any] = {
        "img": [{"bytes": encoded(image), "path": f"{row}.png"} for row, image in enumerate(images)],
        "label": pa.array(labels, type=pa.int64()),
        "class": [classes[label] for label in labels],
    }
    table |= columns
    buffer = io.BytesIO()
    pq.write_table(pa.table({name: column for name, column in table.items() if column is not None}), buffer)
    return buffer.getvalue()


def write_tar(path: Path, members: Mapping[str, bytes]) -> Path:
    """A compressed tar archive with those members in that order."""
    with gzip.GzipFile(path, mode="wb", compresslevel=1, mtime=0) as packed, tarfile.open(None, "w", packed) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path
