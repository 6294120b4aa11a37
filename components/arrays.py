"""Arrays on disk: plain .npy files, written and read through memory maps, never pickled.

A set of rows of different lengths is two files: all rows end to end, and the offsets at which they begin.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from components.errors import DataError

# The codes of `splits.npy`.
SPLITS = ("train", "validation", "test")


def create_array(path: Path, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """A new file of zeros of that shape and type, as a writable memory map; what is assigned goes to the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    created: NDArray[Any] = np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=shape)
    return created


def save_array(path: Path, values: NDArray[Any]) -> None:
    """Write `values` whole, in C order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.ascontiguousarray(values), allow_pickle=False)


def open_array(path: Path) -> NDArray[Any]:
    """The array in `path`, mapped and read-only. Raises DataError where there is none."""
    try:
        opened: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DataError(f"{path.name} is not in {path.parent}; prepare the data set again") from None
    except (ValueError, OSError, EOFError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path} is no array ({reason}); delete it and prepare the data set again") from None
    return opened


def append_rows(path: Path, offsets_path: Path, rows: Iterable[NDArray[Any]], dtype: DTypeLike, width: int = 0) -> int:
    """Write rows of different lengths end to end, and the offsets (n + 1,) int64 at which they begin and end.

    A row is (length,), or (length, width) where `width` is given. Rows are written as they come; only the offsets are
    held in memory. Returns the total length.
    """
    offsets = [0]

    def counted() -> Iterable[NDArray[Any]]:
        for row in rows:
            offsets.append(offsets[-1] + len(row))
            yield row

    append_values(path, counted(), dtype, width)
    save_array(offsets_path, np.asarray(offsets, dtype=np.int64))
    return offsets[-1]


def append_values(path: Path, pieces: Iterable[NDArray[Any]], dtype: DTypeLike, width: int = 0) -> int:
    """Write pieces end to end into one array, (total,) or (total, width). Returns the total length."""
    kind = np.dtype(dtype)
    total = 0
    raw = path.with_name(f".{path.name}.raw")
    try:
        with raw.open("wb") as file:
            for piece in pieces:
                file.write(np.ascontiguousarray(piece, dtype=kind).tobytes())
                total += len(piece)
        shape = (total, width) if width else (total,)
        created = create_array(path, shape, kind)
        if total:
            source = np.memmap(raw, dtype=kind, mode="r", shape=shape)
            # in pieces: the whole may be larger than memory
            for start in range(0, total, 1 << 20):
                created[start : start + (1 << 20)] = source[start : start + (1 << 20)]
            del source
            created.flush()  # type: ignore[attr-defined]
    finally:
        raw.unlink(missing_ok=True)
    return total
