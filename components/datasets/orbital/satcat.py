"""Reader of catalogue facts: a CSV file with one object in orbit a row, as shipped in data/samples/orbital/.

The derived columns of that file (eccentricity, mean motion) must agree with the facts they derive from: a number that
was changed in one place only does not pass.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault
from components.datasets.core.strict_csv import Row, read_rows
from components.datasets.orbital import mechanics
from components.datasets.orbital.kinds import kind_of
from components.datasets.orbital.table import COLUMNS, OrbitError, build_table, columns_from_altitudes

# The published facts, then what follows from them. Rules are those of the common table.
FACTS_COLUMNS: dict[str, Callable[[str], Any]] = {
    name: COLUMNS[name]
    for name in (
        "norad_id",
        "name",
        "kind",
        "launch",
        "period_min",
        "inclination_deg",
        "perigee_km",
        "apogee_km",
        "eccentricity",
        "mean_motion_rev_day",
    )
}

# Half a unit of the last decimal that the file keeps, and what rounding in binary may add.
AGREEMENT = {"eccentricity": 0.51e-7, "mean_motion_rev_day": 0.51e-8}


def read_facts(paths: Sequence[Path], entry: Entry) -> pd.DataFrame:
    """The common table (n, 12) of the facts files at `paths`. Raises DataError with file, row and column."""
    rows: list[dict[str, Any]] = []
    seen: dict[int, str] = {}
    for path in paths:
        for row in read_rows(path, FACTS_COLUMNS):
            identifier = row.values["norad_id"]
            note_once(seen, identifier, path, row)
            if identifier not in entry.exclusions:
                rows.append(_common_row(path, row))
    return build_table(rows)


def note_once(seen: dict[int, str], identifier: int, path: Path, row: Row) -> None:
    """Refuse the second row of one object, and say where the first is."""
    if identifier in seen:
        place = f"{row.place}, column norad_id"
        raise fault(path, place, f"{identifier} again (first in {seen[identifier]})", "one row for each object")
    seen[identifier] = f"{path.name}, {row.place}"


def _common_row(path: Path, row: Row) -> dict[str, Any]:
    values = row.values
    if values["kind"] != kind_of(values["name"]):
        place = f"{row.place}, column kind"
        raise fault(
            path, place, repr(values["kind"]), f"{kind_of(values['name'])!r}, as the name {values['name']!r} says"
        )
    try:
        orbit = columns_from_altitudes(
            values["period_min"], values["inclination_deg"], values["perigee_km"], values["apogee_km"]
        )
    except OrbitError as refused:
        raise fault(path, f"{row.place}, column {refused.column}", refused.came, refused.allowed) from None
    derived = {
        "eccentricity": mechanics.eccentricity_from_altitudes(values["perigee_km"], values["apogee_km"]),
        "mean_motion_rev_day": mechanics.mean_motion_from_period(values["period_min"]),
    }
    for name, value in derived.items():
        if abs(values[name] - value) > AGREEMENT[name]:
            raise fault(
                path, f"{row.place}, column {name}", repr(values[name]), f"{value:.8f}, which follows from the facts"
            )
    return {name: values[name] for name in ("norad_id", "name", "kind", "launch")} | orbit
