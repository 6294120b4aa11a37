"""Checks and conversions that readers of text share."""

from collections.abc import Callable, Iterator
from pathlib import Path

from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault, shown_value
from components.datasets.text.options import TextOptions
from components.datasets.text.source import TextRow
from components.errors import ConfigError

Rows = Callable[[], Iterator[TextRow]]


def checked(path: Path, rows: Rows) -> Rows:
    """The same rows; a repeated identifier, an empty text, a NUL byte, or no row at all is a DataError."""

    def reading() -> Iterator[TextRow]:
        seen: set[str] = set()
        for number, row in enumerate(rows(), 1):
            if row.id in seen:
                raise fault(path, f"row {number}", f"identifier {shown_value(row.id)} again", "each identifier once")
            seen.add(row.id)
            for text in (row.text, row.second):
                if text is None:
                    continue
                if "\0" in text:
                    raise fault(path, f"row {number}", "a NUL byte in the text", "text")
                if not text.strip():
                    raise fault(path, f"row {number}", "an empty text", "text")
            yield row
        if not seen:
            raise fault(path, "", "no rows", "one row or more")

    return reading


def label_in(path: Path, place: str, written: str, options: TextOptions) -> int | float:
    label = options.label_of(written)
    if label is None:
        raise fault(path, f"{place}, column {options.label}", f"label {shown_value(written)}", options.labels_told)
    return label


def split_of_each_file(entry: Entry) -> list[str]:
    """The split of each file. Raises ConfigError where the catalogue does not say it."""
    splits = [str(file.split) for file in entry.files if file.split is not None]
    if len(splits) != len(entry.files):
        raise ConfigError(f"{entry.name} in data/catalogue.yaml needs `split` for each file")
    return splits
