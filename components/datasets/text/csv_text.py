"""Text in a CSV file with a header, quoted by RFC 4180; line breaks inside quotes belong to the text."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from components.datasets.core.catalogue import Entry
from components.datasets.core.csv_records import read_records
from components.datasets.core.faults import fault
from components.datasets.text.checks import Rows, checked, label_in, split_of_each_file
from components.datasets.text.options import TextOptions, text_options
from components.datasets.text.source import TextRow, TextSource


def read_csv_text(paths: Sequence[Path], entry: Entry) -> TextSource:
    """The splits of `entry`, one file each. Raises DataError with file, row and column."""
    options = text_options(entry)
    parts = {
        split: checked(path, _rows(path, split, options))
        for split, path in zip(split_of_each_file(entry), paths, strict=True)
    }
    return TextSource(options.classes, options.second is not None, parts)


def _rows(path: Path, split: str, options: TextOptions) -> Rows:
    def reading() -> Iterator[TextRow]:
        records = read_records(path)
        header = next(records, [])
        place = _places(path, header, options)
        for number, fields in enumerate(records, 1):
            if options.only is not None and fields[place[options.only.column]] != options.only.value:
                continue
            yield TextRow(
                id=f"{split}-{fields[place[options.id]] if options.id is not None else number}",
                text=fields[place[options.text]],
                second=fields[place[options.second]] if options.second is not None else None,
                label=label_in(path, f"row {number}", fields[place[options.label]], options),
            )

    return reading


def _places(path: Path, header: list[str], options: TextOptions) -> dict[str, int]:
    optional = [name for name in (options.second, options.id) if name is not None]
    wanted = [options.text, options.label, *optional, *([options.only.column] if options.only else [])]
    allowed = [*wanted, *options.ignored]
    told = f"the columns {', '.join(dict.fromkeys(allowed))}"
    for name in wanted:
        if header.count(name) != 1:
            came = f"column {name!r} twice" if name in header else f"no column {name!r} (it has {', '.join(header)})"
            raise fault(path, "header", came, told)
    for name in header:
        if name not in allowed:
            raise fault(path, "header", f"an unknown column {name!r}", told)
    return {name: header.index(name) for name in wanted}
