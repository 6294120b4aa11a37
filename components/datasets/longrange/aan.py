"""The pairs of AAN papers as the Long-Range Arena publishes them: tables without header in its archive, or unpacked.

A line is label, identifier, identifier, text, text, separated by tabs; the label is 0.0 or 1.0.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from components.datasets.core.archives import Limits, members, missing_member, readable_head
from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault, shown_value
from components.datasets.text.checks import Rows, checked
from components.datasets.text.lines import lines_of
from components.datasets.text.source import TextRow, TextSource
from components.errors import DataError

TABLES = {
    "train": "new_aan_pairs.train.tsv",
    "validation": "new_aan_pairs.eval.tsv",
    "test": "new_aan_pairs.test.tsv",
}
CLASSES = ("unrelated", "cited")
LABELS = {"0": 0, "0.0": 0, "1": 1, "1.0": 1}
FIELDS = ("label", "first id", "second id", "first text", "second text")
# The archive holds the images of another task besides, some millions of them.
LIMITS = Limits(member_bytes=1 << 35, total_bytes=1 << 37, members=8_000_000)

Lines = Callable[[], Iterator[str]]


def read_pairs(paths: Sequence[Path], entry: Entry) -> TextSource:
    """The three splits, from the archive or from the three tables. Raises DataError with the line at fault."""
    for path in paths:
        readable_head(path)
    tables = {path.name: path for path in paths}
    # by split: the file, what goes before a line's number in an error, the lines
    lines: dict[str, tuple[Path, str, Lines]]
    if set(tables) == set(TABLES.values()):
        lines = {split: (tables[name], "", partial(lines_of, tables[name])) for split, name in TABLES.items()}
    elif len(paths) == 1:
        lines = {split: (paths[0], f"member {name}, ", _of_archive(paths[0], name)) for split, name in TABLES.items()}
    else:
        came = ", ".join(tables) or "none"
        raise DataError(
            f"{entry.name}: got the files {came}, allowed is the archive alone or {', '.join(TABLES.values())}; mend "
            "its files in data/catalogue.yaml"
        )
    parts = {split: checked(path, _rows(path, place, split, read)) for split, (path, place, read) in lines.items()}
    return TextSource(CLASSES, True, parts)


def _of_archive(path: Path, name: str) -> Lines:
    def reading() -> Iterator[str]:
        tables = []
        for member in members(path, LIMITS):
            if not member.name.endswith(".tsv"):
                continue
            tables.append(member.name)
            if member.name.rpartition("/")[2] == name:
                yield from member.lines()
                return
        raise missing_member(path, name, tables)

    return reading


def _rows(path: Path, place: str, split: str, lines: Lines) -> Rows:
    def reading() -> Iterator[TextRow]:
        for number, line in enumerate(lines(), 1):
            where = f"{place}line {number}"
            fields = line.removesuffix("\r").split("\t")
            if len(fields) != len(FIELDS):
                raise fault(path, where, f"{len(fields)} fields", f"{len(FIELDS)} ({', '.join(FIELDS)})")
            label, _, _, first, second = fields
            if label not in LABELS:
                raise fault(path, where, f"label {shown_value(label)}", f"one of {', '.join(LABELS)}")
            yield TextRow(f"{split}-{number}", first, second, LABELS[label])

    return reading
