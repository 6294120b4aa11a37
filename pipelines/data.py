"""The commands `quintet data`: what the catalogue has, what of it is here, and getting it."""

import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from components.errors import DataError

MIRROR_VARIABLE = "QUINTET_DATA_MIRROR"


def mirror() -> Path | None:
    """The folder where bytes may be found before any address is asked; None when there is none."""
    given = os.environ.get(MIRROR_VARIABLE)
    return Path(given) if given else None


def print_catalogue(root: Path, console: Console) -> None:
    from components.datasets.core.catalogue import load_catalogue

    table = Table(title="data/catalogue.yaml", title_justify="left")
    for column in ("name", "title", "files", "size", "licence"):
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for entry in load_catalogue(root).entries.values():
        sizes = [file.bytes for file in entry.files]
        total = "changes daily" if any(size is None for size in sizes) else _size(sum(size or 0 for size in sizes))
        table.add_row(entry.name, entry.title, "\n".join(file.name for file in entry.files), total, entry.licence)
    console.print(table)


def fetch_entries(root: Path, names: Sequence[str], console: Console, refresh: bool = False) -> None:
    """Fetch the named entries, or all that the active configuration uses. Raises DataError."""
    from components.datasets.core.catalogue import load_catalogue
    from components.datasets.core.fetching import fetch

    catalogue = load_catalogue(root)
    for name in names or _configured(root):
        fetched = fetch(catalogue.entry(name), root, mirror(), refresh=refresh)
        console.print(f"{name}: {fetched.reason}", markup=False, soft_wrap=True)


def check_entries(root: Path, names: Sequence[str], console: Console) -> None:
    """Verify the named entries, or all that the active configuration uses. Raises DataError when one is not in order.

    All are looked at before the first fault is raised.
    """
    from components.datasets.core.catalogue import load_catalogue
    from components.datasets.core.fetching import check

    catalogue = load_catalogue(root)
    faults: list[DataError] = []
    for name in names or _configured(root):
        try:
            checked = check(catalogue.entry(name), root, mirror())
            console.print(f"{name}: {checked.reason}", markup=False, soft_wrap=True)
        except DataError as error:
            console.print(f"{name}: {error}", style="bold red", markup=False, soft_wrap=True)
            faults.append(error)
    if faults:
        raise (
            faults[0]
            if len(faults) == 1
            else DataError(f"{len(faults)} data sets are not in order; the first: {faults[0]}")
        )


def _configured(root: Path) -> list[str]:
    from components.config import load_config

    return sorted({dataset.entry for dataset in load_config(root / "params.yaml").datasets.values()})


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
