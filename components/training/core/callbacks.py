"""What happens around the steps: reseeding, the check for finite numbers, the history, progress for the reader."""

import math
import time
from collections.abc import Callable
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor
from torch.optim import Optimizer
from typing_extensions import override

from components.errors import BudgetError, NonFiniteError
from components.files import digest_of
from components.training.core.module import TrainableModule
from components.training.data.batches import Batch
from components.training.data.loader import EPOCHS_PER_SEED

HistoryEntry = dict[str, Any]
Listener = Callable[[int, dict[str, float]], None]


class ReseedEachStep(Callback):
    """Make what a step draws (dropout, noise) a function of seed and step, so that resuming changes nothing."""

    def __init__(self, seed: int):
        self.seed = seed

    @override
    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        torch.manual_seed(self.seed * EPOCHS_PER_SEED + trainer.global_step)


class FiniteGuard(Callback):
    """Stop at the first loss or gradient that is not finite, naming step and rows; the last checkpoint stays good."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    @override
    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Batch, batch_idx: int
    ) -> None:
        self.rows = batch.rows.tolist()

    @override
    def on_before_backward(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, loss: Tensor
    ) -> None:
        self._refuse("loss", loss.detach(), trainer)

    @override
    def on_before_optimizer_step(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, optimizer: Optimizer
    ) -> None:
        gradients = [weight.grad for weight in pl_module.parameters() if weight.grad is not None]
        self._refuse("gradient norm", torch.nn.utils.get_total_norm(gradients), trainer)

    def _refuse(self, what: str, value: Tensor, trainer: lightning.Trainer) -> None:
        if not math.isfinite(value.item()):
            shown = ", ".join(str(row) for row in self.rows[:8]) + (", ..." if len(self.rows) > 8 else "")
            raise NonFiniteError(
                f"the {what} is {value.item()} at step {trainer.global_step} (epoch {trainer.current_epoch}, "
                f"training rows {shown}); the last good checkpoint is kept; lower training.learning_rate or look at "
                "these rows"
            )


class History(Callback):
    """The metrics of each epoch. It travels with the checkpoint, so a resumed run has the whole of it."""

    def __init__(self, listener: Listener | None):
        self.entries: list[HistoryEntry] = []
        self.listener = listener

    @override
    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        if not isinstance(pl_module, TrainableModule):
            raise TypeError(f"History records a TrainableModule, not a {type(pl_module).__name__}")
        step, metrics = trainer.global_step, pl_module.epoch_metrics()
        self.entries.append({"step": step, "metrics": metrics})
        if self.listener is not None:
            self.listener(step, metrics)

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"entries": self.entries}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.entries = state_dict["entries"]


class DataOrder(Callback):
    """A fingerprint of each epoch's order of rows: two runs whose fingerprints agree saw the same rows in turn.

    Boundaries of batches do not count, so runs of different batch sizes can be paired. It travels with the checkpoint.
    """

    CHARACTERS = 16

    def __init__(self) -> None:
        self.epochs: list[str] = []
        self.rows: list[int] = []

    @override
    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Batch, batch_idx: int
    ) -> None:
        self.rows += batch.rows.tolist()

    @override
    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self.epochs.append(digest_of(self.rows)[: self.CHARACTERS])
        self.rows = []

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"epochs": self.epochs, "rows": self.rows}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epochs, self.rows = state_dict["epochs"], state_dict["rows"]


class TimeBudget(Callback):
    """Begin no further epoch when the time is over. The checkpoint stays, so a larger budget goes on from it.

    Counted from where this process began or took up the training; one epoch is always made, so that each attempt
    comes further.
    """

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.begun = 0.0
        self.first_epoch = 0

    @override
    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self.begun = time.monotonic()
        self.first_epoch = trainer.current_epoch

    @override
    def on_train_epoch_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        spent = time.monotonic() - self.begun
        if spent > self.seconds and trainer.current_epoch > self.first_epoch:
            raise BudgetError(
                f"{spent:.1f} s were spent before epoch {trainer.current_epoch + 1} of {trainer.max_epochs}, the "
                f"budget is {self.seconds:g} s; raise it, and the run goes on from its checkpoint, or ask for fewer "
                "epochs"
            )


class Progress(Callback):
    """A line now and then on standard output: which epoch of how many, and the metrics a reader watches."""

    LINES = 10
    WATCHED = ("train/loss", "validation/accuracy", "prototypes/separation_min")

    def __init__(self, history: History):
        self.history = history

    @override
    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        epoch, epochs = trainer.current_epoch + 1, trainer.max_epochs or 0
        if epoch % max(1, epochs // self.LINES) == 0 or epoch == epochs:
            metrics = self.history.entries[-1]["metrics"]
            shown = "  ".join(f"{name} {metrics[name]:.4f}" for name in self.WATCHED if name in metrics)
            print(f"epoch {epoch}/{epochs}  {shown}", flush=True)
