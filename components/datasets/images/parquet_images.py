"""Images in parquet: a column of encoded pictures, one of labels, perhaps one of class names."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault, shown_value
from components.datasets.core.parquet import IMAGE, INTEGER, STRING, read_batches, row_count
from components.datasets.images.checks import labels_in_range, splits_of
from components.datasets.images.decoding import decode
from components.datasets.images.options import ImageOptions, image_options
from components.datasets.images.source import Batch, ImagePart, ImageSource


def read_parquet_images(paths: Sequence[Path], entry: Entry) -> ImageSource:
    """The splits of `entry`, one file each. Raises DataError with file, row and column."""
    options = image_options(entry)
    parts = {
        split: ImagePart(row_count(path), _reading(path, options))
        for split, path in zip(splits_of(entry, entry.files), paths, strict=True)
    }
    return ImageSource(options.shape, options.classes, parts)


def _reading(path: Path, options: ImageOptions) -> Callable[[], Iterator[Batch]]:
    columns = {options.image_column: IMAGE, options.label_column: INTEGER}
    if options.class_column is not None:
        columns[options.class_column] = STRING

    def batches() -> Iterator[Batch]:
        row = 0
        seen: dict[str, int] = {}
        for batch in read_batches(path, columns):
            labels = np.asarray(batch[options.label_column], dtype=np.int64)
            labels_in_range(path, labels, len(options.classes), first_row=row)
            if options.class_column is not None:
                _names_agree(path, options, labels.tolist(), batch[options.class_column], row)
            cells = batch[options.image_column]
            if options.unique_paths:
                _paths_differ(path, options, cells, row, seen)
            images = [
                decode(path, f"row {row + i + 1}, column {options.image_column}", cell["bytes"] or b"", options.shape)
                for i, cell in enumerate(cells)
            ]
            row += len(labels)
            yield np.stack(images), labels

    return batches


def _names_agree(path: Path, options: ImageOptions, labels: list[int], names: list[str], first_row: int) -> None:
    for i, (label, name) in enumerate(zip(labels, names, strict=True)):
        if options.classes[label] != name:
            place = f"row {first_row + i + 1}, column {options.class_column}"
            came = f"{shown_value(name)} beside label {label}"
            raise fault(path, place, came, f"{options.classes[label]!r}, which that label is")


def _paths_differ(
    path: Path, options: ImageOptions, cells: list[dict[str, Any]], first_row: int, seen: dict[str, int]
) -> None:
    """`seen` has the rows of the names that came before, and is added to."""
    for row, cell in enumerate(cells, start=first_row + 1):
        name = cell["path"] or ""
        place = f"row {row}, column {options.image_column}, path"
        if not name:
            raise fault(path, place, "no name", "the name of the picture's file")
        if name in seen:
            raise fault(path, place, f"{shown_value(name)} again (first in row {seen[name]})", "one row for each name")
        seen[name] = row
