"""Files of element sets, in the two-line and the three-line form, and the common table of what they hold.

A three-line set has its object's name on a line before, either as it is or after "0 ". One file keeps to one form.
Plain text or gzip; lines end in LF or CR LF; a byte order mark, a blank line inside and anything left over are refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault, shown_value
from components.datasets.core.strict_csv import decoded, read_bytes
from components.datasets.orbital.kinds import kind_of
from components.datasets.orbital.table import NAME_RULE, OrbitError, build_table, columns_from_elements
from components.datasets.orbital.tle import LEGACY_LENGTH, ElementSet, TleError, catalogue_number, parse_element_set

# Columns of the second line that the table's columns come from, for messages.
_PLACES = {
    "inclination_deg": "columns 9-16 (inclination)",
    "eccentricity": "columns 27-33 (eccentricity)",
}
_ORBIT_PLACE = "columns 27-63 (eccentricity and mean motion)"


@dataclass(frozen=True)
class PlacedSet:
    """An element set and the line of the file, from 1, on which its first element line stands."""

    line: int
    elements: ElementSet


def read_element_sets(
    path: Path, exclusions: Mapping[int, str] | None = None, *, legacy: bool = False
) -> Iterator[PlacedSet]:
    """The element sets of the file at `path`, in its order. Raises DataError with file, line and columns.

    Several sets of one object must come in the order of their epochs. Objects in `exclusions` are checked for form but
    not propagated, and are left out. `legacy` takes lines without checksum too.
    """
    excluded = exclusions or {}
    latest: dict[int, PlacedSet] = {}
    for number, name, line_1, line_2 in _groups(path):
        known = _is_excluded(line_1, excluded)
        try:
            elements = parse_element_set(line_1, line_2, name, legacy=legacy, propagate=not known)
        except TleError as refused:
            place = f"line {number + max(refused.line, 1) - 1}, {refused.place}"
            if refused.line == 0:
                place = f"lines {number}-{number + 1}, {refused.place}"
            raise fault(path, place, refused.came, refused.allowed) from None
        if known:
            continue
        before = latest.get(elements.norad_id)
        if before is not None and elements.epoch <= before.elements.epoch:
            came = f"epoch {_told(elements)} of object {elements.norad_id}"
            allowed = f"one after {_told(before.elements)}, which line {before.line} has"
            raise fault(path, f"line {number}, columns 19-32 (epoch)", came, allowed)
        latest[elements.norad_id] = PlacedSet(number, elements)
        yield latest[elements.norad_id]


def read_catalogue(paths: Sequence[Path], entry: Entry) -> pd.DataFrame:
    """The common table (n, 12) of three-line files: of each object the set with the latest epoch.

    Raises DataError with file, line and columns; also for the two-line form, whose objects have no names to tell a
    payload from debris by.
    """
    newest: dict[int, tuple[tuple[int, float], dict[str, Any]]] = {}
    for path in paths:
        for placed in read_element_sets(path, entry.exclusions):
            row = _common_row(path, placed)
            identifier = placed.elements.norad_id
            if identifier not in newest or placed.elements.epoch > newest[identifier][0]:
                newest[identifier] = (placed.elements.epoch, row)
    return build_table(row for _, row in newest.values())


def _groups(path: Path) -> Iterator[tuple[int, str, str, str]]:
    """Line number of the first element line, name ("" in the two-line form), first and second line."""
    lines = decoded(path, read_bytes(path), "ascii").replace("\r\n", "\n").split("\n")
    bare = next((number for number, line in enumerate(lines, start=1) if "\r" in line), None)
    if bare is not None:
        raise fault(path, f"line {bare}", "a carriage return inside a line", "lines that end in LF or CR LF")
    while lines and not lines[-1].strip():
        lines.pop()
    size = 2 if _is_element_line(lines[0]) else 3
    for start in range(0, len(lines), size):
        group = lines[start : start + size]
        for offset, line in enumerate(group):
            if not line.strip():
                raise fault(path, f"line {start + offset + 1}", "a blank line", "element sets without lines between")
        name = _name(path, start + 1, group[0]) if size == 3 else ""
        if len(group) < size:
            came = f"{len(group)} of the {size} lines of an element set"
            raise fault(path, f"line {start + len(group)} (the last)", came, "complete element sets")
        yield start + size - 1, name, group[-2], group[-1]


def _is_element_line(line: str) -> bool:
    return line[:2] in {"1 ", "2 "} and len(line) >= LEGACY_LENGTH


def _name(path: Path, line: int, text: str) -> str:
    if _is_element_line(text):
        place = f"line {line}, column 1"
        raise fault(path, place, f"an element line ({shown_value(text)})", "the name of the next object, as before")
    # publishers pad names to 24 columns
    name = text.removeprefix("0 ").strip(" ")
    if not name or len(name) > 80 or not name.isprintable():
        raise fault(path, f"line {line} (name)", shown_value(text), NAME_RULE)
    return name


def _is_excluded(line_1: str, exclusions: Mapping[int, str]) -> bool:
    text = line_1[2:7]
    digits = text[1:] if text[:1].isalpha() else text
    try:
        return int(digits) >= 0 and catalogue_number(text) in exclusions
    except ValueError:
        # not a number at all: the strict reader says so, with its place
        return False


def _common_row(path: Path, placed: PlacedSet) -> dict[str, Any]:
    elements = placed.elements
    if not elements.name:
        came = "the two-line form, which has no names"
        raise fault(path, f"line {placed.line}", came, "the three-line form: an object's kind is told from its name")
    try:
        orbit = columns_from_elements(elements.inclination_deg, elements.eccentricity, elements.mean_motion_rev_day)
    except OrbitError as refused:
        place = f"line {placed.line + 1}, {_PLACES.get(refused.column, _ORBIT_PLACE)}"
        raise fault(path, place, f"{refused.column} {refused.came}", refused.allowed) from None
    return {
        "norad_id": elements.norad_id,
        "name": elements.name,
        "kind": kind_of(elements.name),
        "launch": elements.launch,
        **orbit,
    }


def _told(elements: ElementSet) -> str:
    year, day = elements.epoch
    return f"{year} day {day:.8f}"
