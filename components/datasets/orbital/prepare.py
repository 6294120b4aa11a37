"""From a catalogue entry to the prepared table of orbits and its summary."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from components.datasets.core.catalogue import Entry
from components.datasets.core.splitting import split_groups
from components.datasets.orbital.config import PrepareOptions
from components.datasets.orbital.kinds import KINDS
from components.datasets.orbital.regimes import REGIMES
from components.datasets.orbital.table import COLUMNS, SPLITS
from components.datasets.readers import reader_named
from components.errors import DataError
from components.files import sha256_bytes


def prepared_table(entry: Entry, paths: Sequence[Path], options: PrepareOptions) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The prepared table (n, 13) of `entry` from its files and its part of the summary, JSON types only.

    Raises DataError where the files are not in their form.
    """
    table = reader_named(entry.reader)(paths, entry)
    whole = len(table)
    if whole == 0:
        raise DataError(f"{entry.name} has no rows after exclusions; mend its entry in data/catalogue.yaml")
    if options.max_rows is not None:
        table = smallest_by_hash(table, options.max_rows)
    table = split_table(table, options.seed, options.validation, options.test)
    summary = {
        "excluded": {str(number): reason for number, reason in entry.exclusions.items()},
        "rows": len(table),
        "rows_of_entry": whole,
        "launches": int(table["launch"].nunique()),
        "splits": _counts(table["split"].tolist(), SPLITS),
        "classes": list(KINDS),
        "counts": {name: _counts(table[name].tolist(), words) for name, words in _CLASSES.items()},
        "counts_by_split": {
            split: {
                name: _counts(table.loc[table["split"] == split, name].tolist(), words)
                for name, words in _CLASSES.items()
                if name != "split"
            }
            for split in SPLITS
        },
    }
    return table, summary


_CLASSES: Mapping[str, tuple[str, ...]] = {"kind": KINDS, "regime": REGIMES, "split": SPLITS}


def _counts(values: list[str], words: tuple[str, ...]) -> dict[str, int]:
    counted = Counter(values)
    return {word: counted[word] for word in words}


def smallest_by_hash(table: pd.DataFrame, rows: int) -> pd.DataFrame:
    """The `rows` objects whose identifier has the smallest sha256: a representative choice that owes nothing to order.

    A smaller choice is part of a larger one.
    """
    if rows >= len(table):
        return table
    order = sorted(table.index, key=lambda index: sha256_bytes(str(table.at[index, "norad_id"]).encode()))
    return table.loc[sorted(order[:rows])].reset_index(drop=True)


def split_table(
    table: pd.DataFrame, seed: int, validation_fraction: float = 0.2, test_fraction: float = 0.2
) -> pd.DataFrame:
    """`table` with the column split: no launch and so no object in two splits, regime by kind shares kept."""
    strata = [f"{regime} {kind}" for regime, kind in zip(table["regime"], table["kind"], strict=True)]
    parts = split_groups(
        strata, table["regime"].tolist(), table["launch"].tolist(), seed, validation_fraction, test_fraction
    )
    return table.assign(split=parts.tolist())[list(COLUMNS)]
