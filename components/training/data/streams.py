"""Blocks of a stream of tokens, for language modelling."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from components.arrays import SPLITS, open_array
from components.errors import DataError
from components.training.data.batches import Rows


class BlockBatch(NamedTuple):
    """inputs (B, T) and labels (B, T) int64, the label being the next token; mask (B, T), True where there is one."""

    inputs: Tensor
    labels: Tensor
    mask: Tensor
    rows: Tensor


class StreamBlocks(Rows[BlockBatch]):
    """Blocks of `length` targets, end to end and without overlap, so that every token but the first is a target once.

    The last block may be short: it is padded with token 0, which the mask excludes.
    """

    def __init__(self, folder: Path, split: str, length: int):
        if split not in SPLITS:
            raise ValueError(f"split is {split!r}, allowed is one of {', '.join(SPLITS)}")
        if length < 1:
            raise ValueError(f"length is {length}, allowed is 1 token or more")
        self.path = Path(folder) / f"{split}.npy"
        self.length = length
        self._stream: NDArray[Any] | None = None
        self.targets = len(self.stream) - 1
        if self.targets < 1:
            raise DataError(f"{self.path} has {len(self.stream)} tokens, allowed is 2 or more; take more of the data")

    @property
    def stream(self) -> NDArray[Any]:
        if self._stream is None:
            self._stream = open_array(self.path)
        return self._stream

    def all_labels(self) -> Tensor:
        """Every target (N, T), with zeros where the last block is short."""
        return torch.cat([batch.labels for batch in self.in_order()])

    def __len__(self) -> int:
        return (self.targets + self.length - 1) // self.length

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stream": None}

    def __getitems__(self, rows: list[int]) -> BlockBatch:
        inputs = torch.zeros((len(rows), self.length), dtype=torch.int64)
        targets, mask = torch.zeros_like(inputs), torch.zeros(inputs.shape, dtype=torch.bool)
        for place, row in enumerate(rows):
            start = row * self.length
            piece = torch.from_numpy(self.stream[start : start + self.length + 1].astype(np.int64))
            count = len(piece) - 1
            inputs[place, :count] = piece[:-1]
            targets[place, :count] = piece[1:]
            mask[place, :count] = True
        return BlockBatch(inputs, targets, mask, torch.tensor(rows))
