"""Batches of a split of a table, which is held in memory."""

import torch
from torch import Tensor
from torch.utils.data import Dataset

from components.training.core.loader import EpochOrder, GivenOrder, ResumableLoader
from components.training.core.tables import Split

# tokens (B, T, F), labels (B,), indices of the rows in their split (B,)
Batch = tuple[Tensor, Tensor, Tensor]


class SplitRows(Dataset[Batch]):
    """A split that hands out whole batches, so that no row is collated one by one."""

    def __init__(self, split: Split):
        self.split = split

    def __len__(self) -> int:
        return len(self.split)

    def __getitems__(self, rows: list[int]) -> Batch:
        index = torch.tensor(rows)
        return self.split.tokens[index], self.split.labels[index], index


def batches(split: Split, batch_size: int, *, order: EpochOrder | None = None) -> ResumableLoader[Batch]:
    """Batches of `split`, in the order of its rows or in `order`; the last one may be short."""
    return ResumableLoader(SplitRows(split), batch_size, order if order is not None else GivenOrder(len(split)))
