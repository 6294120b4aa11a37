"""Batches whose order is a pure function of seed and epoch, so that a resumed epoch sees what it would have seen."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from components.training.core.tables import Split

# tokens (B, T, F), labels (B,), indices of the rows in their split (B,)
Batch = tuple[Tensor, Tensor, Tensor]

# More epochs than this would share an order with the next seed.
EPOCHS_PER_SEED = 1_000_003


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


class SplitRows(Dataset[Batch]):
    """A split that hands out whole batches, so that no row is collated one by one."""

    def __init__(self, split: Split):
        self.split = split

    def __len__(self) -> int:
        return len(self.split)

    def __getitems__(self, rows: list[int]) -> Batch:
        index = torch.tensor(rows)
        return self.split.tokens[index], self.split.labels[index], index


def _as_it_is(batch: Any) -> Any:
    return batch


def batches(split: Split, batch_size: int, *, order: EpochOrder | None = None) -> DataLoader[Batch]:
    """Batches of `split`, in the order of its rows or in `order`; the last one may be short."""
    return DataLoader(
        SplitRows(split),
        batch_size=batch_size,
        sampler=order,
        collate_fn=_as_it_is,
        # without a generator of its own a loader draws a seed from the global one, and the steps would shift
        generator=torch.Generator(),
    )
