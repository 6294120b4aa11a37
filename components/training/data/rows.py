"""What the data sets on disk share: one split of a prepared folder, mapped when first read, never copied whole."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from components.arrays import SPLITS, open_array
from components.errors import DataError
from components.training.data.batches import BatchOf_co, Rows


class Padded(NamedTuple):
    """Rows of different lengths in one tensor, padded with zeros. `mask` (B, T) is True where a value is."""

    values: Tensor
    mask: Tensor


class FolderRows(Rows[BatchOf_co]):
    """The rows of one split. It holds paths alone, so that a worker process gets no copy of the data."""

    def __init__(self, folder: Path, split: str):
        if split not in SPLITS:
            raise ValueError(f"split is {split!r}, allowed is one of {', '.join(SPLITS)}")
        self.folder = Path(folder)
        self.split = split
        self._arrays: dict[str, NDArray[Any]] = {}
        # positions of the split's rows in the folder's arrays
        self.places = np.flatnonzero(self.array("splits") == SPLITS.index(split))
        if len(self.places) == 0:
            raise DataError(f"{self.folder.name} has no row of split {split!r}; look at its summary.json")

    def array(self, name: str) -> NDArray[Any]:
        """NAME.npy, mapped. Raises DataError where it is not there."""
        if name not in self._arrays:
            self._arrays[name] = open_array(self.folder / f"{name}.npy")
        return self._arrays[name]

    def labels(self, places: NDArray[np.intp]) -> Tensor:
        """Labels (B,) of the rows at `places` of the folder."""
        return torch.from_numpy(np.array(self.array("labels")[places]))

    def all_labels(self) -> Tensor:
        return self.labels(self.places)

    def padded(self, values: str, offsets: str, places: NDArray[np.intp], dtype: torch.dtype) -> Padded:
        """The rows at `places` of an array of rows of different lengths (see `components.arrays.append_rows`)."""
        starts = self.array(offsets)
        pieces = [np.asarray(self.array(values)[starts[place] : starts[place + 1]]) for place in places]
        longest = max(len(piece) for piece in pieces)
        padded = torch.zeros((len(pieces), longest, *pieces[0].shape[1:]), dtype=dtype)
        mask = torch.zeros((len(pieces), longest), dtype=torch.bool)
        for row, piece in enumerate(pieces):
            # numpy's uint16 has no counterpart in torch
            padded[row, : len(piece)] = torch.from_numpy(piece.astype(_NUMPY[dtype]))
            mask[row, : len(piece)] = True
        return Padded(padded, mask)

    def __len__(self) -> int:
        return len(self.places)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_arrays": {}}


_NUMPY = {torch.int64: np.int64, torch.float32: np.float32}
