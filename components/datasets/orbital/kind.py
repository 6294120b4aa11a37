"""Orbital catalogues as a kind of data: one table of orbits, split by launch."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.datasets.orbital.config import GateOptions, PrepareOptions
from components.files import write_json

if TYPE_CHECKING:
    from components.datasets.core.catalogue import Entry
    from components.progress import Tell

READERS = ("orbital-facts", "orbital-previsat-csv", "orbital-previsat-text", "orbital-tle")

__all__ = ["READERS", "GateOptions", "PrepareOptions", "prepare"]


def prepare(
    entry: "Entry",
    paths: Sequence[Path],
    options: PrepareOptions,
    folder: Path,
    tell: "Tell",
) -> dict[str, Any]:
    """Write table.csv (n rows, 13 columns) and columns.json (unit and range of each quantity) into `folder`."""
    from components.datasets.orbital.prepare import prepared_table
    from components.datasets.orbital.table import QUANTITIES, write_table

    table, summary = prepared_table(entry, paths, options)
    write_table(table, folder / "table.csv")
    columns = {
        name: {"unit": quantity.unit, "minimum": quantity.minimum, "maximum": quantity.maximum}
        for name, quantity in QUANTITIES.items()
    }
    write_json(folder / "columns.json", columns)
    tell(len(table), len(table))
    return summary
