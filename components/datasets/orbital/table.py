"""The common table of orbits: its columns, their units and ranges, how a row is derived, and its one CSV form.

Every reader yields this table without the column `split`; preparing adds it. Values are rounded before the regime is
told, so that the regime of a stored row always agrees with the numbers stored beside it.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from components.datasets.core.faults import fault
from components.datasets.core.strict_csv import Decimal, Integer, Pattern, Word, read_rows
from components.datasets.orbital import mechanics
from components.datasets.orbital.kinds import KINDS
from components.datasets.orbital.regimes import REGIMES, regime_of
from components.files import write_text

SPLITS = ("train", "validation", "test")

# The largest number that five characters hold when the first may be a letter without I and O: Z9999.
MAX_NORAD_ID = 339999


@dataclass(frozen=True)
class Quantity:
    """A numeric column: unit, allowed range, and the decimals that are kept."""

    unit: str
    minimum: float
    maximum: float
    decimals: int

    @property
    def rule(self) -> Decimal:
        return Decimal(self.minimum, self.maximum)

    @property
    def allowed(self) -> str:
        return f"{self.minimum:.10g} to {self.maximum:.10g} {self.unit}"


class OrbitError(ValueError):
    """Numbers that are no orbit of this catalogue: the column at fault, what came, what is allowed."""

    def __init__(self, column: str, came: str, allowed: str):
        super().__init__(f"{column}: got {came}, allowed is {allowed}")
        self.column = column
        self.came = came
        self.allowed = allowed


# From orbits that decay within the day to those at the edge of the Earth's hold.
QUANTITIES: dict[str, Quantity] = {
    "period_min": Quantity("min", 80.0, 100000.0, 6),
    "inclination_deg": Quantity("deg", 0.0, 180.0, 4),
    "perigee_km": Quantity("km", 0.0, 1000000.0, 3),
    "apogee_km": Quantity("km", 0.0, 1500000.0, 3),
    "eccentricity": Quantity("1", 0.0, 0.9999999, 7),
    "mean_motion_rev_day": Quantity("rev/day", 0.0144, 18.0, 8),
    "semi_major_axis_km": Quantity("km", 6378.137, 1000000.0, 3),
}

# A launch is the first part of an international designator. An object without one is in a group of its own.
LAUNCH_PATTERN = r"(19[5-9]\d|20\d\d)-\d{3}|unknown-[1-9]\d*"
LAUNCH_RULE = "a launch such as 1999-025, or unknown-NUMBER for an object without designator"
NAME_RULE = "1 to 80 printable characters without blanks at the ends"

COLUMNS: dict[str, Callable[[str], Any]] = {
    "norad_id": Integer(1, MAX_NORAD_ID),
    "name": Pattern(r"(?! )[^\x00-\x1f\x7f]{1,80}(?<! )", NAME_RULE),
    "kind": Word(KINDS),
    "launch": Pattern(LAUNCH_PATTERN, LAUNCH_RULE),
    **{name: quantity.rule for name, quantity in QUANTITIES.items()},
    "regime": Word(REGIMES),
    "split": Word(SPLITS),
}


def launch_of(designator: str, norad_id: int) -> str:
    """The launch of an international designator: "1999-025ABC" or "99025ABC" gives 1999-025, a blank one unknown-ID.

    An element set may know the launch and not yet the piece. Two-digit years pivot at 57, the year of the first launch:
    57 to 99 are 19xx, 00 to 56 are 20xx.
    """
    text = designator.strip()
    if not text:
        return f"unknown-{norad_id}"
    short = re.fullmatch(r"(\d\d)(\d{3})[A-Z]{0,3}", text, re.ASCII)
    if short:
        return f"{full_year(int(short[1]))}-{short[2]}"
    full = re.fullmatch(r"(\d{4}-\d{3})[A-Z]{1,3}", text, re.ASCII)
    if not full:
        raise ValueError(f"{designator!r} is no international designator")
    return full[1]


def full_year(two_digits: int) -> int:
    """57 to 99 are 1957 to 1999, 00 to 56 are 2000 to 2056."""
    return two_digits + (1900 if two_digits >= 57 else 2000)


def orbit_columns(
    period_min: float,
    inclination_deg: float,
    perigee_km: float,
    apogee_km: float,
    eccentricity: float,
    mean_motion_rev_day: float,
    semi_major_axis_km: float,
) -> dict[str, float | str]:
    """The numeric columns, rounded to their decimals, and the regime that they give.

    Raises OrbitError that names the first column out of its range.
    """
    given = (
        period_min,
        inclination_deg,
        perigee_km,
        apogee_km,
        eccentricity,
        mean_motion_rev_day,
        semi_major_axis_km,
    )
    columns: dict[str, float | str] = {}
    for (name, quantity), value in zip(QUANTITIES.items(), given, strict=True):
        # adding zero turns -0.0, which rounding may give, into 0.0
        rounded = round(float(value), quantity.decimals) + 0.0
        _require_range(name, rounded)
        columns[name] = rounded
    columns["regime"] = regime_of(
        float(columns["eccentricity"]), float(columns["mean_motion_rev_day"]), float(columns["semi_major_axis_km"])
    )
    return columns


def _require_range(column: str, value: float) -> None:
    """Raise OrbitError unless `value` (NaN never is) lies in the range of `column`."""
    quantity = QUANTITIES[column]
    if not quantity.minimum <= value <= quantity.maximum:
        raise OrbitError(column, f"{value:.10g}", quantity.allowed)


def columns_from_altitudes(
    period_min: float, inclination_deg: float, perigee_km: float, apogee_km: float
) -> dict[str, float | str]:
    """What a satellite catalogue gives, and what follows. Raises OrbitError for numbers that are no one orbit."""
    for name, value in (("period_min", period_min), ("perigee_km", perigee_km), ("apogee_km", apogee_km)):
        _require_range(name, value)
    if perigee_km > apogee_km:
        raise OrbitError("perigee_km", f"{perigee_km:.10g}", f"no more than the apogee, {apogee_km:.10g}")
    disagreement = mechanics.kepler_disagreement(period_min, perigee_km, apogee_km)
    if abs(disagreement) > mechanics.KEPLER_TOLERANCE:
        # perigee and apogee together say what the period must be, so it stands for the three
        expected = period_min * (1.0 + disagreement) ** -1.5
        raise OrbitError(
            "period_min",
            f"{period_min:.10g}",
            f"{expected:.2f}, which perigee {perigee_km:.10g} and apogee {apogee_km:.10g} km give by Kepler's third "
            f"law (to {mechanics.KEPLER_TOLERANCE:.1%} in the semi-major axis)",
        )
    return orbit_columns(
        period_min,
        inclination_deg,
        perigee_km,
        apogee_km,
        mechanics.eccentricity_from_altitudes(perigee_km, apogee_km),
        mechanics.mean_motion_from_period(period_min),
        mechanics.semi_major_axis_from_altitudes(perigee_km, apogee_km),
    )


def columns_from_elements(
    inclination_deg: float, eccentricity: float, mean_motion_rev_day: float
) -> dict[str, float | str]:
    """What an element set gives, and what follows. Raises OrbitError that names a column out of its range."""
    _require_range("mean_motion_rev_day", mean_motion_rev_day)
    period = mechanics.period_from_mean_motion(mean_motion_rev_day)
    axis = mechanics.semi_major_axis_from_period(period)
    perigee, apogee = mechanics.altitudes(axis, eccentricity)
    return orbit_columns(period, inclination_deg, perigee, apogee, eccentricity, mean_motion_rev_day, axis)


def build_table(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows to the common table (n, 12), without split, in ascending order of norad_id."""
    names = [name for name in COLUMNS if name != "split"]
    table = pd.DataFrame(list(rows), columns=names)
    return table.sort_values("norad_id", ignore_index=True)


def table_text(table: pd.DataFrame) -> str:
    """The canonical CSV text of a prepared table: the same rows give the same bytes.

    Numbers are written in their shortest form that reads back to the same float.
    """
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    columns = [table[name].tolist() for name in COLUMNS]
    writer.writerows(zip(*columns, strict=True))
    return buffer.getvalue()


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write the prepared table atomically in its canonical form."""
    write_text(path, table_text(table))


def read_table(path: Path) -> pd.DataFrame:
    """Read a prepared table (n, 13). Raises DataError at the first place that is not in the form it was written in."""
    rows = []
    lines: dict[int, int] = {}
    for row in read_rows(path, COLUMNS):
        identifier = row.values["norad_id"]
        if identifier in lines:
            place = f"{row.place}, column norad_id"
            raise fault(
                path, place, f"{identifier} again (first in line {lines[identifier]})", "one row for each object"
            )
        lines[identifier] = row.line
        rows.append(row.values)
    return pd.DataFrame(rows, columns=list(COLUMNS))
