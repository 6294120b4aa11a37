"""The kinds of data. A new one is a folder in this package, one in `components.quality`, and a line here.

A kind's module offers what `Kind` says; importing it is cheap, its functions import what they need.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from components.config import Config, DatasetConfig, Strict, validated
from components.datasets.readers import READERS
from components.errors import ConfigError

if TYPE_CHECKING:
    from components.datasets.core.catalogue import Catalogue, Entry
    from components.progress import Tell


class Kind(Protocol):
    """What the module `kind` of a folder offers."""

    # names of the readers whose entries this kind prepares
    READERS: tuple[str, ...]
    PrepareOptions: type[Strict]
    GateOptions: type[Strict]

    def prepare(
        self, entry: "Entry", paths: Sequence[Path], options: Any, folder: Path, tell: "Tell"
    ) -> dict[str, Any]:
        """Write the prepared files of `entry` into the empty `folder`; the answer is its part of summary.json.

        `tell(done, total)` is called as it goes on. The answer has JSON types only, and at least `rows` and
        `rows_of_entry` (numbers), `splits` (rows of each), `classes` (or null) and `counts` (rows of each class in each
        split, or null). Raises DataError for files that are not in their form.
        """


ENCODER_READER = "encoder-files"
KINDS = {
    "orbital": "components.datasets.orbital.kind",
    "images": "components.datasets.images.kind",
    "text": "components.datasets.text.kind",
    "language": "components.datasets.language.kind",
    "longrange": "components.datasets.longrange.kind",
}


def kind_named(name: str) -> Kind:
    if name not in KINDS:
        raise ConfigError(f"there is no kind of data {name!r}; the kinds are: {', '.join(sorted(KINDS))}")
    loaded: Kind = importlib.import_module(KINDS[name])
    return loaded


def check_datasets(config: Config, catalogue: "Catalogue") -> None:
    """Refuse a configuration whose data sets do not exist or do not fit their kind, before any stage starts."""
    from components.datasets.features.config import FeaturesConfig

    for name, dataset in config.datasets.items():
        kind = kind_named(dataset.kind)
        require_reader(name, dataset, catalogue.entry(dataset.entry))
        validated(kind.PrepareOptions, dataset.prepare, f"datasets.{name}.prepare")
        validated(kind.GateOptions, dataset.gate, f"datasets.{name}.gate")
    for name, section in config.features.items():
        features = validated(FeaturesConfig, section, f"features.{name}")
        of_kind = config.dataset(features.dataset).kind
        if of_kind != "text":
            raise ConfigError(
                f"features.{name}: dataset {features.dataset!r} is of kind {of_kind!r}, allowed is 'text'"
            )
        encoder = features.compute.encoder.entry
        if encoder is not None and catalogue.entry(encoder).reader != ENCODER_READER:
            raise ConfigError(
                f"features.{name}: entry {encoder!r} is read by {catalogue.entry(encoder).reader!r}, allowed is an "
                f"encoder (reader {ENCODER_READER!r}), such as minilm-l6"
            )


def require_reader(name: str, dataset: DatasetConfig, entry: "Entry") -> None:
    """Raise ConfigError unless the kind can prepare what the entry's reader yields, and `source` is where that lies."""
    folder = READERS[entry.reader].split(".")[2]
    if dataset.source != folder:
        raise ConfigError(
            f"datasets.{name}: source is {dataset.source!r}, but the reader of entry {entry.name!r} lies in "
            f"components/datasets/{folder}; write `source: {folder}`"
        )
    readers = kind_named(dataset.kind).READERS
    if entry.reader not in readers:
        raise ConfigError(
            f"datasets.{name}: entry {entry.name!r} is read by {entry.reader!r}, but kind {dataset.kind!r} takes the "
            f"readers {', '.join(readers)}; choose another kind or entry"
        )
