"""MRPC, which GLUE takes from its own publisher: two tables with sentence pairs, and a list of development pairs."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault, shown_value
from components.datasets.text.checks import Rows, checked, label_in
from components.datasets.text.lines import lines_of
from components.datasets.text.options import TextOptions, text_options
from components.datasets.text.source import TextRow, TextSource

BYTE_ORDER_MARK = "\ufeff"
WIDTH = 5

Pair = tuple[str, str]
# whether the pair of these two identifiers belongs to the split
Wanted = Callable[[Pair], bool]


def read_mrpc(paths: Sequence[Path], entry: Entry) -> TextSource:
    """Train, development and test pairs from the files train, test and development identifiers, in that order."""
    train, test, development = paths
    options = text_options(entry)
    held = _development_pairs(development, train)
    parts = {
        "train": checked(train, _rows(train, "train", options, lambda pair: pair not in held)),
        "validation": checked(train, _rows(train, "validation", options, lambda pair: pair in held)),
        "test": checked(test, _rows(test, "test", options, lambda pair: True)),
    }
    return TextSource(options.classes, True, parts)


def _development_pairs(path: Path, train: Path) -> set[Pair]:
    """The identifiers of the pairs that are held out. Raises DataError for a line of another form or a pair unknown."""
    there = {(fields[1], fields[2]) for _, fields in _records(train)}
    held: set[Pair] = set()
    for number, line in enumerate(lines_of(path), 1):
        one, _, other = line.partition("\t")
        if (one, other) not in there:
            raise fault(path, f"line {number}", shown_value(line), f"two identifiers of a pair in {train.name}")
        held.add((one, other))
    return held


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines below the header, by number. Raises DataError for one of another width."""
    for number, line in enumerate(lines_of(path), 1):
        fields = line.removeprefix(BYTE_ORDER_MARK).split("\t")
        if len(fields) != WIDTH:
            raise fault(path, f"line {number}", f"{len(fields)} fields", f"{WIDTH} fields")
        if number > 1:
            yield number, fields


def _rows(path: Path, split: str, options: TextOptions, wanted: Wanted) -> Rows:
    def reading() -> Iterator[TextRow]:
        for number, fields in _records(path):
            if not wanted((fields[1], fields[2])):
                continue
            yield TextRow(
                f"{split}-{fields[1]}-{fields[2]}",
                fields[3],
                fields[4],
                label_in(path, f"line {number}", fields[0], options),
            )

    return reading
