"""Read a CSV as text, cell by cell, refusing what a lenient reader would repair in silence.

A lenient reader takes the extra column of a ragged file for an index, "NA" for a missing value and a cut last line for
a whole one. Here nothing is converted: the result is text and the line each row stands on.
"""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from components.quality.core.report import Check

READABLE = "file/readable"
ROWS = "table/rows"
RECTANGULAR = "table/rectangular"

_EXPECTED = "UTF-8 text with lines that end in a line feed"
_AGAIN = "delete the file and run `quintet run`, which prepares it again"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# byte -> what a reader would call it
_FORBIDDEN = {b"\x00": "a NUL byte", b"\r": "a carriage return"}


@dataclass(frozen=True)
class TextTable:
    """Header and rows of text. Row i stands on line `lines[i]` of the file; the header is line 1."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]


def read_text_table(path: Path) -> tuple[TextTable | None, list[Check]]:
    """The table in `path` with one check per question asked; no table when one of them is refused. Never raises."""
    content, readable = _read(path)
    checks = [readable]
    if not readable.passed:
        return None, checks
    records, parsed = _parse(content)
    if not parsed.passed:
        return None, [parsed]
    rows = len(records) - 1
    checks.append(
        Check(ROWS, rows > 0, f"{max(rows, 0)} rows", "at least 1 row below the header", "", "" if rows > 0 else _AGAIN)
    )
    if rows < 1:
        return None, checks
    (_, header), body = records[0], records[1:]
    checks.append(_rectangular(len(header), body))
    if not checks[-1].passed:
        return None, checks
    lines, cells = zip(*body, strict=True)
    return TextTable(header, cells, lines), checks


def _read(path: Path) -> tuple[str, Check]:
    try:
        content = path.read_bytes()
    except OSError as error:
        return "", _unreadable(f"no readable file ({error.strerror})")
    if content.startswith(_BYTE_ORDER_MARK):
        return "", _unreadable("a byte order mark", "line 1")
    for byte, name in _FORBIDDEN.items():
        if byte in content:
            return "", _unreadable(name, f"line {_line_at(content, content.index(byte))}")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return "", _unreadable(
            f"byte 0x{content[error.start]:02x}, which is not UTF-8", f"line {_line_at(content, error.start)}"
        )
    if text and not text.endswith("\n"):
        return "", _unreadable("a last line that is cut off", f"line {_line_at(content, len(content) - 1)}")
    return text, Check(READABLE, True, f"{len(content)} bytes", _EXPECTED)


def _parse(text: str) -> tuple[list[tuple[int, tuple[str, ...]]], Check]:
    """Records with their line numbers; the check is the one of `_read`, refused for broken quoting."""
    reader = csv.reader(io.StringIO(text, newline="\n"), strict=True)
    records: list[tuple[int, tuple[str, ...]]] = []
    try:
        for cells in reader:
            line = len(records) + 1
            if reader.line_num != line:
                return [], _unreadable("a quoted cell that goes on to the next line", f"line {line}")
            records.append((line, tuple(cells)))
    except csv.Error as error:
        return [], _unreadable(f"broken quoting ({error})", f"line {reader.line_num}")
    return records, Check(READABLE, True, f"{len(records)} lines", _EXPECTED)


def _rectangular(width: int, body: list[tuple[int, tuple[str, ...]]]) -> Check:
    expected = f"{width} cells in every row, as in the header"
    ragged = [(line, len(cells)) for line, cells in body if len(cells) != width]
    if not ragged:
        return Check(RECTANGULAR, True, f"{width} cells in every row", expected)
    line, cells = ragged[0]
    others = f" (also {len(ragged) - 1} more)" if len(ragged) > 1 else ""
    return Check(RECTANGULAR, False, f"{cells} cells", expected, f"line {line}{others}", _AGAIN)


def _unreadable(observed: str, detail: str = "") -> Check:
    return Check(READABLE, False, observed, _EXPECTED, detail, _AGAIN)


def _line_at(content: bytes, position: int) -> int:
    return content.count(b"\n", 0, position) + 1
