"""Long sequences as a kind of data: tokens.npy end to end with offsets.npy, labels.npy, splits.npy, vocabulary.json.

Pairs have second_tokens.npy and second_offsets.npy too, Pathfinder its true geometry in dashes.npy and dots.npy.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.datasets.images import kind as images
from components.datasets.longrange.config import GateOptions, PrepareOptions, Task
from components.datasets.text import kind as text
from components.errors import ConfigError

if TYPE_CHECKING:
    from components.datasets.core.catalogue import Entry
    from components.progress import Tell

# Which readers' entries a task is made from, and the function that makes it of what the reader yields.
TASKS: dict[Task, tuple[tuple[str, ...], str]] = {
    "listops": (("listops-generator",), "components.datasets.longrange.generating:of_generator"),
    "pathfinder": (("pathfinder-generator",), "components.datasets.longrange.generating:of_generator"),
    "bytes": (text.READERS, "components.datasets.longrange.encoded:bytes_of_texts"),
    "pixels": (images.READERS, "components.datasets.longrange.encoded:pixels_of_images"),
    "retrieval": (("aan-pairs", *text.READERS), "components.datasets.longrange.retrieval:pairs_of_texts"),
}
READERS = tuple(dict.fromkeys(reader for readers, _ in TASKS.values() for reader in readers))

__all__ = ["READERS", "GateOptions", "PrepareOptions", "prepare"]


def prepare(
    entry: "Entry", paths: Sequence[Path], options: PrepareOptions, folder: Path, tell: "Tell"
) -> dict[str, Any]:
    """Write the sequences of `options.task` into `folder`, row by row; only their identities are held in memory, and of
    reply pairs the messages. Raises ConfigError where the task cannot be made of this entry.
    """
    from components.datasets.longrange.writing import write_sequences
    from components.datasets.readers import reader_named

    readers, maker = TASKS[options.task]
    if entry.reader not in readers:
        raise ConfigError(
            f"task {options.task} cannot be made of {entry.name}, which {entry.reader!r} reads; it takes entries of "
            f"the readers {', '.join(readers)}"
        )
    module, function = maker.split(":")
    source = reader_named(entry.reader)(paths, entry)
    sequences = getattr(import_module(module), function)(source, entry, options, tell)
    return {"task": options.task, **write_sequences(folder, sequences, tell)}
