"""Batches of a prepared set of token sequences, single or in pairs."""

from typing import NamedTuple

import torch
from torch import Tensor

from components.training.data.rows import FolderRows


class SequenceBatch(NamedTuple):
    """tokens (B, T) int64, 0 is padding; mask (B, T), True where a token is; labels (B,); rows (B,).

    Pairs have a second sequence of its own length: second (B, S), second_mask (B, S). Otherwise both are None.
    """

    tokens: Tensor
    mask: Tensor
    labels: Tensor
    rows: Tensor
    second: Tensor | None
    second_mask: Tensor | None


class SequenceRows(FolderRows[SequenceBatch]):
    """One split of tokens.npy and offsets.npy, perhaps second_tokens.npy and second_offsets.npy."""

    def __getitems__(self, rows: list[int]) -> SequenceBatch:
        places = self.places[rows]
        first = self.padded("tokens", "offsets", places, torch.int64)
        pairs = (self.folder / "second_tokens.npy").is_file()
        second = self.padded("second_tokens", "second_offsets", places, torch.int64) if pairs else (None, None)
        return SequenceBatch(*first, self.labels(places), torch.tensor(rows), *second)
