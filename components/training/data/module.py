"""Lightning's view of a prepared folder: loaders for its three splits."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lightning
from torch.utils.data import Dataset
from typing_extensions import override

from components.arrays import SPLITS
from components.errors import ConfigError
from components.training.core.loader import EpochOrder, GivenOrder, ResumableLoader
from components.training.data.features import FeatureRows
from components.training.data.images import ImageRows
from components.training.data.sequences import SequenceRows
from components.training.data.streams import StreamBlocks

# By what a folder holds; a stream needs the length of its blocks as well.
ROWS: Mapping[str, Callable[..., Dataset[Any]]] = {
    "images": ImageRows,
    "longrange": SequenceRows,
    "features": FeatureRows,
    "language": StreamBlocks,
}


class PreparedData(lightning.LightningDataModule):
    """The splits of `folder`. Training rows come in an order that seed and epoch determine, the others as they stand.

    `kind` is one of ROWS, and further arguments (`length` of language blocks) go to its class. Raises ConfigError for a
    kind that has none, DataError for a folder that is not prepared or a split without rows.
    """

    def __init__(
        self,
        folder: Path,
        kind: str,
        batch_size: int,
        seed: int,
        workers: int = 0,
        drop_last: bool = False,
        **more: Any,
    ):
        super().__init__()
        if kind not in ROWS:
            raise ConfigError(f"there are no batches of kind {kind!r}; the kinds are: {', '.join(sorted(ROWS))}")
        self.batch_size = batch_size
        self.seed = seed
        self.workers = workers
        self.drop_last = drop_last
        self.rows = {split: ROWS[kind](folder, split, **more) for split in SPLITS}

    @override
    def train_dataloader(self) -> ResumableLoader[Any]:
        rows = self.rows["train"]
        order = EpochOrder(len(rows), self.seed)  # type: ignore[arg-type]
        return ResumableLoader(rows, self.batch_size, order, self.workers, self.drop_last)

    @override
    def val_dataloader(self) -> ResumableLoader[Any]:
        return self._as_it_stands("validation")

    @override
    def test_dataloader(self) -> ResumableLoader[Any]:
        return self._as_it_stands("test")

    def _as_it_stands(self, split: str) -> ResumableLoader[Any]:
        rows = self.rows[split]
        return ResumableLoader(rows, self.batch_size, GivenOrder(len(rows)), self.workers)  # type: ignore[arg-type]
