"""Lightning's view of a task's data: loaders for its three splits."""

from typing import Any

import lightning
from typing_extensions import override

from components.training.data.batches import Rows, TrainingData
from components.training.data.loader import EpochOrder, GivenOrder, ResumableLoader


class PreparedData(lightning.LightningDataModule):
    """Training rows come in an order that seed and epoch determine, the others as they stand."""

    def __init__(self, data: TrainingData[Any], batch_size: int, seed: int, workers: int = 0, drop_last: bool = False):
        super().__init__()
        self.rows = data
        self.batch_size = batch_size
        self.seed = seed
        self.workers = workers
        self.drop_last = drop_last

    @override
    def train_dataloader(self) -> ResumableLoader[Any]:
        order = EpochOrder(len(self.rows.train), self.seed)
        return ResumableLoader(self.rows.train, self.batch_size, order, self.workers, self.drop_last)

    @override
    def val_dataloader(self) -> ResumableLoader[Any]:
        return self._as_it_stands(self.rows.validation)

    @override
    def test_dataloader(self) -> ResumableLoader[Any]:
        return self._as_it_stands(self.rows.test)

    def _as_it_stands(self, rows: Rows[Any]) -> ResumableLoader[Any]:
        return ResumableLoader(rows, self.batch_size, GivenOrder(len(rows)), self.workers)
