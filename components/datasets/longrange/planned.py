"""Sequences made from the rows of a text or image entry: read once to plan, and once more to write."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import DTypeLike, NDArray

from components.datasets.core.options import PartOptions
from components.datasets.core.planning import LEFT_OUT, RowIndex, plan_rows
from components.datasets.longrange.source import SequenceRow, Sequences
from components.files import sha256_bytes
from components.progress import Tell

ROWS_BETWEEN_TELLING = 1024


@dataclass(frozen=True)
class Candidate:
    """A row of the entry: its published split, label, tokens, second tokens, and the groups that stay in one split."""

    split: str
    label: int
    tokens: NDArray[Any]
    second: NDArray[Any] | None = None
    groups: tuple[str, ...] = ()


def planned(
    candidates: Callable[[], Iterator[Candidate]],
    options: PartOptions,
    classes: tuple[str, ...],
    vocabulary: Mapping[int, str],
    dtype: DTypeLike,
    pairs: bool,
    facts: dict[str, Any],
    tell: Tell,
) -> Sequences:
    """The chosen rows with their splits. Two rows are the same row where their tokens are, after any cut."""
    index = RowIndex()
    for row in candidates():
        index.add(row.split, _identity(row), row.label, *row.groups)
        if len(index) % ROWS_BETWEEN_TELLING == 0:
            tell(len(index), None)
    plan = plan_rows(index, options)

    def rows() -> Iterator[SequenceRow]:
        for code, row in zip(plan.splits.tolist(), candidates(), strict=True):
            if code != LEFT_OUT:
                yield SequenceRow(code, row.label, row.tokens, row.second)

    total = int((plan.splits != LEFT_OUT).sum())
    return Sequences(total, classes, vocabulary, dtype, pairs, rows, {**plan.facts, **facts})


def _identity(row: Candidate) -> str:
    first = sha256_bytes(row.tokens.tobytes())
    return first if row.second is None else f"{first} {sha256_bytes(row.second.tobytes())}"
