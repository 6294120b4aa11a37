"""A prepared folder of long sequences as the gate reads it: opened, found to fit together, then reduced bit by bit.

A folder that does not fit together is told of by checks and never by an exception.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from components.datasets.longrange.config import Task
from components.errors import DataError
from components.files import read_json, sha256_bytes
from components.quality.core.expectations import Suite
from components.quality.core.report import Check
from components.quality.core.requirements import AGAIN, among, array_suite, facts_suite, open_arrays

TOKENS_AT_ONCE = 1 << 22
# The type of tokens by task, and what else a task's folder holds, with type and rank.
TOKEN_TYPES: Mapping[str, str] = {
    "listops": "uint8",
    "bytes": "uint8",
    "retrieval": "uint8",
    "pixels": "uint16",
    "pathfinder": "uint16",
}
BESIDES: Mapping[str, Mapping[str, tuple[str, int]]] = {"pathfinder": {"dashes": ("int16", 3), "dots": ("int16", 3)}}


class Summary(BaseModel, strict=True, frozen=True):
    """What the gate takes from summary.json; there is more in it."""

    task: Task
    rows: int = Field(ge=1)
    classes: list[str] = Field(min_length=2)
    pairs: bool


class PixelsSummary(Summary):
    """Of images: height and width."""

    shape: list[int] = Field(min_length=2, max_length=2)


class PathfinderSummary(Summary):
    """Of Pathfinder: what was drawn, in pixels."""

    size: int = Field(ge=1)
    gap: float = Field(gt=0)
    dash_thickness: float = Field(gt=0)
    marker_radius: float = Field(gt=0)


SUMMARIES: Mapping[str, type[Summary]] = {"pixels": PixelsSummary, "pathfinder": PathfinderSummary}


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths: row i is `tokens[offsets[i]:offsets[i + 1]]`."""

    tokens: NDArray[Any]
    offsets: NDArray[np.int64]

    def row(self, number: int) -> NDArray[Any]:
        row: NDArray[Any] = self.tokens[self.offsets[number] : self.offsets[number + 1]]
        return row

    @property
    def lengths(self) -> NDArray[np.int64]:
        lengths: NDArray[np.int64] = np.diff(self.offsets)
        return lengths


@dataclass(frozen=True)
class Prepared:
    """The opened folder. `sides` has one set of rows, or the two of pairs, by the name a reader is told."""

    summary: Summary
    vocabulary: Mapping[int, str]
    arrays: Mapping[str, NDArray[Any]]

    @property
    def sides(self) -> dict[str, Ragged]:
        names = {"sequence": "", "second sequence": "second_"} if self.summary.pairs else {"sequence": ""}
        return {
            side: Ragged(self.arrays[f"{prefix}tokens"], np.asarray(self.arrays[f"{prefix}offsets"]))
            for side, prefix in names.items()
        }

    @property
    def rows(self) -> int:
        return self.summary.rows


def open_prepared(folder: Path) -> tuple[Prepared | None, list[Check]]:
    """The folder and the checks that it could be opened; none where it could not."""
    summary, told = _parsed(folder, "summary.json", _summary_of)
    vocabulary, listed = _parsed(folder, "vocabulary.json", _vocabulary_of)
    if summary is None or vocabulary is None:
        return None, [told, listed]
    names = ["tokens", "offsets", "labels", "splits"]
    if summary.pairs:
        names += ["second_tokens", "second_offsets"]
    arrays, readable = open_arrays(folder, names + list(BESIDES.get(summary.task, {})))
    return (Prepared(summary, vocabulary, arrays) if readable.passed else None), [told, listed, readable]


def _parsed(folder: Path, name: str, parse: Callable[[Any], Any]) -> tuple[Any, Check]:
    expected = f"a complete {name}"
    check = f"files/{name.removesuffix('.json')}"
    try:
        return parse(read_json(folder / name)), Check(check, True, "complete", expected)
    except ValidationError as error:
        came = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
    except (OSError, ValueError, TypeError, KeyError) as error:
        came = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return None, Check(check, False, came, expected, name, AGAIN)


def _summary_of(content: Any) -> Summary:
    whole = Summary.model_validate(content)
    return SUMMARIES.get(whole.task, Summary).model_validate(content)


def _vocabulary_of(content: Any) -> dict[int, str]:
    words = {int(token): str(meaning) for token, meaning in dict(content).items()}
    if words.get(0) != "padding" or len(words) < 2:
        raise ValueError("no padding, or nothing but padding")
    return words


def form_suites(prepared: Prepared) -> tuple[Suite, Suite]:
    """Types, ranks and numbers of rows; and that offsets part the tokens without a gap."""
    forms = {"labels": ("int64", 1), "splits": ("uint8", 1), **BESIDES.get(prepared.summary.task, {})}
    facts = [{"array": f"{prefix}offsets.npy", "fault": fault} for prefix, fault in _offset_faults(prepared).items()]
    parted = facts_suite(
        "offsets",
        facts,
        ("array",),
        among("offsets/part_the_tokens", ("fault",), ("none",), "offsets from 0 to the last token, rising", AGAIN),
    )
    return array_suite(prepared.arrays, forms, prepared.summary.rows), parted


def _offset_faults(prepared: Prepared) -> dict[str, str]:
    """What is wrong with the offsets, by the prefix of the arrays' names."""
    kind = TOKEN_TYPES[prepared.summary.task]
    faults = {}
    for prefix in ("", "second_") if prepared.summary.pairs else ("",):
        tokens, offsets = (prepared.arrays[f"{prefix}{name}"] for name in ("tokens", "offsets"))
        faults[prefix] = _offsets_fault(tokens, offsets, prepared.rows, kind)
    return faults


def _offsets_fault(tokens: NDArray[Any], offsets: NDArray[Any], rows: int, kind: str) -> str:
    if tokens.dtype != np.dtype(kind) or tokens.ndim != 1:
        return f"tokens {tokens.dtype} of rank {tokens.ndim} where {kind} of rank 1 is due"
    if offsets.dtype != np.int64 or offsets.ndim != 1:
        return f"offsets {offsets.dtype} of rank {offsets.ndim} where int64 of rank 1 is due"
    if len(offsets) != rows + 1:
        return f"{len(offsets)} offsets of {rows} rows"
    if offsets[0] != 0 or offsets[-1] != len(tokens):
        return f"{offsets[0]} to {offsets[-1]} for {len(tokens)} tokens"
    falling = np.flatnonzero(np.diff(offsets) < 0)
    return f"row {falling[0]} ends before it begins" if len(falling) else "none"


def identities(prepared: Prepared) -> list[str]:
    """A digest of each row, of both sequences where it has two."""
    sides = list(prepared.sides.values())
    return [
        " ".join(sha256_bytes(np.ascontiguousarray(side.row(number)).tobytes()) for side in sides)
        for number in range(prepared.rows)
    ]


def count_tokens(prepared: Prepared, side: Ragged) -> tuple[int, int]:
    """How many tokens are padding, and how many are not in the vocabulary."""
    known = np.zeros(1 << 16, dtype=bool)
    known[[token for token in prepared.vocabulary if token < len(known)]] = True
    padding = strangers = 0
    for start in range(0, len(side.tokens), TOKENS_AT_ONCE):
        part = side.tokens[start : start + TOKENS_AT_ONCE]
        padding += int((part == 0).sum())
        strangers += int((~known[part]).sum())
    return padding, strangers


def mean_tokens(side: Ragged) -> NDArray[np.float64]:
    """The mean token of each row (n,), a part of the rows at a time."""
    means = np.zeros(len(side.lengths))
    for number in range(len(means)):
        row = side.row(number)
        means[number] = row.mean() if len(row) else 0.0
    return means


def require_prepared(folder: Path) -> Prepared:
    """The opened folder. Raises DataError where it cannot be opened or does not fit together."""
    prepared, checks = open_prepared(folder)
    if prepared is None:
        refused = next(check for check in checks if not check.passed)
        raise DataError(f"{folder}: {refused.detail}: {refused.observed}; {AGAIN}")
    for prefix, fault in _offset_faults(prepared).items():
        if fault != "none":
            raise DataError(f"{folder}: {prefix}offsets.npy: {fault}; {AGAIN}")
    return prepared
