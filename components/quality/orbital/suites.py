"""The suites of the prepared orbital table, as declarations: structure, cells, values.

One fault should give one finding. So each suite looks only at what the ones before it left in order: a cell that is no
number is absent from `values`, and a value out of its own range is absent from the relations between columns.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from components.datasets.orbital.config import GateOptions
from components.datasets.orbital.kinds import KINDS
from components.datasets.orbital.mechanics import (
    KEPLER_TOLERANCE,
    MINUTES_PER_DAY,
    eccentricity_from_altitudes,
    semi_major_axis_from_altitudes,
    semi_major_axis_from_period,
)
from components.datasets.orbital.regimes import REGIMES
from components.datasets.orbital.table import SPLITS
from components.quality.core.expectations import Place, Requirement, Suite
from components.quality.orbital.columns import (
    COLUMNS,
    FORMS,
    INFINITE,
    LASTING_PERIGEE_KM,
    LASTING_SHARE,
    NUMBER,
    RANGES,
)
from components.quality.orbital.text_table import TextTable

# (eccentricity, mean motion in rev/day, semi-major axis in km) -> regime
RegimeRule = Callable[[float, float, float], str]

KNOWN: Mapping[str, Sequence[str]] = {"kind": KINDS, "regime": REGIMES, "split": SPLITS}
# Both are written from one number, rounded to six digits or more.
PRODUCT_TOLERANCE = 1e-5
# Altitudes kept to 1 m give the eccentricity to 1e-7; element sets carry seven decimals.
ECCENTRICITY_TOLERANCE = 1e-5
# The reader allows KEPLER_TOLERANCE before it rounds.
AXIS_TOLERANCE = 1.01 * KEPLER_TOLERANCE

_ROW = "correct or remove this object in the source data, then `quintet run`"
_PREPARE = "delete this file and `quintet run` prepares it again; if it comes back so, the preparation is at fault"
_SPLIT = "delete this file and `quintet run` splits it again, whole launches together"


def structure_suite(table: TextTable, options: GateOptions) -> Suite:
    frame = pd.DataFrame(list(table.rows), columns=list(table.header), dtype=object)
    return Suite(
        "structure",
        frame,
        (
            Requirement(
                "table/columns",
                "ExpectTableColumnsToMatchOrderedList",
                {"column_list": list(COLUMNS)},
                f"exactly the columns {', '.join(COLUMNS)}",
                "rename the column in the source, or delete this file and `quintet run`",
            ),
            Requirement(
                "table/min_rows",
                "ExpectTableRowCountToBeBetween",
                {"min_value": options.min_rows},
                f"at least {options.min_rows} rows (min_rows)",
                "give more data or lower gate.min_rows in conf/dataset/",
            ),
        ),
    )


def text_frame(table: TextTable) -> pd.DataFrame:
    """All cells as text, None where the cell stands for no value."""
    columns = zip(*table.rows, strict=True)
    return pd.DataFrame(
        {
            name: pd.Series(
                [None if cell.strip().lower() in FORMS[name].missing else cell for cell in cells], dtype=object
            )
            for name, cells in zip(COLUMNS, columns, strict=True)
        }
    )


def value_frame(text: pd.DataFrame) -> pd.DataFrame:
    """Numbers as float64 and words as text; missing where a cell has no value, not its form, or no finite one."""
    values = {}
    for name, form in FORMS.items():
        written = text[name].where(text[name].notna() & text[name].astype(str).str.contains(form.pattern))
        values[name] = written.astype("float64").replace([np.inf, -np.inf], np.nan) if name in RANGES else written
    return pd.DataFrame(values)


def cells_suite(text: pd.DataFrame, table: TextTable) -> Suite:
    """Every cell has a value, in its column's form, and infinity is none."""
    requirements: list[Requirement] = []
    for name, form in FORMS.items():
        column = {"column": name}
        requirements += [
            Requirement(f"{name}/not_null", "ExpectColumnValuesToNotBeNull", column, "a value in every row", _ROW),
            Requirement(
                f"{name}/form",
                "ExpectColumnValuesToMatchRegex",
                {**column, "regex": form.pattern},
                form.described,
                _ROW,
            ),
        ]
        if form is NUMBER:
            finite = {**column, "regex": INFINITE}
            requirements.append(
                Requirement(f"{name}/finite", "ExpectColumnValuesToNotMatchRegex", finite, "a finite number", _ROW)
            )
    return Suite("cells", text, tuple(requirements), _locator(table))


def values_suite(values: pd.DataFrame, table: TextTable, regime_rule: RegimeRule) -> Suite:
    """Every value is in its range or its list, and the columns of a row agree with each other."""
    frame = values.assign(**_derived(values, regime_rule))
    return Suite("values", frame, (*_of_columns(), *_relations(), *_leakage()), _locator(table))


def _of_columns() -> list[Requirement]:
    ranges = [
        _between(f"{name}/range", name, allowed.minimum, allowed.maximum, allowed.described(name))
        for name, allowed in RANGES.items()
    ]
    words = [
        Requirement(
            f"{name}/known",
            "ExpectColumnValuesToBeInSet",
            {"column": name, "value_set": list(known)},
            f"one of {', '.join(known)}",
            _PREPARE,
        )
        for name, known in KNOWN.items()
    ]
    unique = Requirement(
        "norad_id/unique", "ExpectColumnValuesToBeUnique", {"column": "norad_id"}, "one row for each object", _ROW
    )
    lasting = Requirement(
        "perigee_km/lasting",
        "ExpectColumnValuesToBeBetween",
        {"column": "perigee_in_range", "min_value": LASTING_PERIGEE_KM, "mostly": LASTING_SHARE},
        f"{LASTING_SHARE:.1%} of the perigees at {LASTING_PERIGEE_KM:g} km or more, where an orbit lasts",
        "look whether the column is in km, and filled; remove objects that have come down",
        ("perigee_km",),
    )
    return [*ranges, *words, unique, lasting]


def _relations() -> list[Requirement]:
    altitudes = ("perigee_km", "apogee_km")
    product = MINUTES_PER_DAY * PRODUCT_TOLERANCE
    near = f"within {KEPLER_TOLERANCE:g} of it"
    return [
        _between("orbit/perigee_apogee", "perigee_over_apogee", 0.0, 1.0, "perigee_km <= apogee_km", altitudes),
        _between(
            "orbit/period_mean_motion",
            "period_times_mean_motion",
            MINUTES_PER_DAY - product,
            MINUTES_PER_DAY + product,
            "period_min * mean_motion_rev_day = 1440",
            ("period_min", "mean_motion_rev_day"),
        ),
        _between(
            "orbit/semi_major_axis",
            "axis_over_altitudes",
            1.0 - AXIS_TOLERANCE,
            1.0 + AXIS_TOLERANCE,
            f"the Earth's radius plus the mean altitude, {near}",
            ("semi_major_axis_km", *altitudes),
        ),
        _between(
            "orbit/kepler",
            "axis_over_period",
            1.0 - AXIS_TOLERANCE,
            1.0 + AXIS_TOLERANCE,
            f"the semi-major axis that Kepler's third law gives for the period, {near}",
            ("semi_major_axis_km", "period_min"),
        ),
        _between(
            "orbit/eccentricity",
            "eccentricity_excess",
            -ECCENTRICITY_TOLERANCE,
            ECCENTRICITY_TOLERANCE,
            f"the eccentricity that the altitudes give, within {ECCENTRICITY_TOLERANCE:g}",
            ("eccentricity", *altitudes),
        ),
        Requirement(
            "regime/rule",
            "ExpectColumnPairValuesToBeEqual",
            {"column_A": "regime", "column_B": "regime_by_rule", "ignore_row_if": "either_value_is_missing"},
            "the regime that the rule gives for this orbit",
            _PREPARE,
            ("regime", "eccentricity", "mean_motion_rev_day", "semi_major_axis_km"),
        ),
    ]


def _leakage() -> list[Requirement]:
    return [
        _between(
            f"leakage/{name}", f"splits_of_{name}", 1.0, 1.0, f"each {name} in one split only", (name, "split"), _SPLIT
        )
        for name in ("norad_id", "launch")
    ]


def _between(
    name: str,
    column: str,
    minimum: float,
    maximum: float,
    expected: str,
    about: tuple[str, ...] = (),
    mend: str = _ROW,
) -> Requirement:
    bounds = {"column": column, "min_value": minimum, "max_value": maximum}
    return Requirement(name, "ExpectColumnValuesToBeBetween", bounds, expected, mend, about)


def _derived(values: pd.DataFrame, regime_rule: RegimeRule) -> dict[str, Any]:
    """What the relations compare, from values that are each in range; missing where one of them is not."""
    good = {name: values[name].where(values[name].between(r.minimum, r.maximum)) for name, r in RANGES.items()}
    # altitudes in the wrong order have a check of their own
    ordered = good["perigee_km"] <= good["apogee_km"]
    perigee, apogee = good["perigee_km"].where(ordered), good["apogee_km"].where(ordered)
    axis, period = good["semi_major_axis_km"], good["period_min"]
    split = values["split"].where(values["split"].isin(SPLITS))
    known = values["regime"].isin(REGIMES)
    return {
        "perigee_in_range": good["perigee_km"],
        "perigee_over_apogee": good["perigee_km"] / good["apogee_km"],
        "period_times_mean_motion": period * good["mean_motion_rev_day"],
        "axis_over_altitudes": axis / _each(semi_major_axis_from_altitudes, perigee, apogee).astype("float64"),
        "axis_over_period": axis / _each(semi_major_axis_from_period, period).astype("float64"),
        "eccentricity_excess": good["eccentricity"]
        - _each(eccentricity_from_altitudes, perigee, apogee).astype("float64"),
        "regime_by_rule": _each(regime_rule, good["eccentricity"], good["mean_motion_rev_day"], axis).where(known),
        "splits_of_norad_id": split.groupby(values["norad_id"]).transform("nunique").where(split.notna()),
        "splits_of_launch": split.groupby(values["launch"]).transform("nunique").where(split.notna()),
    }


def _each(function: Callable[..., Any], *columns: "pd.Series[float]") -> "pd.Series[Any]":
    """`function` of each row in which every argument is there; None elsewhere."""
    rows = zip(*columns, strict=True)
    return pd.Series(
        [None if any(pd.isna(value) for value in row) else function(*row) for row in rows],
        index=columns[0].index,
        dtype=object,
    )


def _locator(table: TextTable) -> Callable[[int, Requirement], Place]:
    position = {name: index for index, name in enumerate(table.header)}

    def locate(row: int, requirement: Requirement) -> Place:
        about = requirement.about or (requirement.arguments["column"],)
        line, cells = table.lines[row], table.rows[row]
        if len(about) == 1:
            return Place(f"line {line}, column {about[0]}", repr(cells[position[about[0]]]))
        return Place(f"line {line}", ", ".join(f"{name} {cells[position[name]]!r}" for name in about))

    return locate
