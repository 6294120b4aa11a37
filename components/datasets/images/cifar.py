"""CIFAR's binary form: an archive whose members are rows of label byte(s) and 3,072 bytes, channel by channel."""

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from components.datasets.core.archives import Limits, members, missing_member
from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault
from components.datasets.images.checks import labels_in_range
from components.datasets.images.options import ImageOptions, image_options
from components.datasets.images.source import Batch, ImagePart, ImageSource

LIMITS = Limits(member_bytes=1 << 28, total_bytes=1 << 30, members=100)
# By the name of the member, whichever folder it lies in: the rows it must have.
TRAIN_MEMBERS = {1: {f"data_batch_{i}.bin": 10_000 for i in range(1, 6)}, 2: {"train.bin": 50_000}}
TEST_MEMBERS = {1: {"test_batch.bin": 10_000}, 2: {"test.bin": 10_000}}
SUFFIX = ".bin"


def read_cifar_binary(paths: Sequence[Path], entry: Entry) -> ImageSource:
    """Train and test images of the archive. Raises DataError for members missing, short or long, and for wrong labels.

    The archive is read from its beginning for each split; only one member is in memory at a time.
    """
    options = image_options(entry)
    (path,) = paths
    label_bytes = 1 + options.leading_label_bytes
    found = {PurePosixPath(member.name).name for member in members(path, LIMITS) if member.name.endswith(SUFFIX)}
    wanted = {"train": TRAIN_MEMBERS[label_bytes], "test": TEST_MEMBERS[label_bytes]}
    for names in wanted.values():
        for name in names:
            if name not in found:
                raise missing_member(path, name, sorted(found))
    parts = {split: _part(path, names, options) for split, names in wanted.items()}
    return ImageSource(options.shape, options.classes, parts)


def _part(path: Path, names: dict[str, int], options: ImageOptions) -> ImagePart:
    height, width, channels = options.shape
    label_bytes = 1 + options.leading_label_bytes
    row_bytes = label_bytes + height * width * channels

    def batches() -> Iterator[Batch]:
        row = 0
        for member in members(path, LIMITS):
            name = PurePosixPath(member.name).name
            if name not in names:
                continue
            content = np.frombuffer(member.read(), dtype=np.uint8)
            if len(content) != names[name] * row_bytes:
                raise fault(
                    path,
                    f"member {member.name}",
                    f"{len(content):,} bytes",
                    f"{names[name]:,} rows of {row_bytes:,} bytes",
                )
            rows = content.reshape(-1, row_bytes)
            labels = rows[:, label_bytes - 1].astype(np.int64)
            labels_in_range(path, labels, options.classes, row)
            row += len(rows)
            images = rows[:, label_bytes:].reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
            yield images, labels

    return ImagePart(sum(names.values()), batches)
