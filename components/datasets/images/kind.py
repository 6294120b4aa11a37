"""Images as a kind of data: images.npy (N, H, W, C) uint8, labels.npy (N,) int64, splits.npy (N,) uint8."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.datasets.images.config import GateOptions, PrepareOptions

if TYPE_CHECKING:
    from components.datasets.core.catalogue import Entry
    from components.datasets.images.source import Batch, ImageSource
    from components.progress import Tell

READERS = ("images-idx", "images-cifar-binary", "images-parquet", "images-folder")

__all__ = ["READERS", "GateOptions", "PrepareOptions", "prepare"]


def prepare(
    entry: "Entry", paths: Sequence[Path], options: PrepareOptions, folder: Path, tell: "Tell"
) -> dict[str, Any]:
    """Write the three arrays into `folder`. The images are read twice, once to plan and once to write, in batches."""
    import numpy as np

    from components.arrays import SPLITS, create_array, save_array
    from components.datasets.core.planning import LEFT_OUT, RowIndex, plan_rows
    from components.datasets.readers import reader_named
    from components.files import sha256_bytes

    source: ImageSource = reader_named(entry.reader)(paths, entry)
    total = sum(part.rows for part in source.parts.values())
    index = RowIndex()
    for split, images, labels in _batches(source):
        for image, label in zip(images, labels.tolist(), strict=True):
            index.add(split, sha256_bytes(image.tobytes()), label)
        tell(len(index), 2 * total)
    plan = plan_rows(index, options)
    kept = np.flatnonzero(plan.splits != LEFT_OUT)
    written = create_array(folder / "images.npy", (len(kept), *source.shape), np.uint8)
    read = done = 0
    for _, images, _ in _batches(source):
        chosen = images[plan.splits[read : read + len(images)] != LEFT_OUT]
        written[done : done + len(chosen)] = chosen
        done += len(chosen)
        read += len(images)
        tell(total + read, 2 * total)
    written.flush()  # type: ignore[attr-defined]
    labels = np.asarray(index.labels, dtype=np.int64)[kept]
    splits = plan.splits[kept]
    save_array(folder / "labels.npy", labels)
    save_array(folder / "splits.npy", splits)
    counts = {
        split: {name: int(((splits == code) & (labels == label)).sum()) for label, name in enumerate(source.classes)}
        for code, split in enumerate(SPLITS)
    }
    return {
        **plan.facts,
        "rows": len(kept),
        "splits": plan.rows(),
        "classes": list(source.classes),
        "counts": counts,
        "shape": list(source.shape),
    }


def _batches(source: "ImageSource") -> "Iterator[tuple[str, *Batch]]":
    for split, part in source.parts.items():
        rows = 0
        for images, labels in part.batches():
            rows += len(images)
            yield split, images, labels
        if rows != part.rows:
            raise RuntimeError(f"the reader promised {part.rows} rows of {split} and gave {rows}")
