"""A prepared folder of long sequences as the gate reads it: opened, found to fit together, then reduced a part at a time.

A folder that does not fit together is told of by checks and never by an exception.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.datasets.longrange.config import SECTIONS
from components.errors import DataError
from components.files import read_json, sha256_bytes
from components.quality.core.expectations import Suite
from components.quality.core.report import Check
from components.quality.core.requirements import AGAIN, among, array_suite, between, facts_suite, open_arrays

TOKENS_AT_ONCE = 1 << 22
# The type of tokens by task, and what else a task's folder holds, with type and rank.
TOKEN_TYPES = {"listops": "uint8", "bytes": "uint8", "retrieval": "uint8", "pixels": "uint16", "pathfinder": "uint16"}
BESIDES: Mapping[str, Mapping[str, tuple[str, int]]] = {"pathfinder": {"dashes": ("int16", 3), "dots": ("int16", 3)}}
SUMMARY_KEYS = {"classes": list, "pairs": bool, "rows": int, "task": str}
# Of these a summary says more.
SUMMARY_KEYS_BESIDES: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "pathfinder": {
        "dash_thickness": (int, float),
        "gap": (int, float),
        "marker_radius": (int, float),
        "size": int,
    },
    "pixels": {"shape": list},
}


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

    summary: Mapping[str, Any]
    vocabulary: Mapping[int, str]
    arrays: Mapping[str, NDArray[Any]]

    @property
    def task(self) -> str:
        return str(self.summary["task"])

    @property
    def classes(self) -> list[str]:
        return [str(name) for name in self.summary["classes"]]

    @property
    def sides(self) -> dict[str, Ragged]:
        names = {"sequence": "", "second sequence": "second_"} if self.summary["pairs"] else {"sequence": ""}
        return {
            side: Ragged(self.arrays[f"{prefix}tokens"], np.asarray(self.arrays[f"{prefix}offsets"]))
            for side, prefix in names.items()
        }

    @property
    def rows(self) -> int:
        return len(self.arrays["labels"])


def open_prepared(folder: Path) -> tuple[Prepared | None, list[Check]]:
    """The folder and the checks that it could be opened; none where it could not."""
    summary, told = _json(folder, "summary.json", _summary_fault)
    vocabulary, listed = _json(folder, "vocabulary.json", _vocabulary_fault)
    if not (told.passed and listed.passed):
        return None, [told, listed]
    arrays, readable = open_arrays(folder, _array_names(summary))
    checks = [told, listed, readable]
    words = {int(token): str(meaning) for token, meaning in vocabulary.items()}
    return (Prepared(summary, words, arrays) if readable.passed else None), checks


def _array_names(summary: Mapping[str, Any]) -> list[str]:
    names = ["tokens", "offsets", "labels", "splits"]
    if summary["pairs"]:
        names += ["second_tokens", "second_offsets"]
    return names + list(BESIDES.get(summary["task"], {}))


def _json(folder: Path, name: str, fault_in: Any) -> tuple[Any, Check]:
    expected = f"a complete {name}"
    check = f"files/{name.removesuffix('.json')}"
    try:
        content = read_json(folder / name)
    except (OSError, ValueError) as error:
        came = " ".join(str(error).split())
        return {}, Check(check, False, f"{type(error).__name__}: {came}", expected, name, AGAIN)
    fault = fault_in(content)
    return content, Check(check, not fault, fault or "complete", expected, name, "" if not fault else AGAIN)


def _summary_fault(content: Any) -> str:
    if not isinstance(content, dict):
        return "no object"
    tasks = {task for of_section in SECTIONS.values() for task in of_section} | set(TOKEN_TYPES)
    if content.get("task") not in tasks:
        return f"task {content.get('task')!r}"
    wanted = {**SUMMARY_KEYS, **SUMMARY_KEYS_BESIDES.get(content["task"], {})}
    wrong = [key for key, kind in wanted.items() if not isinstance(content.get(key), kind)]
    if wrong:
        return f"{wrong[0]} {content.get(wrong[0])!r}"
    return "" if content["classes"] else "no classes"


def _vocabulary_fault(content: Any) -> str:
    if not isinstance(content, dict) or not all(key.isdecimal() for key in content):
        return "keys that are no tokens"
    return "" if content.get("0") == "padding" and len(content) > 1 else "no padding, or nothing but padding"


def form_suites(prepared: Prepared) -> tuple[Suite, Suite]:
    """Types, ranks and numbers of rows; and that offsets part the tokens without a gap."""
    forms = {"labels": ("int64", 1), "splits": ("uint8", 1), **BESIDES.get(prepared.task, {})}
    labels = prepared.arrays["labels"]
    rows = len(labels) if labels.ndim else 0
    facts = []
    for side in ("", "second_") if prepared.summary["pairs"] else ("",):
        tokens, offsets = (prepared.arrays[f"{side}{name}"] for name in ("tokens", "offsets"))
        facts.append(
            {
                "array": f"{side}offsets.npy",
                "fault": _offsets_fault(tokens, offsets, rows, TOKEN_TYPES[prepared.task]),
            }
        )
    parted = facts_suite(
        "offsets",
        facts,
        ("array",),
        among("offsets/part_the_tokens", ("fault",), ("none",), "offsets from 0 to the last token, rising", AGAIN),
    )
    return array_suite(prepared.arrays, forms, rows), parted


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
    refused = [check for check in checks if not check.passed]
    if prepared is None:
        raise DataError(f"{folder}: {refused[0].detail} is {refused[0].observed}; {AGAIN}")
    for side, (name, prefix) in zip(prepared.sides, (("offsets", ""), ("second_offsets", "second_")), strict=False):
        fault = _offsets_fault(
            prepared.arrays[f"{prefix}tokens"], prepared.arrays[name], prepared.rows, TOKEN_TYPES[prepared.task]
        )
        if fault != "none":
            raise DataError(f"{folder}: {name}.npy of the {side}: {fault}; {AGAIN}")
    return prepared
