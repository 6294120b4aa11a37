"""The gate of token streams: form, vocabulary, unknown tokens, published counts, lines in two splits, drift.

Streams are reduced a piece at a time: only counts by token and digests of long lines are held.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.arrays import SPLITS
from components.datasets.language.config import GateOptions
from components.errors import DataError
from components.files import read_json, sha256_bytes
from components.quality.core.drift import Drift
from components.quality.core.expectations import Suite, drop_docs, run_suites
from components.quality.core.profile import Observations
from components.quality.core.report import Check, GateReport
from components.quality.core.requirements import (
    AGAIN,
    SOURCE,
    among,
    between,
    facts_suite,
    open_arrays,
    shares_suite,
)

TOKENS_AT_ONCE = 1 << 20
# Shorter lines are headings and phrases that texts share by nature.
LONG_LINES = {"word": 20, "byte": 100}
# So many tokens at most are observed, evenly spaced.
OBSERVED = 200_000
UNITS = {"word": ("<unk>", "<eos>"), "byte": (None, "\n")}


@dataclass(frozen=True)
class Vocabulary:
    """unit and tokens, with the numbers of the unknown token (None for bytes) and of the end of a line."""

    unit: str
    size: int
    unknown: int | None
    end: int


def gate(folder: Path, options: GateOptions, *, subject: str, docs_folder: Path | None, drift: Drift) -> GateReport:
    """Judge a prepared folder of streams, see `components.quality.registry.DataGate`."""
    streams, readable = open_arrays(folder, list(SPLITS))
    vocabulary, told = _vocabulary(folder)
    if vocabulary is None or not readable.passed:
        if docs_folder is not None:
            drop_docs(docs_folder)
        return GateReport("data", subject, tuple(check for check in (readable, told) if not check.passed))
    structure = _structure(streams, vocabulary, options)
    checks = run_suites(subject, (structure,), docs_folder)
    if not all(check.passed for check in checks):
        return GateReport("data", subject, (readable, told, *checks))
    suites = (
        structure,
        _counts(streams, options),
        _size(vocabulary, options),
        _tokens(streams, vocabulary, options),
        _lines(streams, vocabulary, options),
        drift.suite(_observations(streams, vocabulary)),
    )
    return GateReport("data", subject, (readable, told, *run_suites(subject, suites, docs_folder)))


def observations(folder: Path) -> Observations:
    """Rank of tokens (the logarithm of their number) and tokens of lines, both at evenly spaced places of train."""
    streams, readable = open_arrays(folder, list(SPLITS))
    vocabulary, told = _vocabulary(folder)
    if vocabulary is None or not readable.passed:
        raise DataError(f"{folder}: {(readable if not readable.passed else told).observed}; {AGAIN}")
    return _observations(streams, vocabulary)


def _vocabulary(folder: Path) -> tuple[Vocabulary | None, Check]:
    expected = "a vocabulary.json with a unit and different tokens, the end of a line among them"
    try:
        content = read_json(folder / "vocabulary.json")
        tokens, (unknown, end) = content["tokens"], UNITS[content["unit"]]
        place = tokens.index(unknown) if unknown is not None else None
        vocabulary = Vocabulary(content["unit"], len(tokens), place, tokens.index(end))
    except (OSError, ValueError, KeyError, TypeError) as error:
        came = f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"
        return None, Check("files/vocabulary", False, came, expected, "vocabulary.json", AGAIN)
    different = len(set(tokens))
    if different != len(tokens):
        came = f"{different} different ones of {len(tokens)}"
        return None, Check("files/vocabulary", False, came, expected, "vocabulary.json", AGAIN)
    return vocabulary, Check("files/vocabulary", True, f"{vocabulary.size} tokens", expected)


def _structure(streams: dict[str, NDArray[Any]], vocabulary: Vocabulary, options: GateOptions) -> Suite:
    form = "uint16" if vocabulary.size <= 1 << 16 else "uint32"
    facts: list[dict[str, object]] = [
        {
            "split": split,
            "tokens": len(stream) if stream.ndim == 1 else 0,
            "form": f"{stream.dtype} of rank {stream.ndim}",
            "as expected": stream.ndim == 1 and stream.dtype == np.dtype(form),
            "largest number": int(stream.max()) if stream.size else -1,
        }
        for split, stream in streams.items()
    ]
    facts.append({"split": "all", "tokens in all": sum(len(stream) for stream in streams.values() if stream.ndim == 1)})
    last = vocabulary.size - 1
    return facts_suite(
        "streams",
        facts,
        ("split",),
        between("streams/tokens", ("tokens",), 2, None, "two tokens or more in each split", AGAIN),
        between(
            "streams/min_rows",
            ("tokens in all",),
            options.min_rows,
            None,
            f"at least {options.min_rows} tokens (min_rows)",
            "give more text, or change gate.min_rows in conf/dataset/",
        ),
        among("streams/form", ("as expected", "form"), (True,), f"{form} of rank 1", AGAIN),
        between("streams/vocabulary", ("largest number",), 0, last, f"numbers 0 to {last} of the vocabulary", AGAIN),
    )


def _counts(streams: dict[str, NDArray[Any]], options: GateOptions) -> Suite:
    facts: list[dict[str, object]] = [{"split": "none asked", "tokens": 0, "off": 0}]
    for split, stream in streams.items():
        wanted = getattr(options.expected_tokens, split)
        if wanted is not None:
            facts.append({"split": split, "tokens": len(stream), "off": len(stream) - wanted})
    wanted_of = options.expected_tokens.model_dump(exclude_none=True)
    expected = f"the published numbers of tokens: {wanted_of or 'none are stated'} (expected_tokens)"
    return facts_suite(
        "counts", facts, ("split",), between("counts/published", ("off", "tokens"), 0, 0, expected, SOURCE)
    )


def _size(vocabulary: Vocabulary, options: GateOptions) -> Suite:
    wanted = options.expected_vocabulary
    facts = [{"of": "all splits", "words": vocabulary.size, "off": 0 if wanted is None else vocabulary.size - wanted}]
    expected = f"the published number of words: {wanted or 'none is stated'} (expected_vocabulary)"
    return facts_suite(
        "vocabulary", facts, ("of",), between("vocabulary/published", ("off", "words"), 0, 0, expected, SOURCE)
    )


def _tokens(streams: dict[str, NDArray[Any]], vocabulary: Vocabulary, options: GateOptions) -> Suite:
    shares: dict[str, tuple[float, float, str]] = {}
    for split, stream in streams.items():
        counts = _histogram(stream, vocabulary.size)
        total = int(counts.sum())
        if vocabulary.unknown is not None:
            share = float(counts[vocabulary.unknown] / total)
            shares[f"unknown in {split}"] = (share, options.max_unknown, "max_unknown")
            if split == "train":
                used = counts > 0
                # <unk> is in the vocabulary even where train has none
                used[vocabulary.unknown] = True
                shares["unused vocabulary in train"] = (float(1 - used.mean()), options.max_unused, "max_unused")
        shares[f"most frequent in {split}"] = (counts.max() / total, options.max_most_frequent, "max_most_frequent")
        shares[f"without line ends in {split}"] = (float(counts[vocabulary.end] == 0), 0.0, "never")
    return shares_suite("tokens", shares)


def _lines(streams: dict[str, NDArray[Any]], vocabulary: Vocabulary, options: GateOptions) -> Suite:
    least = LONG_LINES[vocabulary.unit]
    train = {digest for digest, _ in long_lines(streams["train"], vocabulary.end, least)}
    shares: dict[str, tuple[float, float, str]] = {}
    for split in SPLITS[1:]:
        known = [digest in train for digest, _ in long_lines(streams[split], vocabulary.end, least)]
        share = sum(known) / len(known) if known else 0.0
        shares[f"long lines of {split} in train"] = (share, options.max_lines_across, "max_lines_across")
    return shares_suite("lines", shares)


def long_lines(stream: NDArray[Any], end: int, least: int) -> Iterator[tuple[str, int]]:
    """Digest and length of each line of `least` tokens or more, a piece of the stream at a time."""
    rest = np.zeros(0, dtype=stream.dtype)
    for start in range(0, len(stream), TOKENS_AT_ONCE):
        piece = np.concatenate([rest, stream[start : start + TOKENS_AT_ONCE]])
        ends = np.flatnonzero(piece == end)
        begin = 0
        for place in ends.tolist():
            if place - begin >= least:
                yield sha256_bytes(piece[begin:place].tobytes()), place - begin
            begin = place + 1
        rest = piece[begin:]


def _histogram(stream: NDArray[Any], size: int) -> NDArray[np.int64]:
    counts = np.zeros(size, dtype=np.int64)
    for start in range(0, len(stream), TOKENS_AT_ONCE):
        counts += np.bincount(stream[start : start + TOKENS_AT_ONCE], minlength=size)
    return counts


def _observations(streams: dict[str, NDArray[Any]], vocabulary: Vocabulary) -> Observations:
    train = streams["train"]
    places = np.linspace(0, len(train) - 1, min(OBSERVED, len(train))).astype(np.int64)
    head = np.flatnonzero(np.asarray(train[:TOKENS_AT_ONCE]) == vocabulary.end)
    lengths = np.diff(np.concatenate([[-1], head])) - 1
    return {
        "log rank": np.log1p(np.asarray(train[places], dtype=np.float64)),
        "tokens of a line": lengths.astype(np.float64),
    }
