"""What the trainer asks of a method's LightningModule, and the sums every one of them keeps."""

from abc import abstractmethod
from collections import defaultdict
from typing import Any

import lightning
import torch
from torch import Tensor, nn

from components.training.data.batches import Batch


class Means:
    """Means over an epoch, weighted by the number of rows, summed in float64."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = defaultdict(float)
        self._counts: dict[str, int] = defaultdict(int)

    def add(self, count: int, **values: Tensor) -> None:
        for name, value in values.items():
            self._sums[name] += float(value.detach().double()) * count
            self._counts[name] += count

    def take(self) -> dict[str, float]:
        """The means so far; counting starts anew."""
        means = {name: total / self._counts[name] for name, total in self._sums.items()}
        self._sums.clear()
        self._counts.clear()
        return means


class TrainableModule(lightning.LightningModule):
    """Base of the methods' modules: `network` is what is saved and exported, `epoch_metrics` what is recorded."""

    network: nn.Module

    def __init__(self) -> None:
        super().__init__()
        self.train_means = Means()
        self.validation_means = Means()

    @abstractmethod
    def losses(self, batch: Any) -> dict[str, Tensor]:
        """Scalar terms of one batch; the one named `loss` is minimised, all are recorded."""

    @abstractmethod
    def state_metrics(self) -> dict[str, float]:
        """What is measured once an epoch on the module itself: separation, temperature, usage."""

    def remarks(self) -> list[str]:
        """What a reader must know of how the training ended, in sentences."""
        return []

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        terms = self.losses(batch)
        self.train_means.add(len(batch[0]), **terms)
        return terms["loss"]

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        with torch.no_grad():
            self.validation_means.add(len(batch[0]), **self.losses(batch))

    def epoch_metrics(self) -> dict[str, float]:
        """The record of the epoch that ends: `train/...`, `validation/...` and the module's own state."""
        return {
            **{f"train/{name}": value for name, value in self.train_means.take().items()},
            **{f"validation/{name}": value for name, value in self.validation_means.take().items()},
            **self.state_metrics(),
        }
