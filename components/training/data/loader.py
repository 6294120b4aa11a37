"""Batches whose order is a pure function of seed and epoch, and which can be taken up in the middle of an epoch.

Nothing is drawn from a global generator. What a loader remembers is the epoch and how many of its batches were handed
out; the order makes the rest.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from components.errors import DataError

# More epochs than this would share an order with the next seed.
EPOCHS_PER_SEED = 1_000_003

BatchOf = TypeVar("BatchOf")


class EpochOrder(Sampler[int]):
    """Row indices, shuffled anew each epoch. Lightning tells the epoch; no global generator is drawn from."""

    def __init__(self, size: int, seed: int):
        self.size = size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed * EPOCHS_PER_SEED + self.epoch)
        yield from torch.randperm(self.size, generator=generator).tolist()


class GivenOrder(EpochOrder):
    """Row indices as they stand, the same in every epoch."""

    def __init__(self, size: int):
        super().__init__(size, 0)

    def __iter__(self) -> Iterator[int]:
        yield from range(self.size)


class OrderedBatches(Sampler[list[int]]):
    """Lists of row indices, from the batch number `begin` on; the last one may be short, or is left out."""

    def __init__(self, order: EpochOrder, batch_size: int, drop_last: bool = False):
        # Lightning looks for `sampler` to tell it the epoch
        self.sampler = order
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.begin = 0

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)
        return whole + bool(rest and not self.drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        rows = list(self.sampler)
        for number in range(self.begin, len(self)):
            yield rows[number * self.batch_size : (number + 1) * self.batch_size]


class ResumableLoader(DataLoader[BatchOf]):
    """A loader of a data set that hands out whole batches (`__getitems__`).

    `state_dict` says epoch and batches handed out; after `load_state_dict` the same epoch goes on behind them, and any
    other epoch begins at its first batch. The number of workers changes nothing in the batches.
    """

    def __init__(
        self, dataset: Dataset[BatchOf], batch_size: int, order: EpochOrder, workers: int = 0, drop_last: bool = False
    ):
        if len(order) == 0:
            raise DataError("a split without rows has no batches; look at the data set's summary, and take more rows")
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, allowed is 1 or more")
        self._batches = OrderedBatches(order, batch_size, drop_last)
        self._handed = 0
        self._resume: dict[str, int] | None = None
        super().__init__(
            dataset,
            batch_sampler=self._batches,
            collate_fn=as_it_is,
            num_workers=workers,
            # a forked worker would inherit threads and CUDA in a state that neither survives
            multiprocessing_context="spawn" if workers else None,
            # without a generator of its own a loader draws a seed from the global one, and the steps would shift
            generator=torch.Generator(),
        )

    @property
    def order(self) -> EpochOrder:
        return self._batches.sampler

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        # runs at the first batch, when Lightning has told the epoch
        resume, self._resume = self._resume, None
        goes_on = resume is not None and resume["epoch"] == self.order.epoch and resume["batches"] < len(self)
        self._handed = resume["batches"] if resume is not None and goes_on else 0
        self._batches.begin = self._handed
        try:
            for batch in super().__iter__():
                self._handed += 1
                yield batch
        finally:
            self._batches.begin = 0

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.order.epoch, "batches": self._handed}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._resume = {"epoch": int(state["epoch"]), "batches": int(state["batches"])}


def as_it_is(batch: Any) -> Any:
    """The collation of what is already a batch. A function of its own, so that workers can import it."""
    return batch
