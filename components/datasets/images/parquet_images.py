"""Images in parquet: a column of encoded pictures, one of labels, perhaps one of class names."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault
from components.datasets.core.parquet import IMAGE, INTEGER, STRING, read_batches, row_count
from components.datasets.images.checks import labels_in_range
from components.datasets.images.decoding import decode
from components.datasets.images.options import ImageOptions, image_options
from components.datasets.images.source import Batch, ImagePart, ImageSource
from components.errors import ConfigError


def read_parquet_images(paths: Sequence[Path], entry: Entry) -> ImageSource:
    """The splits of `entry`, one file each. Raises DataError with file, row and column."""
    options = image_options(entry)
    if any(file.split is None for file in entry.files):
        raise ConfigError(f"{entry.name} in data/catalogue.yaml needs `split` for each file")
    parts = {
        str(file.split): ImagePart(row_count(path), _reading(path, options))
        for file, path in zip(entry.files, paths, strict=True)
    }
    return ImageSource(options.shape, options.classes, parts)


def _reading(path: Path, options: ImageOptions) -> Callable[[], Iterator[Batch]]:
    columns = {options.image_column: IMAGE, options.label_column: INTEGER}
    if options.class_column is not None:
        columns[options.class_column] = STRING

    def batches() -> Iterator[Batch]:
        row = 0
        for batch in read_batches(path, columns):
            labels = np.asarray(batch[options.label_column], dtype=np.int64)
            labels_in_range(path, labels, options.classes, row)
            if options.class_column is not None:
                _names_agree(path, options, labels.tolist(), batch[options.class_column], row)
            images = [
                decode(path, f"row {row + i + 1}, column {options.image_column}", cell["bytes"] or b"", options.shape)
                for i, cell in enumerate(batch[options.image_column])
            ]
            row += len(labels)
            yield np.stack(images), labels

    return batches


def _names_agree(path: Path, options: ImageOptions, labels: list[int], names: list[str], first_row: int) -> None:
    for i, (label, name) in enumerate(zip(labels, names, strict=True)):
        if options.classes[label] != name:
            place = f"row {first_row + i + 1}, column {options.class_column}"
            raise fault(
                path, place, f"{name!r} beside label {label}", f"{options.classes[label]!r}, which that label is"
            )
