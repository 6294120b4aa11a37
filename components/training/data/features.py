"""Batches of token features."""

from typing import NamedTuple

import torch
from torch import Tensor

from components.training.data.rows import FolderRows


class FeatureBatch(NamedTuple):
    """tokens (B, T, D) float32; mask (B, T), True where a token is; labels (B,); rows (B,) positions in the split."""

    tokens: Tensor
    mask: Tensor
    labels: Tensor
    rows: Tensor


class FeatureRows(FolderRows[FeatureBatch]):
    """One split of features.npy (half or single precision on disk) and offsets.npy."""

    def __getitems__(self, rows: list[int]) -> FeatureBatch:
        places = self.rows[rows]
        tokens = self.padded("features", "offsets", places, torch.float32)
        return FeatureBatch(*tokens, self.labels(places), torch.tensor(rows))
