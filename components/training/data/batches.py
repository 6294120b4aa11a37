"""What every form of data offers to training: rows that hand out whole batches, and the labels of them all."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor
from torch.utils.data import Dataset

from components.training.data.loader import EpochOrder, GivenOrder, ResumableLoader

# Rows that are read at once where a whole split is gone through.
ROWS_AT_ONCE = 256


class Batch(Protocol):
    """A named tuple of tensors; the first holds the rows' content, one entry of its leading axis a row."""

    @property
    def labels(self) -> Tensor:
        """Of each row (B,)."""

    @property
    def rows(self) -> Tensor:
        """Positions of the rows in their split (B,)."""

    def __getitem__(self, index: int) -> Tensor: ...


class TokenBatch(NamedTuple):
    """tokens (B, T, D) float32; mask (B, T), True where a token is; labels (B,); rows (B,) positions in the split."""

    tokens: Tensor
    mask: Tensor
    labels: Tensor
    rows: Tensor


BatchOf_co = TypeVar("BatchOf_co", covariant=True)


class Rows(Dataset[Any], Generic[BatchOf_co]):
    """One split."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitems__(self, rows: list[int]) -> BatchOf_co:
        """The rows at these positions of the split, as one batch."""

    @abstractmethod
    def all_labels(self) -> Tensor:
        """Labels (N,) of all rows, in their order."""

    def in_order(self, rows_at_once: int = ROWS_AT_ONCE) -> Iterator[BatchOf_co]:
        """All rows as they stand, batch by batch."""
        for start in range(0, len(self), rows_at_once):
            yield self.__getitems__(list(range(start, min(start + rows_at_once, len(self)))))

    def sample(self, count: int, generator: torch.Generator) -> BatchOf_co:
        """`count` rows drawn without replacement, or all where there are fewer, as one batch."""
        return self.__getitems__(torch.randperm(len(self), generator=generator)[:count].tolist())


@dataclass(frozen=True)
class TrainingData(Generic[BatchOf_co]):
    """The three splits of one task. `left_out`: rows that belong to none of its classes."""

    train: Rows[BatchOf_co]
    validation: Rows[BatchOf_co]
    test: Rows[BatchOf_co]
    left_out: int = 0


def batches(rows: Rows[Any], batch_size: int, *, order: EpochOrder | None = None) -> ResumableLoader[Any]:
    """Batches of `rows`, as they stand or in `order`; the last one may be short."""
    return ResumableLoader(rows, batch_size, order if order is not None else GivenOrder(len(rows)))


def majority_accuracy(data: TrainingData[Any]) -> float:
    """Validation accuracy of always answering the class that is most frequent in training."""
    most_frequent = data.train.all_labels().bincount().argmax()
    return float((data.validation.all_labels() == most_frequent).double().mean())
