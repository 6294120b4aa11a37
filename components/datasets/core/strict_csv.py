"""CSV that is refused, never coerced: one encoding, one header, one shape, every field by its own rule.

General readers repair what they meet: a column too many becomes the index and shifts the data, "NA" becomes NaN,
"1,234" turns a column into text, a wrong encoding into mojibake. Here each of these is an error with its place.
"""

import csv
import difflib
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.datasets.core.archives import gunzip
from components.datasets.core.faults import fault, shown_path, shown_value
from components.errors import DataError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Ten times the largest catalogue of orbits.
UNPACKED_LIMIT_BYTES = 1 << 28

_INTEGER = re.compile(r"0|[1-9]\d*|-[1-9]\d*", re.ASCII)
_DECIMAL = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d+)?", re.ASCII)


class FieldError(ValueError):
    """A field does not follow its rule. `allowed` says the rule, for the error that names the place."""

    def __init__(self, allowed: str):
        super().__init__(allowed)
        self.allowed = allowed


@dataclass(frozen=True)
class Integer:
    """A whole number without sign +, leading zeros or blanks, from `minimum` to `maximum`."""

    minimum: int
    maximum: int

    def __call__(self, text: str) -> int:
        allowed = f"a whole number from {self.minimum} to {self.maximum}"
        if not _INTEGER.fullmatch(text) or not self.minimum <= int(text) <= self.maximum:
            raise FieldError(allowed + _reading_hint(text))
        return int(text)


@dataclass(frozen=True)
class Decimal:
    """A finite plain decimal number from `minimum` to `maximum`."""

    minimum: float
    maximum: float

    def __call__(self, text: str) -> float:
        allowed = f"a decimal number from {self.minimum:g} to {self.maximum:g}"
        if not _DECIMAL.fullmatch(text) or not self.minimum <= float(text) <= self.maximum:
            raise FieldError(allowed + _reading_hint(text))
        return float(text)


@dataclass(frozen=True)
class Word:
    """One of `words`."""

    words: tuple[str, ...]

    def __call__(self, text: str) -> str:
        if text not in self.words:
            raise FieldError(f"one of {', '.join(repr(word) for word in self.words)}")
        return text


@dataclass(frozen=True)
class Pattern:
    """Text that the expression `pattern` matches from end to end; `rule` says it in words."""

    pattern: str
    rule: str

    def __call__(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise FieldError(self.rule)
        return text


def _reading_hint(text: str) -> str:
    """What a lenient reader would have made of `text`, where that is a well-known trap."""
    if _THOUSANDS.fullmatch(text):
        return " without thousands separators"
    if text.strip().lower() in {"", "na", "n/a", "nan", "null", "none", "-"}:
        return "; missing values are not part of this format"
    return ""


@dataclass(frozen=True)
class Row:
    """One data row: its number from 1, its line in the file, and its parsed fields."""

    number: int
    line: int
    values: dict[str, Any]

    @property
    def place(self) -> str:
        return f"row {self.number} (line {self.line})"


def read_bytes(path: Path) -> bytes:
    """Content of `path`, decompressed where it is gzip. Raises DataError for an absent, empty or broken file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{shown_path(path)} does not exist; restore the file or fetch the data set again") from None
    except IsADirectoryError:
        raise DataError(f"{shown_path(path)} is a folder, allowed is a file; restore the file") from None
    if path.suffix == ".gz" and content:
        content = b"".join(gunzip(path, UNPACKED_LIMIT_BYTES))
    if not content.strip():
        raise fault(path, "", "an empty file", "a file with data")
    return content


def decoded(path: Path, content: bytes, encoding: str = "utf-8") -> str:
    """`content` as text. Refuses byte order marks, NUL bytes and bytes outside `encoding`, with their place."""
    if content.startswith(BYTE_ORDER_MARK):
        raise fault(path, "line 1, column 1", "a byte order mark", f"{encoding} text without one")
    nul = content.find(b"\0")
    if nul >= 0:
        raise fault(path, _byte_place(content, nul), "a NUL byte", "text")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        came = f"byte 0x{content[error.start]:02x}"
        raise fault(path, _byte_place(content, error.start), came, f"{encoding} text") from None


def _byte_place(content: bytes, offset: int) -> str:
    line = content.count(b"\n", 0, offset) + 1
    column = offset - content.rfind(b"\n", 0, offset)
    return f"line {line}, column {column}"


def read_rows(path: Path, columns: Mapping[str, Callable[[str], Any]]) -> Iterator[Row]:
    """The rows of the UTF-8 CSV file at `path`, which has exactly `columns` (name to rule) in that order.

    Raises DataError with file, row, line and column at the first fault; a header without rows is a fault.
    """
    text = decoded(path, read_bytes(path))
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    names = list(columns)
    number = 0
    start = 1
    try:
        for fields in reader:
            line, start = start, reader.line_num + 1
            if line == 1:
                _check_header(path, fields, names)
                continue
            number += 1
            row = Row(number, line, {})
            if len(fields) != len(names):
                came = f"{len(fields)} fields" if fields else "a blank line"
                raise fault(path, row.place, came, f"{len(names)} fields ({', '.join(names)})")
            for name, field in zip(names, fields, strict=True):
                try:
                    row.values[name] = columns[name](field)
                except FieldError as refused:
                    place = f"{row.place}, column {name}"
                    raise fault(path, place, shown_value(field), refused.allowed) from None
            yield row
    except csv.Error as error:
        raise fault(path, f"line {start}", f"text that is not CSV ({error})", "fields quoted by RFC 4180") from None
    if number == 0:
        raise fault(path, "line 2", "no rows after the header", "one row or more")


def _check_header(path: Path, fields: Sequence[str], names: Sequence[str]) -> None:
    if list(fields) == list(names):
        return
    unknown = [field for field in fields if field not in names]
    absent = [name for name in names if name not in fields]
    if unknown:
        close = difflib.get_close_matches(unknown[0], absent or names, n=1)
        hint = f" (perhaps {close[0]!r} renamed)" if close else ""
        came = f"column {shown_value(unknown[0])}{hint}"
    elif absent:
        came = f"no column {absent[0]!r}"
    else:
        came = f"the columns {', '.join(fields)}"
    raise fault(path, "line 1 (header)", came, f"exactly these columns in this order: {', '.join(names)}")
