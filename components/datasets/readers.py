"""The readers by name. A reader takes the files of a catalogue entry and yields its data, or says which place is wrong.

    reader(paths: Sequence[Path], exclusions: Mapping[int, str]) -> data

`exclusions` names rows that the publisher's file is known to hold in unusable form (identifier to reason); the reader
leaves those out and is strict about all others. Another data set adds its module and one line here.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

Reader = Callable[[Sequence[Path], Mapping[int, str]], Any]

# Named, not imported: the catalogue is listed without loading what only a reader needs.
READERS: dict[str, str] = {
    "orbital-facts": "components.datasets.orbital.satcat:read_facts",
    "orbital-previsat-csv": "components.datasets.orbital.previsat:read_csv",
    "orbital-previsat-text": "components.datasets.orbital.previsat:read_text",
    "orbital-tle": "components.datasets.orbital.tle_table:read_catalogue",
}


def reader_named(name: str) -> Reader:
    """The reader called `name`, which the catalogue has checked to exist."""
    module, function = READERS[name].split(":")
    reader: Reader = getattr(import_module(module), function)
    return reader
