"""Features of all rows of a prepared text, chunk by chunk, so that a kill loses at most one chunk.

Rows are put into chunks by length, so that little padding is computed; which rows share a chunk depends on the rows and
the options alone. A finished chunk is a file with its sha256 beside it. When all are there, they are written end to end
in the order of the rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.arrays import SPLITS, append_values, create_array, save_array
from components.datasets.core.parquet import NUMBER, STRING, read_batches
from components.datasets.features.config import FeatureOptions
from components.datasets.features.encoder import Encoder
from components.files import read_json, sha256_file, write_bytes, write_json, write_text
from components.progress import Tell

CHUNK_SUFFIX = ".chunk"


@dataclass(frozen=True)
class Texts:
    """The rows of a prepared text, in order."""

    ids: list[str]
    first: list[str]
    second: list[str] | None
    labels: list[float]
    splits: list[str]
    regression: bool
    classes: list[str] | None = None

    def __len__(self) -> int:
        return len(self.ids)


def read_texts(folder: Path) -> Texts:
    """The rows in data/prepared/NAME. Raises DataError where the files are not in their form."""
    summary = read_json(folder / "summary.json")
    columns = {"id": STRING, "text": STRING, "label": NUMBER, "group": STRING, "split": STRING}
    if summary["pairs"]:
        columns["second"] = STRING
    texts = Texts([], [], [] if summary["pairs"] else None, [], [], summary["classes"] is None, summary["classes"])
    for batch in read_batches(folder / "rows.parquet", columns):
        texts.ids.extend(batch["id"])
        texts.first.extend(batch["text"])
        if texts.second is not None:
            texts.second.extend(batch["second"])
        texts.labels.extend(float(label) for label in batch["label"])
        texts.splits.extend(batch["split"])
    return texts


def compute_features(
    texts: Texts, encoder: Encoder, options: FeatureOptions, folder: Path, state: Path, tell: Tell
) -> dict[str, Any]:
    """Write features.npy (tokens, D), offsets.npy (n + 1,), labels.npy, splits.npy (n,) and ids.json into `folder`.

    Beside them what an explanation needs: tokens.npy (tokens,), the identifiers behind the features, and their words in
    vocabulary.json. `state` is where finished chunks wait. Tells of tokens. The answer is for summary.json.
    """
    tokens, cut = _counted(texts, encoder, folder / "tokens.npy")
    whole = sum(tokens)
    offsets = np.concatenate([[0], np.cumsum(tokens)]).astype(np.int64)
    chunks = _chunks(tokens, options.rows_at_once)
    state.mkdir(parents=True, exist_ok=True)
    done = resumed = 0
    for number, rows in enumerate(chunks):
        path = state / f"{number:06d}{CHUNK_SUFFIX}"
        if _finished(path):
            resumed += 1
        else:
            _keep(path, _encoded(texts, rows, encoder, options.dtype))
        done += sum(tokens[row] for row in rows)
        tell(done, whole)
    features = create_array(folder / "features.npy", (whole, encoder.dim), options.dtype)
    for number, rows in enumerate(chunks):
        stored = np.fromfile(state / f"{number:06d}{CHUNK_SUFFIX}", dtype=options.dtype).reshape(-1, encoder.dim)
        start = 0
        for row in rows:
            features[offsets[row] : offsets[row + 1]] = stored[start : start + tokens[row]]
            start += tokens[row]
    features.flush()  # type: ignore[attr-defined]
    save_array(folder / "offsets.npy", offsets)
    labels = np.asarray(texts.labels, dtype=np.float64)
    save_array(folder / "labels.npy", labels if texts.regression else labels.astype(np.int64))
    save_array(folder / "splits.npy", np.asarray([SPLITS.index(name) for name in texts.splits], dtype=np.uint8))
    write_json(folder / "ids.json", texts.ids)
    write_json(folder / "vocabulary.json", encoder.vocabulary())
    return {
        **encoder.facts,
        "classes": texts.classes,
        "rows": len(texts),
        "tokens": whole,
        "tokens_of_longest": max(tokens),
        "cut": cut,
        "chunks": len(chunks),
        "chunks_resumed": resumed,
    }


def _counted(texts: Texts, encoder: Encoder, path: Path) -> tuple[list[int], int]:
    """Tokens of each row, and how many rows are cut; the identifiers go to `path`, and are never held all at once."""
    tokens: list[int] = []
    cut = 0

    def identifiers() -> Iterator[NDArray[Any]]:
        nonlocal cut
        for first, second in _pieces(texts):
            kept = encoder.tokenize(first, second)
            tokens.extend(len(ids) for ids in kept)
            cut += sum(whole > len(left) for whole, left in zip(encoder.lengths(first, second), kept, strict=True))
            yield np.concatenate(kept) if kept else np.zeros(0)

    append_values(path, identifiers(), np.uint32)
    return tokens, cut


def _pieces(texts: Texts, size: int = 1000) -> list[tuple[list[str], list[str] | None]]:
    starts = range(0, len(texts), size)
    return [
        (texts.first[i : i + size], texts.second[i : i + size] if texts.second is not None else None) for i in starts
    ]


def _chunks(tokens: Sequence[int], size: int) -> list[list[int]]:
    """Rows by length, the longest first: if memory does not suffice, that shows at once."""
    order = sorted(range(len(tokens)), key=lambda row: (-tokens[row], row))
    return [order[i : i + size] for i in range(0, len(order), size)]


def _encoded(texts: Texts, rows: Sequence[int], encoder: Encoder, dtype: str) -> NDArray[Any]:
    first = [texts.first[row] for row in rows]
    second = [texts.second[row] for row in rows] if texts.second is not None else None
    return np.concatenate(encoder.encode(first, second)).astype(dtype)


def _keep(path: Path, features: NDArray[Any]) -> None:
    write_bytes(path, features.tobytes())
    # a chunk counts only with its digest, which is written last
    write_text(path.with_suffix(".sha256"), sha256_file(path))


def _finished(path: Path) -> bool:
    digest = path.with_suffix(".sha256")
    return path.is_file() and digest.is_file() and digest.read_text(encoding="utf-8") == sha256_file(path)
