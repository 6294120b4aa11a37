"""Text in parquet: a column of texts, perhaps one of second texts, one of labels, perhaps one of identifiers."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from components.datasets.core.catalogue import Entry
from components.datasets.core.parquet import INTEGER, NUMBER, STRING, ColumnType, read_batches
from components.datasets.text.checks import Rows, checked, label_in, split_of_each_file
from components.datasets.text.options import TextOptions, text_options
from components.datasets.text.source import TextRow, TextSource

ANYTHING = ColumnType("any type", lambda kind: True)


def read_parquet_text(paths: Sequence[Path], entry: Entry) -> TextSource:
    """The splits of `entry`, one file each; unlabelled files are passed over. Raises DataError with row and column."""
    options = text_options(entry)
    parts = {
        split: checked(path, _rows(path, split, options))
        for split, path in zip(split_of_each_file(entry), paths, strict=True)
        if split != "unlabelled"
    }
    return TextSource(options.classes, options.second is not None, parts)


def _rows(path: Path, split: str, options: TextOptions) -> Rows:
    columns = {options.text: STRING, options.label: NUMBER if options.classes is None else INTEGER}
    if options.second is not None:
        columns[options.second] = STRING
    if options.id is not None:
        columns[options.id] = ColumnType("text or whole numbers", lambda k: INTEGER.accepts(k) or STRING.accepts(k))
    columns |= dict.fromkeys(options.ignored, ANYTHING)

    def reading() -> Iterator[TextRow]:
        number = 0
        for batch in read_batches(path, columns):
            for i, text in enumerate(batch[options.text]):
                number += 1
                yield TextRow(
                    id=f"{split}-{batch[options.id][i] if options.id is not None else number}",
                    text=text,
                    second=batch[options.second][i] if options.second is not None else None,
                    label=label_in(path, f"row {number}", str(batch[options.label][i]), options),
                )

    return reading
