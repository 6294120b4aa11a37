"""The suite on classes: each one present, often enough, and with a similar share in every split.

It looks at a summary of a few dozen rows, one for each class and split, instead of the table itself.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from components.datasets.orbital.config import GateOptions
from components.datasets.orbital.kinds import KINDS
from components.datasets.orbital.regimes import REGIMES
from components.datasets.orbital.table import SPLITS
from components.quality.core.expectations import Place, Requirement, Suite

Shares = Mapping[str, Mapping[str, float]]

CLASSES: Mapping[str, Sequence[str]] = {"kind": KINDS, "regime": REGIMES}
# The row that speaks of all splits together.
WHOLE_TABLE = "all"

_MISSING = float("nan")
_SPLIT = "change the split's seed or fractions in conf/dataset/, or read more rows (max_rows)"


def classes_suite(values: pd.DataFrame, options: GateOptions, reference: Shares | None) -> Suite:
    """`values` has columns kind, regime and split; `reference` maps kind or regime to the share of each class."""
    required = {"kind": options.required_kinds, "regime": options.required_regimes}
    frame = pd.DataFrame(
        [row for column, classes in required.items() for row in _rows(values, column, classes, reference)]
    )
    drift = options.max_share_drift
    requirements = [
        _between(
            "classes/min_rows",
            ("rows_in_table",),
            float(options.min_rows_per_class),
            None,
            f"at least {options.min_rows_per_class} rows of each required class (min_rows_per_class)",
            "give more data, or change gate.min_rows_per_class or the required classes in conf/dataset/",
        ),
        _between(
            "classes/in_every_split",
            ("rows_in_split",),
            1.0,
            None,
            "at least 1 row of each class in each split",
            _SPLIT,
        ),
        _between(
            "classes/drift",
            ("drift", "share"),
            -drift,
            drift,
            f"a share within {drift:g} of the class's share in the whole table (max_share_drift)",
            _SPLIT,
        ),
    ]
    if reference is not None:
        requirements.append(
            _between(
                "classes/reference_drift",
                ("reference_drift", "share"),
                -drift,
                drift,
                f"a share within {drift:g} of the reference share (max_share_drift)",
                "the population has changed: look at the source, then set the reference shares anew",
            )
        )
    return Suite("classes", frame, tuple(requirements), _locator(frame))


def _between(
    name: str, about: tuple[str, ...], minimum: float, maximum: float | None, expected: str, mend: str
) -> Requirement:
    bounds = {"column": about[0], "min_value": minimum, "max_value": maximum}
    return Requirement(name, "ExpectColumnValuesToBeBetween", bounds, expected, mend, about)


def _rows(values: pd.DataFrame, column: str, required: Sequence[str], reference: Shares | None) -> list[dict[str, Any]]:
    """One row for the whole table and one for each split, per class; NaN where a number does not apply."""
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys((*required, *CLASSES[column])):
        of_class = values[column] == name
        share = float(of_class.mean())
        entry = {"column": column, "class": name, "rows_in_split": _MISSING, "drift": _MISSING}
        rows.append(
            {
                **entry,
                "split": WHOLE_TABLE,
                "share": share,
                "rows_in_table": float(of_class.sum()) if name in required else _MISSING,
                "reference_drift": share - (reference or {}).get(column, {}).get(name, _MISSING),
            }
        )
        rows += [
            {**entry, "split": split, **_split_entry(of_class[values["split"] == split], share, name in required)}
            for split in SPLITS
        ]
    return rows


def _split_entry(of_class: pd.Series, share_in_table: float, required: bool) -> dict[str, float]:
    share = float(of_class.mean()) if len(of_class) else _MISSING
    return {
        "share": share,
        "drift": share - share_in_table,
        "rows_in_split": float(of_class.sum()) if required else _MISSING,
        "rows_in_table": _MISSING,
        "reference_drift": _MISSING,
    }


def _locator(frame: pd.DataFrame) -> Callable[[int, Requirement], Place]:
    def locate(row: int, requirement: Requirement) -> Place:
        entry = frame.iloc[row]
        where = f"column {entry['column']}, class {entry['class']}, split {entry['split']}"
        return Place(where, ", ".join(f"{name} {entry[name]:.4g}" for name in requirement.about))

    return locate
