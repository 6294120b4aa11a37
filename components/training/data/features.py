"""Token features of texts: batches for training, and the words behind the tokens for explanations."""

from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from components.arrays import open_array
from components.files import read_json
from components.training.data.batches import TokenBatch
from components.training.data.rows import FolderRows


class FeatureRows(FolderRows[TokenBatch]):
    """One split of features.npy (half or single precision on disk) and offsets.npy."""

    def __getitems__(self, rows: list[int]) -> TokenBatch:
        places = self.places[rows]
        tokens = self.padded("features", "offsets", places, torch.float32)
        return TokenBatch(*tokens, self.labels(places), torch.tensor(rows))

    @property
    def width(self) -> int:
        return int(self.array("features").shape[1])


class Words:
    """The words behind the tokens of data/features/NAME, as the encoder's tokenizer cut them."""

    def __init__(self, folder: Path):
        self.folder = Path(folder)

    @cached_property
    def vocabulary(self) -> list[str]:
        words: list[str] = read_json(self.folder / "vocabulary.json")
        return words

    @cached_property
    def identifiers(self) -> list[str]:
        """The identifier that each row of the folder had in its source."""
        identifiers: list[str] = read_json(self.folder / "ids.json")
        return identifiers

    def of(self, place: int) -> list[str]:
        """The tokens of the row at `place` of the folder, special ones included."""
        offsets, tokens = open_array(self.folder / "offsets.npy"), open_array(self.folder / "tokens.npy")
        return [self.vocabulary[token] for token in np.asarray(tokens[offsets[place] : offsets[place + 1]])]
