"""A user's own plain text: one row a line, LABEL, a tab, and the text; UTF-8."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from components.datasets.core.archives import file_lines
from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault
from components.datasets.text.checks import Rows, checked, label_in, split_of_each_file
from components.datasets.text.options import TextOptions, text_options
from components.datasets.text.source import TextRow, TextSource


def read_lines(paths: Sequence[Path], entry: Entry) -> TextSource:
    """The splits of `entry`, one file each. Raises DataError with the line at fault."""
    options = text_options(entry)
    parts = {
        split: checked(path, _rows(path, split, options))
        for split, path in zip(split_of_each_file(entry), paths, strict=True)
    }
    return TextSource(options.classes, False, parts)


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file without their ends (line feed, or carriage return and line feed). Raises DataError."""
    for line in file_lines(path):
        yield line.removesuffix("\r")


def _rows(path: Path, split: str, options: TextOptions) -> Rows:
    def reading() -> Iterator[TextRow]:
        for number, line in enumerate(lines_of(path), 1):
            label, tab, text = line.partition("\t")
            if not tab:
                raise fault(path, f"line {number}", "no tab", "a label, a tab and the text")
            yield TextRow(f"{split}-{number}", text, None, label_in(path, f"line {number}", label, options))

    return reading
