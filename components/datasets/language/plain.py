"""Lines of plain text, or the texts in a column of a CSV file as lines; each line is a document of its own."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from components.config import Strict, validated
from components.datasets.core.archives import file_lines
from components.datasets.core.catalogue import Entry
from components.datasets.core.csv_records import read_records
from components.datasets.core.faults import fault
from components.datasets.language.source import LanguageSource, Lines
from components.datasets.language.wikitext import nonempty


class CsvOptions(Strict):
    """The column of texts, and a column with the value that chosen rows have."""

    text: str = "text"
    column: str
    value: str


def every_line(before: str, line: str) -> bool:
    """Whether there is anything in `line`: each is a document of its own."""
    del before
    return bool(line.strip())


def read_text(paths: Sequence[Path], entry: Entry) -> LanguageSource:
    """The lines of UTF-8 files, all of them one part. Raises DataError with the line at fault."""
    del entry

    def lines() -> Iterator[str]:
        for path in paths:
            for line in file_lines(path):
                yield line.removesuffix("\r")

    return LanguageSource({"train": nonempty(paths[0], lines)}, every_line)


def read_csv(paths: Sequence[Path], entry: Entry) -> LanguageSource:
    """The texts of the rows that the entry's options choose, one a line. Raises DataError with the row at fault."""
    options = validated(CsvOptions, entry.options, f"options of {entry.name} in data/catalogue.yaml")
    (path,) = paths
    return LanguageSource({"train": nonempty(path, _column(path, options))}, every_line)


def _column(path: Path, options: CsvOptions) -> Lines:
    def lines() -> Iterator[str]:
        records = read_records(path)
        header = next(records, [])
        for name in (options.text, options.column):
            if header.count(name) != 1:
                came = f"{header.count(name)} columns {name!r} (it has {', '.join(header)})"
                raise fault(path, "header", came, f"one column {name}")
        text, column = header.index(options.text), header.index(options.column)
        for fields in records:
            if fields[column] == options.value:
                yield " ".join(fields[text].split())

    return lines
