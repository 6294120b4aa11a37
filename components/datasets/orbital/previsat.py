"""Readers of PreviSat's satellite catalogue: its own fixed-width text, and a CSV form with derived columns beside it.

Both hold decayed objects too; the table takes what was in orbit and has elements. Their CSV form carries columns that
were derived from the facts, and these must agree with what we derive.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault, shown_value
from components.datasets.core.strict_csv import Decimal, Pattern, Row, Word, decoded, read_bytes, read_rows
from components.datasets.orbital.kinds import kind_of
from components.datasets.orbital.regimes import REGIMES
from components.datasets.orbital.satcat import note_once
from components.datasets.orbital.table import NAME_RULE, OrbitError, build_table, columns_from_altitudes, launch_of

TEXT_HEADER = (
    "#NORAD COSPAR      dim1 dim2 dim3 mag  m   rcs  lancement  rentree       periode perigee  apogee   incl "
    "orbite pays  site  nom usuel"
)

# The fields of a line by name: start and end (0-based, exclusive), the form of the text between, blanks stripped.
# Numbers that were never given to an object have nothing but dim1 to rcs.
TEXT_FIELDS: dict[str, tuple[int, int, str]] = {
    "norad": (0, 5, r"\d{5}"),
    "cospar": (6, 17, r"(\d{4}-\d{3}[A-Z]{1,3})?"),
    "dim1": (19, 24, r"\d+\.\d+"),
    "dim2": (24, 29, r"\d+\.\d+"),
    "dim3": (29, 34, r"\d+\.\d+"),
    "mag": (34, 39, r"-?\d+\.\d+"),
    "rcs": (41, 48, r"\d+\.\d+"),
    "launch": (48, 58, r"(\d{4}/\d\d/\d\d)?"),
    "decay": (58, 69, r"(\d{4}/\d\d/\d\d)?"),
    "period": (69, 80, r"(\d+\.\d\d)?"),
    "perigee": (80, 88, r"-?\d*"),
    "apogee": (88, 96, r"-?\d*"),
    "incl": (96, 103, r"(\d+\.\d\d)?"),
    "orbit": (104, 110, r"[A-Z/]*"),
    "country": (111, 117, r"[A-Z0-9]*"),
    "site": (117, 123, r"[A-Z0-9]*"),
    "name": (123, 200, r"[^\x00-\x1f\x7f]{0,77}"),
}

_DATE = r"(\d{4}/\d\d/\d\d)"
_ANY_NUMBER = r"-?\d+(\.\d+)?"
CSV_COLUMNS: dict[str, Callable[[str], Any]] = {
    "norad": Pattern(r"\d{5}", "a catalogue number of five digits"),
    "cospar": Pattern(r"\d{4}-\d{3}[A-Z]{1,3}", "an international designator such as 1999-025AB"),
    "dim1": Decimal(0, 1000),
    "dim2": Decimal(0, 1000),
    "dim3": Decimal(0, 1000),
    "mag": Decimal(-30, 99),
    "rcs": Decimal(0, 10000),
    "launch": Pattern(_DATE, "a date such as 1999/05/10"),
    "decay": Pattern(_DATE + "?", "a date such as 1999/05/10, or nothing for an object in orbit"),
    "period": Decimal(0, 1000000),
    "perigee": Decimal(-6378, 1000000),
    "apogee": Decimal(-6378, 1500000),
    "incl": Decimal(0, 180),
    "previsat_orbit": Pattern(r"[A-Z/]*", "PreviSat's own name of the orbit"),
    "country": Pattern(r"[A-Z0-9]*", "capital letters and digits"),
    "site": Pattern(r"[A-Z0-9]*", "capital letters and digits"),
    "object_name": Pattern(r"[^\x00-\x1f\x7f]{1,80}", NAME_RULE),
    "regime": Word(REGIMES),
    "sma_km": Decimal(0, 1500000),
    "ecc": Decimal(-1, 1),
    # a period of zero gives no mean motion; such a row must be excluded by name
    "mean_motion": Pattern(_ANY_NUMBER + "|inf", "a decimal number"),
    "object_type": Word(("PAYLOAD/OTHER", "ROCKET BODY", "DEBRIS")),
    "decayed": Word(("True", "False")),
}
CSV_KINDS = {"PAYLOAD/OTHER": "PAYLOAD", "ROCKET BODY": "ROCKET BODY", "DEBRIS": "DEBRIS"}

# What the CSV form derived: column, column of the table, half a unit of the last decimal it keeps.
CSV_DERIVED = (
    ("sma_km", "semi_major_axis_km", 0.51e-3),
    ("ecc", "eccentricity", 0.56e-6),
    ("mean_motion", "mean_motion_rev_day", 1.01e-8),
)


def read_csv(paths: Sequence[Path], entry: Entry) -> pd.DataFrame:
    """The common table (n, 12) of what was in orbit. Raises DataError with file, row and column."""
    return _read(paths, entry.exclusions, _csv_rows)


def read_text(paths: Sequence[Path], entry: Entry) -> pd.DataFrame:
    """The common table (n, 12) of what was in orbit and has elements. Raises DataError with file, line and column."""
    return _read(paths, entry.exclusions, _text_rows)


def _read(
    paths: Sequence[Path], exclusions: Mapping[int, str], rows_of: Callable[[Path], Iterator[Row]]
) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    seen: dict[int, str] = {}
    for path in paths:
        for row in rows_of(path):
            identifier = int(row.values["norad"])
            note_once(seen, identifier, path, row)
            if row.values["decay"] == "" and identifier not in exclusions:
                rows.append(_common_row(path, row, identifier))
    return build_table(rows)


def _csv_rows(path: Path) -> Iterator[Row]:
    for row in read_rows(path, CSV_COLUMNS):
        if row.values["decayed"] != str(row.values["decay"] != ""):
            place = f"{row.place}, column decayed"
            raise fault(path, place, repr(row.values["decayed"]), "True with a decay date and False without one")
        yield row


def _text_rows(path: Path) -> Iterator[Row]:
    lines = decoded(path, read_bytes(path), "ascii").splitlines()
    if lines[0] != TEXT_HEADER:
        raise fault(path, "line 1 (header)", shown_value(lines[0]), shown_value(TEXT_HEADER[:40]))
    if len(lines) == 1:
        raise fault(path, "line 2", "no rows after the header", "one row or more")
    for line, text in enumerate(lines[1:], start=2):
        row = Row(line - 1, line, {})
        for name, (start, end, form) in TEXT_FIELDS.items():
            value = text[start:end].strip(" ")
            if not re.fullmatch(form, value, re.ASCII):
                place = f"line {line}, columns {start + 1} to {end} ({name})"
                raise fault(path, place, shown_value(text[start:end]), f"the form {form}")
            row.values[name] = value
        elements = [row.values[name] for name in ("period", "perigee", "apogee", "incl")]
        # an object without elements, or with a part of them, has no orbit to learn from
        if all(elements):
            if not row.values["name"]:
                raise fault(
                    path, f"line {line}, columns 124 to 200 (name)", "no name", "the name of an object with elements"
                )
            row.values.update(zip(("period", "perigee", "apogee", "incl"), map(float, elements), strict=True))
            row.values["object_name"] = row.values["name"]
            yield row


def _common_row(path: Path, row: Row, identifier: int) -> dict[str, Any]:
    values = row.values
    try:
        orbit = columns_from_altitudes(values["period"], values["incl"], values["perigee"], values["apogee"])
    except OrbitError as refused:
        raise fault(path, f"{row.place}, column {refused.column}", refused.came, refused.allowed) from None
    kind = kind_of(values["object_name"])
    if "object_type" in values:
        _require_agreement(path, row, kind, orbit)
    return {
        "norad_id": identifier,
        "name": values["object_name"],
        "kind": kind,
        "launch": launch_of(values["cospar"], identifier),
        **orbit,
    }


def _require_agreement(path: Path, row: Row, kind: str, orbit: Mapping[str, float | str]) -> None:
    """Refuse a row of the CSV form whose derived columns do not follow from its facts."""
    values = row.values
    for name, came, expected in (
        ("object_type", CSV_KINDS[values["object_type"]], kind),
        ("regime", values["regime"], orbit["regime"]),
    ):
        if came != expected:
            raise fault(path, f"{row.place}, column {name}", repr(came), f"{expected!r}, which follows from the facts")
    for name, column, tolerance in CSV_DERIVED:
        expected_number = float(orbit[column])
        if not abs(float(values[name]) - expected_number) <= tolerance:
            came = repr(values[name])
            raise fault(
                path, f"{row.place}, column {name}", came, f"{expected_number:.8f}, which follows from the facts"
            )
