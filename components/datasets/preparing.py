"""From the files of a catalogue entry to a prepared folder and its summary, whatever the kind of data."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from components.config import DatasetConfig, validated
from components.datasets.core.catalogue import Entry
from components.datasets.registry import kind_named, require_reader
from components.errors import DataError
from components.files import sha256_file
from components.progress import Tell


def prepare_dataset(
    name: str, config: DatasetConfig, entry: Entry, paths: Sequence[Path], folder: Path, tell: Tell
) -> dict[str, Any]:
    """Write the prepared files into the empty `folder`; the answer is what belongs into summary.json.

    Raises ConfigError where the configuration does not fit the kind, DataError where the files are not in their form or
    nothing is left of them.
    """
    kind = kind_named(config.kind)
    require_reader(name, config, entry)
    options = validated(kind.PrepareOptions, config.prepare, f"datasets.{name}.prepare")
    told = kind.prepare(entry, paths, options, folder, tell)
    if told["rows"] < 1:
        raise DataError(
            f"{name}: no row is left of {entry.name}; change datasets.{name}.prepare, or look at its source"
        )
    return {
        "entry": entry.name,
        "kind": config.kind,
        "title": entry.title,
        "licence": entry.licence,
        "citation": entry.citation,
        "subset_of": entry.subset_of,
        "stand_in_for": entry.stand_in_for,
        "files": {path.name: {"sha256": sha256_file(path), "bytes": path.stat().st_size} for path in paths},
        "prepare": options.model_dump(mode="json"),
        **told,
    }
