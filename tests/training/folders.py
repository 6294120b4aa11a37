"""Small prepared folders of each kind, with content by which every row is recognised."""

from pathlib import Path

import numpy as np

from components.arrays import append_rows, save_array
from components.files import write_json

LENGTHS = (1, 2, 63, 500, 7)
CLASSES = ("even", "odd")


def splits(folder: Path, rows: int) -> np.ndarray:
    """Six rows of ten to train, two each to validate and to test, mixed."""
    codes = np.asarray([(0, 0, 1, 0, 2, 0, 0, 1, 0, 2)[i % 10] for i in range(rows)], dtype=np.uint8)
    save_array(folder / "splits.npy", codes)
    write_json(folder / "summary.json", {"classes": list(CLASSES)})
    save_array(folder / "labels.npy", np.arange(rows, dtype=np.int64))
    return codes


def images(folder: Path, rows: int = 50) -> np.ndarray:
    """Every pixel of image i is i."""
    codes = splits(folder, rows)
    pixels = np.broadcast_to(np.arange(rows, dtype=np.uint8)[:, None, None, None], (rows, 4, 3, 2))
    save_array(folder / "images.npy", pixels)
    return codes


def sequences(folder: Path, rows: int = 50, second: bool = False) -> np.ndarray:
    """Row i has a length of LENGTHS and holds i + 1 throughout; its second sequence is one token of 1000 + i."""
    codes = splits(folder, rows)
    first = (np.full(LENGTHS[i % len(LENGTHS)], i + 1) for i in range(rows))
    append_rows(folder / "tokens.npy", folder / "offsets.npy", first, np.uint16)
    if second:
        others = (np.full(1, 1000 + i) for i in range(rows))
        append_rows(folder / "second_tokens.npy", folder / "second_offsets.npy", others, np.uint16)
    return codes


def features(folder: Path, rows: int = 50, width: int = 3) -> np.ndarray:
    """Token t of row i is the vector (i, t, 0.5) in half precision."""
    codes = splits(folder, rows)
    rows_of = (
        np.stack([np.full(length, i), np.arange(length), np.full(length, 0.5)], axis=1)
        for i, length in ((i, LENGTHS[i % len(LENGTHS)]) for i in range(rows))
    )
    append_rows(folder / "features.npy", folder / "offsets.npy", rows_of, np.float16, width)
    return codes


def streams(folder: Path, tokens: int = 101) -> None:
    for start, split in ((0, "train"), (1000, "validation"), (2000, "test")):
        save_array(folder / f"{split}.npy", np.arange(start, start + tokens, dtype=np.uint16))
