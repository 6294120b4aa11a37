"""The readers by name. A reader takes the files of a catalogue entry and yields its data, or says which place is wrong.

    reader(paths: Sequence[Path], entry: Entry) -> data

The paths come in the order of the entry's files. From the entry a reader takes what it must know besides: which split a
file is (`files[i].split`), how columns are called (`options`), which rows the publisher's file is known to hold in
unusable form (`exclusions`, identifier to reason); it is strict about all else. Another reader is a line here.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from components.datasets.core.catalogue import Entry

Reader = Callable[[Sequence[Path], "Entry"], Any]

# Named, not imported: the catalogue is listed without loading what only a reader needs.
READERS: dict[str, str] = {
    "orbital-facts": "components.datasets.orbital.satcat:read_facts",
    "orbital-previsat-csv": "components.datasets.orbital.previsat:read_csv",
    "orbital-previsat-text": "components.datasets.orbital.previsat:read_text",
    "orbital-tle": "components.datasets.orbital.tle_table:read_catalogue",
    "images-idx": "components.datasets.images.idx:read_idx",
    "images-cifar-binary": "components.datasets.images.cifar:read_cifar_binary",
    "images-parquet": "components.datasets.images.parquet_images:read_parquet_images",
    "images-folder": "components.datasets.images.folder:read_folder",
    "text-parquet": "components.datasets.text.parquet_text:read_parquet_text",
    "text-csv": "components.datasets.text.csv_text:read_csv_text",
    "text-lines": "components.datasets.text.lines:read_lines",
    "imdb-archive": "components.datasets.text.imdb:read_imdb",
    "glue-archive": "components.datasets.text.glue:read_glue",
    "mrpc-tables": "components.datasets.text.mrpc:read_mrpc",
    "newsgroups-archive": "components.datasets.text.newsgroups:read_archive",
    "newsgroups-parquet": "components.datasets.text.newsgroups:read_parquet",
    "wikitext-tokens": "components.datasets.language.wikitext:read_tokens",
    "wikitext-archive": "components.datasets.language.wikitext:read_archive",
    "language-text": "components.datasets.language.plain:read_text",
    "language-csv": "components.datasets.language.plain:read_csv",
    "listops-generator": "components.datasets.longrange.listops:read",
    "pathfinder-generator": "components.datasets.longrange.pathfinder:read",
    "aan-pairs": "components.datasets.longrange.aan:read_pairs",
    "encoder-files": "components.datasets.features.encoder_files:read_files",
}


def reader_named(name: str) -> Reader:
    """The reader called `name`, which the catalogue has checked to exist."""
    module, function = READERS[name].split(":")
    reader: Reader = getattr(import_module(module), function)
    return reader
