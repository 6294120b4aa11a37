"""Batches whose order is a pure function of seed and epoch, so that a resumed epoch sees what it would have seen."""

from collections.abc import Iterator

import torch
from torch import Tensor

from components.training.core.tables import Split

# tokens (B, T, F), labels (B,), indices of the rows in their split (B,)
Batch = tuple[Tensor, Tensor, Tensor]

# More epochs than this would share an order with the next seed.
EPOCHS_PER_SEED = 1_000_003


class EpochBatches:
    """Iterable over the batches of a split: shuffled anew each epoch, or in order when `shuffle` is off.

    Nothing but `seed` and `epoch` decides the order, and no global generator is drawn from.
    """

    def __init__(self, split: Split, batch_size: int, seed: int, *, shuffle: bool):
        self.split = split
        self.batch_size = batch_size
        self.seed = seed
        self.shuffle = shuffle
        self.epoch = 0

    @property
    def sampler(self) -> "EpochBatches":
        """Lightning tells the epoch to the `sampler` of what it iterates."""
        return self

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.split) // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        order = torch.arange(len(self.split))
        if self.shuffle:
            generator = torch.Generator().manual_seed(self.seed * EPOCHS_PER_SEED + self.epoch)
            order = torch.randperm(len(self.split), generator=generator)
        for rows in order.split(self.batch_size):
            yield self.split.tokens[rows], self.split.labels[rows], rows
