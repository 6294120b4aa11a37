"""Batches of a prepared set of images."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from components.training.data.rows import FolderRows


class ImageBatch(NamedTuple):
    """images (B, C, H, W) float32 from 0 to 1, labels (B,) int64, rows (B,) int64: positions in the split."""

    images: Tensor
    labels: Tensor
    rows: Tensor


class ImageRows(FolderRows[ImageBatch]):
    """One split of images.npy, labels.npy and splits.npy."""

    def __getitems__(self, rows: list[int]) -> ImageBatch:
        places = self.places[rows]
        pixels = torch.from_numpy(np.ascontiguousarray(self.array("images")[places]))
        images = pixels.permute(0, 3, 1, 2).to(torch.float32).div_(255)
        return ImageBatch(images.contiguous(), self.labels(places), torch.tensor(rows))
