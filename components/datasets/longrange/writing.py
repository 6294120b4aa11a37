"""Sequences to files: tokens end to end with their offsets, labels, splits, vocabulary, and what the gate needs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.arrays import SPLITS, append_rows, create_array, save_array
from components.datasets.longrange.source import PADDING, SequenceRow, Sequences
from components.files import write_json
from components.progress import Tell

ROWS_BETWEEN_TELLING = 1024


def write_sequences(folder: Path, sequences: Sequences, tell: Tell) -> dict[str, Any]:
    """Write the files of `sequences` into `folder`, row by row; the answer is the data's part of summary.json."""
    labels = np.empty(sequences.total, dtype=np.int64)
    splits = np.empty(sequences.total, dtype=np.uint8)
    truth = {
        name: create_array(folder / f"{name}.npy", (sequences.total, *shape), kind)
        for name, (kind, shape) in sequences.truth.items()
    }
    steps = sequences.total * (2 if sequences.pairs else 1)

    def first() -> Iterator[NDArray[Any]]:
        done = 0
        for row in sequences.rows():
            labels[done], splits[done] = row.label, row.split
            for name, array in truth.items():
                array[done] = row.truth[name]
            done += 1
            _tell_now_and_then(tell, done, steps)
            yield row.tokens
        if done != sequences.total:
            raise RuntimeError(f"{sequences.total} rows were promised and {done} came")

    def second() -> Iterator[NDArray[Any]]:
        for done, row in enumerate(sequences.rows(), 1):
            _tell_now_and_then(tell, sequences.total + done, steps)
            yield _second_of(row)

    tokens = append_rows(folder / "tokens.npy", folder / "offsets.npy", first(), sequences.dtype)
    if sequences.pairs:
        tokens += append_rows(folder / "second_tokens.npy", folder / "second_offsets.npy", second(), sequences.dtype)
    for array in truth.values():
        array.flush()  # type: ignore[attr-defined]
    save_array(folder / "labels.npy", labels)
    save_array(folder / "splits.npy", splits)
    write_json(
        folder / "vocabulary.json",
        {str(PADDING): "padding"} | {str(token): meaning for token, meaning in sequences.vocabulary.items()},
    )
    counts = {
        split: {name: int(((splits == code) & (labels == label)).sum()) for label, name in enumerate(sequences.classes)}
        for code, split in enumerate(SPLITS)
    }
    return {
        **sequences.facts,
        "rows": sequences.total,
        "splits": {split: int((splits == code).sum()) for code, split in enumerate(SPLITS)},
        "classes": list(sequences.classes),
        "counts": counts,
        "pairs": sequences.pairs,
        "tokens": tokens,
        "vocabulary": max(sequences.vocabulary) + 1,
    }


def _second_of(row: SequenceRow) -> NDArray[Any]:
    if row.second is None:
        raise RuntimeError("a row of a set of pairs has one sequence")
    return row.second


def _tell_now_and_then(tell: Tell, done: int, total: int) -> None:
    if done % ROWS_BETWEEN_TELLING == 0 or done == total:
        tell(done, total)
