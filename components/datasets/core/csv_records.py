"""CSV with a header and quoted line breaks, one record at a time, for files too large for memory."""

import csv
from collections.abc import Iterator
from pathlib import Path

from components.datasets.core.archives import file_lines
from components.datasets.core.faults import fault

# The longest cell that is taken; the standard library's own limit is 131,072 characters.
CELL_CHARACTERS = 1 << 24


def _refuse_mark(path: Path, header: list[str]) -> None:
    """Some programs begin UTF-8 with a mark that would become a part of the first name."""
    if header[:1] and header[0].startswith("\ufeff"):
        raise fault(path, "line 1, column 1", "a byte order mark", "UTF-8 text without one")


def read_records(path: Path) -> Iterator[list[str]]:
    """The records of a UTF-8 CSV file, header first, all of one width. Raises DataError with the row at fault."""
    csv.field_size_limit(CELL_CHARACTERS)
    width = None
    record = 0
    try:
        for fields in csv.reader((f"{line}\n" for line in file_lines(path)), strict=True):
            if width is None:
                width = len(fields)
                _refuse_mark(path, fields)
            if len(fields) != width:
                raise fault(path, f"row {record}", f"{len(fields)} fields", f"{width}, as many as in the header")
            record += 1
            yield fields
    except csv.Error as error:
        raise fault(path, f"row {record}", f"text that is not CSV ({error})", "fields quoted by RFC 4180") from None
