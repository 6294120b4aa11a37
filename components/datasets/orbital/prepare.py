"""From a catalogue entry to the prepared table of orbits and its summary."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from components.datasets.core.catalogue import Entry
from components.datasets.core.fetching import fetch
from components.datasets.core.splitting import split_groups
from components.datasets.orbital.kinds import KINDS
from components.datasets.orbital.regimes import REGIMES
from components.datasets.orbital.table import COLUMNS, SPLITS
from components.datasets.readers import reader_named
from components.errors import DataError
from components.files import sha256_bytes, sha256_file


@dataclass(frozen=True)
class PrepareOptions:
    """How much of an entry is taken and how it is split. `max_rows` None takes all of it."""

    seed: int
    max_rows: int | None = None
    validation_fraction: float = 0.2
    test_fraction: float = 0.2


def prepare_orbital(
    entry: Entry, root: Path, options: PrepareOptions, mirror: Path | None = None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The prepared table (n, 13) of `entry` and its summary, JSON types only.

    Raises DataError where the files are absent, changed or not in their form.
    """
    fetched = fetch(entry, root, mirror)
    table = reader_named(entry.reader)(fetched.paths, entry.exclusions)
    whole = len(table)
    if whole == 0:
        raise DataError(f"{entry.name} has no rows after exclusions; mend its entry in data/catalogue.yaml")
    if options.max_rows is not None:
        table = smallest_by_hash(table, options.max_rows)
    table = split_table(table, options.seed, options.validation_fraction, options.test_fraction)
    summary = {
        "entry": entry.name,
        "title": entry.title,
        "licence": entry.licence,
        "citation": entry.citation,
        "subset_of": entry.subset_of,
        "stand_in_for": entry.stand_in_for,
        "files": {path.name: {"sha256": sha256_file(path), "bytes": path.stat().st_size} for path in fetched.paths},
        "excluded": {str(number): reason for number, reason in entry.exclusions.items()},
        "rows": len(table),
        "rows_of_entry": whole,
        "max_rows": options.max_rows,
        "seed": options.seed,
        "validation_fraction": options.validation_fraction,
        "test_fraction": options.test_fraction,
        "launches": int(table["launch"].nunique()),
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
