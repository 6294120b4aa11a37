"""A user's own images: an archive of CLASS/NAME or SPLIT/CLASS/NAME with PNG or JPEG pictures."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from components.arrays import SPLITS
from components.datasets.core.archives import Limits, members
from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault
from components.datasets.images.checks import only_path
from components.datasets.images.decoding import decode
from components.datasets.images.options import ImageOptions, image_options
from components.datasets.images.source import Batch, ImagePart, ImageSource

LIMITS = Limits(member_bytes=1 << 26, total_bytes=1 << 34, members=2_000_000)
ROWS_AT_ONCE = 256
# Names of classes and splits listed where a member lies elsewhere.
NAMES_SHOWN = 8


def read_folder(paths: Sequence[Path], entry: Entry) -> ImageSource:
    """The splits of the archive (zip or tar); without folders of splits all is train.

    Raises DataError with the member at fault: one in no folder of a class, or no picture of the entry's shape.
    """
    options = image_options(entry)
    path = only_path(paths, entry)
    counts = dict.fromkeys(SPLITS, 0)
    for member in members(path, LIMITS):
        counts[_placed(path, member.name, options)[0]] += 1
    parts = {split: ImagePart(count, _reading(path, split, options)) for split, count in counts.items() if count}
    return ImageSource(options.shape, options.classes, parts)


def _placed(path: Path, name: str, options: ImageOptions) -> tuple[str, int]:
    """Split and label of a member, from its folders."""
    *folders, _ = PurePosixPath(name).parts
    # anything deeper or shallower is no label
    split, label = {1: ["train", *folders], 2: folders}.get(len(folders), ["", ""])
    if split not in SPLITS or label not in options.classes:
        classes = ", ".join(options.classes[:NAMES_SHOWN]) + ("..." if len(options.classes) > NAMES_SHOWN else "")
        allowed = f"CLASS/NAME or SPLIT/CLASS/NAME with the classes {classes} and the splits {', '.join(SPLITS)}"
        raise fault(path, f"member {name}", f"the folders {'/'.join(folders) or '(none)'}", allowed)
    return split, options.classes.index(label)


def _reading(path: Path, wanted: str, options: ImageOptions) -> Callable[[], Iterator[Batch]]:
    def batches() -> Iterator[Batch]:
        images, labels = [], []
        for member in members(path, LIMITS):
            split, label = _placed(path, member.name, options)
            if split != wanted:
                continue
            content = member.read()
            images.append(decode(path, f"member {member.name}", content, options.shape, resize=options.resize))
            labels.append(label)
            if len(images) == ROWS_AT_ONCE:
                yield np.stack(images), np.asarray(labels, dtype=np.int64)
                images, labels = [], []
        if images:
            yield np.stack(images), np.asarray(labels, dtype=np.int64)

    return batches
