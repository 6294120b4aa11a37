"""The data gate of the prepared orbital table: read it strictly, check it, and say which line is wrong and why."""

import difflib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from components.datasets.orbital.config import GateOptions
from components.datasets.orbital.regimes import regime_of
from components.datasets.orbital.table import QUANTITIES, read_table
from components.quality.core.drift import Drift
from components.quality.core.expectations import Suite, drop_docs, run_suites
from components.quality.core.profile import Observations
from components.quality.core.report import Check, GateReport
from components.quality.orbital.classes import Shares, classes_suite
from components.quality.orbital.columns import COLUMNS
from components.quality.orbital.suites import (
    RegimeRule,
    cells_suite,
    structure_suite,
    text_frame,
    value_frame,
    values_suite,
)
from components.quality.orbital.text_table import read_text_table


def gate(folder: Path, options: GateOptions, *, subject: str, docs_folder: Path | None, drift: Drift) -> GateReport:
    """Judge `table.csv` in a prepared folder, see `components.quality.registry.DataGate`."""
    return gate_orbital(
        folder / "table.csv", options, subject=f"{subject}/table.csv", docs_folder=docs_folder, drift=drift
    )


def observations(folder: Path) -> Observations:
    """The seven quantities of each orbit, its kind and its regime. Raises DataError for a table that cannot be read."""
    return _observations(read_table(folder / "table.csv"))


def _observations(values: pd.DataFrame) -> Observations:
    numbers = {name: values[name].dropna().to_numpy(dtype=np.float64) for name in QUANTITIES}
    return {name: column[np.isfinite(column)] for name, column in numbers.items()} | {
        name: values[name].dropna().tolist() for name in ("kind", "regime")
    }


def gate_orbital(
    path: Path,
    options: GateOptions,
    *,
    subject: str | None = None,
    docs_folder: Path | None = None,
    regime_rule: RegimeRule = regime_of,
    reference_shares: Shares | None = None,
    drift: Drift | None = None,
) -> GateReport:
    """Report on the table in `path`; an unreadable, empty or misshapen file is refused like any other fault.

    `subject` names the file in the report (default: its last four path components, which name no machine).
    `docs_folder` gets the results as HTML; the pages of an earlier run go when the file cannot be read as a table.
    `regime_rule(eccentricity, mean_motion_rev_day, semi_major_axis_km)` is what column `regime` must agree with.
    `reference_shares` maps `kind` or `regime` to the share that each class should have in the table.
    `drift` compares the table with the last accepted version of it.
    """
    name = subject or "/".join(part for part in path.parts[-4:] if part != path.anchor)
    table, checks = read_text_table(path)
    if table is None:
        if docs_folder is not None:
            drop_docs(docs_folder)
        return GateReport("data", name, tuple(checks))
    structure = structure_suite(table, options)
    if table.header != COLUMNS:
        found = [_explained(check, table.header) for check in run_suites(name, (structure,), docs_folder)]
        return GateReport("data", name, (*checks, *found))
    text = text_frame(table)
    values = value_frame(text)
    content: tuple[Suite, ...] = (
        structure,
        cells_suite(text, table),
        values_suite(values, table, regime_rule),
        classes_suite(values, options, reference_shares),
    )
    if drift is not None:
        content = (*content, drift.suite(_observations(values)))
    return GateReport("data", name, (*checks, *run_suites(name, content, docs_folder)))


def _explained(check: Check, header: tuple[str, ...]) -> Check:
    if check.name != "table/columns" or check.passed:
        return check
    return replace(check, observed=_difference(header), detail="line 1")


def _difference(header: tuple[str, ...]) -> str:
    """What is wrong with the header, in one clause: twice, renamed, missing, too many, or out of order."""
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        return f"column {twice[0]!r} {header.count(twice[0])} times"
    missing = [name for name in COLUMNS if name not in header]
    extra = [name for name in header if name not in COLUMNS]
    clauses = []
    for name in missing:
        close = difflib.get_close_matches(name, extra, n=1, cutoff=0.5)
        if close:
            extra.remove(close[0])
        clauses.append(f"{close[0]!r} in place of column {name!r}" if close else f"no column {name!r}")
    clauses += [f"an unknown column {name!r}" for name in extra]
    if clauses:
        return ", ".join(clauses)
    first = next(i for i, (came, due) in enumerate(zip(header, COLUMNS, strict=True)) if came != due)
    return f"column {header[first]!r} at position {first + 1}, where {COLUMNS[first]!r} is due"
