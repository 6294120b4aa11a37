"""Entries and rows of long sequences, for the tests of this folder."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.arrays import open_array
from components.datasets.core.catalogue import Entry
from components.datasets.longrange.config import PrepareOptions
from components.datasets.longrange.source import SequenceRow, Sequences
from components.datasets.text.source import TextRow, TextSource

_TEXTS = dict.fromkeys(("title", "description", "licence", "citation"), "for tests")


def generated_entry(reader: str, **changes: Any) -> Entry:
    return Entry.model_validate({"name": "made", "reader": reader, "generated": True} | _TEXTS | changes)


def file_entry(reader: str, names: Sequence[str], **changes: Any) -> Entry:
    """An entry of files whose digests no reader looks at."""
    files = [{"name": name, "sha256": "0" * 64, "bytes": 1, "sources": [{"mirror": name}]} for name in names]
    return Entry.model_validate({"name": "had", "reader": reader, "files": files} | _TEXTS | changes)


def rows_options(task: str, rows: tuple[int, int, int], seed: int = 7, **changes: Any) -> PrepareOptions:
    limits = dict(zip(("train", "validation", "test"), rows, strict=True))
    return PrepareOptions.model_validate({"task": task, "seed": seed, "rows": limits} | changes)


def silent(done: int, total: int | None) -> None:
    """Progress that nobody watches."""


def in_memory(sequences: Sequences) -> list[SequenceRow]:
    rows = list(sequences.rows())
    assert len(rows) == sequences.total
    return rows


def text_source(
    rows: Sequence[TextRow], pairs: bool = False, classes: tuple[str, ...] | None = ("no", "yes")
) -> TextSource:
    """A source whose rows are all of the split train."""
    return TextSource(classes, pairs, {"train": lambda: iter(rows)})


def ragged(folder: Path, prefix: str = "") -> list[NDArray[Any]]:
    """The rows of a prepared folder, read in the plainest way."""
    tokens, offsets = open_array(folder / f"{prefix}tokens.npy"), open_array(folder / f"{prefix}offsets.npy").tolist()
    return [np.asarray(tokens[begin:end]) for begin, end in pairwise(offsets)]
