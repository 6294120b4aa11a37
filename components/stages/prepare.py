"""prepare: from a catalogue entry to the table that everything downstream reads."""

import os
from pathlib import Path

from components.config import Name, SplitConfig, Strict
from components.files import write_json
from components.stages.execution import Context


class PrepareConfig(Strict):
    """The part of a dataset's configuration that preparing depends on."""

    entry: Name
    max_rows: int | None
    split: SplitConfig


def run(context: Context) -> None:
    from components.datasets.core.catalogue import load_catalogue
    from components.datasets.orbital.prepare import PrepareOptions, prepare_orbital
    from components.datasets.orbital.table import QUANTITIES, write_table

    config = context.section(PrepareConfig, f"datasets.{context.name}")
    entry = load_catalogue(context.root).entry(config.entry)
    options = PrepareOptions(
        seed=config.split.seed,
        max_rows=config.max_rows,
        validation_fraction=config.split.validation,
        test_fraction=config.split.test,
    )
    # says only where bytes may be found, never which data is used: the catalogue's digests decide that
    mirror = os.environ.get("QUINTET_DATA_MIRROR")
    table, summary = prepare_orbital(entry, context.root, options, Path(mirror) if mirror else None)
    write_table(table, context.folder / "table.csv")
    write_json(context.folder / "summary.json", summary)
    columns = {
        name: {"unit": quantity.unit, "minimum": quantity.minimum, "maximum": quantity.maximum}
        for name, quantity in QUANTITIES.items()
    }
    write_json(context.folder / "columns.json", columns)
    print(f"{len(table)} rows of {entry.title}", flush=True)
