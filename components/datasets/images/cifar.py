"""CIFAR's binary form: an archive whose members are rows of label byte(s) and 3,072 bytes, channel by channel."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from components.datasets.core.archives import Limits, Member, members, missing_member
from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault, shown_value
from components.datasets.images.checks import labels_in_range, only_path
from components.datasets.images.options import ImageOptions, image_options
from components.datasets.images.source import Batch, ImagePart, ImageSource
from components.errors import ConfigError

LIMITS = Limits(member_bytes=1 << 28, total_bytes=1 << 30, members=100)
ROWS_AT_ONCE = 2048


@dataclass(frozen=True)
class Layout:
    """What an archive holds, by the last part of the members' names.

    `names` has, in the order of a row's label bytes, what the labels are called and the member that lists their names;
    `rows` has by split the members of images and how many rows each has.
    """

    names: Mapping[str, str]
    rows: Mapping[str, Mapping[str, int]]


LAYOUTS = {
    "cifar-10": Layout(
        {"fine": "batches.meta.txt"},
        {"train": {f"data_batch_{i}.bin": 10_000 for i in range(1, 6)}, "test": {"test_batch.bin": 10_000}},
    ),
    "cifar-100": Layout(
        {"coarse": "coarse_label_names.txt", "fine": "fine_label_names.txt"},
        {"train": {"train.bin": 50_000}, "test": {"test.bin": 10_000}},
    ),
}


@dataclass(frozen=True)
class _Rows:
    """How a row is read: its image's shape, the number of classes by label byte, and which of these is the label."""

    shape: tuple[int, int, int]
    classes: tuple[int, ...]
    used: int

    @property
    def bytes(self) -> int:
        height, width, channels = self.shape
        return len(self.classes) + height * width * channels


def read_cifar_binary(paths: Sequence[Path], entry: Entry) -> ImageSource:
    """Train and test images of the archive, in its order.

    Raises DataError for members missing, short or long, for other names of classes than the entry has, and for labels
    that are none of them. The archive is read from its beginning for each split; a few rows are in memory at a time.
    """
    options = image_options(entry)
    path = only_path(paths, entry)
    layout = LAYOUTS[options.layout]
    if options.labels not in layout.names:
        raise ConfigError(
            f"options of {entry.name} in data/catalogue.yaml: labels is {options.labels!r}, "
            f"but {options.layout} has {', '.join(layout.names)}"
        )
    names, sizes = _contents(path, layout)
    _require_classes(path, layout.names[options.labels], names[options.labels], options)
    rows = _Rows(options.shape, tuple(len(found) for found in names.values()), list(layout.names).index(options.labels))
    for of_split in layout.rows.values():
        for name, count in of_split.items():
            if sizes[name] != count * rows.bytes:
                allowed = f"{count * rows.bytes:,}, {count:,} rows of {rows.bytes:,}"
                raise fault(path, f"member {name}", f"{sizes[name]:,} bytes", allowed)
    parts = {
        split: ImagePart(sum(of_split.values()), _reading(path, frozenset(of_split), rows))
        for split, of_split in layout.rows.items()
    }
    return ImageSource(options.shape, options.classes, parts)


def _short(member: Member) -> str:
    return PurePosixPath(member.name).name


def _contents(path: Path, layout: Layout) -> tuple[dict[str, list[str]], dict[str, int]]:
    """The names of classes by kind of label, and the sizes of the other members, all that the layout asks for."""
    lists: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for member in members(path, LIMITS):
        name = _short(member)
        if name in sizes:
            raise fault(path, f"member {member.name}", f"a second {name}", "one")
        sizes[name] = member.size
        if name in layout.names.values():
            lists[name] = [line.strip() for line in member.lines("ascii") if line.strip()]
    wanted = [*layout.names.values(), *(name for of_split in layout.rows.values() for name in of_split)]
    for name in wanted:
        if name not in sizes:
            raise missing_member(path, name, list(sizes))
    return {kind: lists[name] for kind, name in layout.names.items()}, sizes


def _require_classes(path: Path, member: str, found: list[str], options: ImageOptions) -> None:
    if len(found) != len(options.classes):
        raise fault(path, f"member {member}", f"{len(found)} names", f"the {len(options.classes)} of the catalogue")
    for line, (came, due) in enumerate(zip(found, options.classes, strict=True), start=1):
        if came != due:
            raise fault(path, f"member {member}, name {line}", shown_value(came), f"{due!r}, as in the catalogue")


def _reading(path: Path, names: frozenset[str], rows: _Rows) -> Callable[[], Iterator[Batch]]:
    def batches() -> Iterator[Batch]:
        for member in members(path, LIMITS):
            if _short(member) not in names:
                continue
            first = 0
            for block in _blocks(member, ROWS_AT_ONCE * rows.bytes):
                images, labels = _decoded(path, f"member {member.name}, ", block, rows, first)
                first += len(labels)
                yield images, labels

    return batches


def _decoded(path: Path, place: str, block: bytes, rows: _Rows, first: int) -> Batch:
    height, width, channels = rows.shape
    table = np.frombuffer(block, dtype=np.uint8).reshape(-1, rows.bytes)
    for position, classes in enumerate(rows.classes):
        labels_in_range(path, table[:, position], classes, place, first)
    images = table[:, len(rows.classes) :].reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), table[:, rows.used].astype(np.int64)


def _blocks(member: Member, size: int) -> Iterator[bytes]:
    """The content in pieces of `size` bytes, the last one shorter."""
    rest = bytearray()
    for chunk in member.chunks():
        rest += chunk
        while len(rest) >= size:
            yield bytes(rest[:size])
            del rest[:size]
    if rest:
        yield bytes(rest)
