"""One training run, from a module and its data to trained weights and the history of its epochs."""

import logging
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
import torch

from components.config import TrainConfig
from components.training.core.callbacks import (
    DataOrder,
    FiniteGuard,
    History,
    HistoryEntry,
    Listener,
    Progress,
    ReseedEachStep,
    TimeBudget,
)
from components.training.core.checkpoints import AtomicCheckpointIO, EpochCheckpoint
from components.training.core.device import Choice, choose_device
from components.training.core.module import TrainableModule
from components.training.data.batches import TrainingData
from components.training.data.module import PreparedData


@dataclass(frozen=True)
class FitResult:
    """`history` has one entry an epoch, `data_order` one fingerprint; `resumed`: whether a checkpoint was found."""

    history: list[HistoryEntry]
    data_order: list[str]
    steps: int
    # of this process, on the clock and of the processor: less than the whole where it was resumed
    seconds: float
    cpu_seconds: float
    device: Choice
    resumed: bool


def fit(
    module: TrainableModule,
    data: TrainingData[Any],
    config: TrainConfig,
    checkpoint: Path,
    listener: Listener | None = None,
    seconds: float | None = None,
) -> FitResult:
    """Train `module` in place, from `checkpoint` if that file is there, for `seconds` at most.

    Raises:
        BudgetError: the time is over before the last epoch is; `checkpoint` holds what was reached.
        NonFiniteError: a loss or gradient was not finite; `checkpoint` holds the last good epoch.
        ConfigError: the device asked for is absent.
    """
    quieten_lightning()
    training = config.training
    torch.set_num_threads(training.threads)
    device = choose_device(training.accelerator)
    history, order = History(listener), DataOrder()
    trainer = lightning.Trainer(
        accelerator=device.accelerator,
        devices=1,
        max_epochs=training.epochs,
        deterministic=True,
        gradient_clip_val=training.gradient_clip,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        plugins=[AtomicCheckpointIO()],
        callbacks=[
            ReseedEachStep(config.seed),
            FiniteGuard(),
            history,
            order,
            Progress(history),
            EpochCheckpoint(checkpoint, training.checkpoint_every_epochs),
            *([TimeBudget(seconds)] if seconds is not None else []),
        ],
    )
    resumed = checkpoint.is_file()
    clock, cpu_clock = time.monotonic(), time.process_time()
    trainer.fit(
        module,
        datamodule=PreparedData(data, training.batch_size, config.seed),
        ckpt_path=checkpoint if resumed else None,
    )
    module.cpu()
    spent = time.monotonic() - clock, time.process_time() - cpu_clock
    return FitResult(history.entries, order.epochs, trainer.global_step, *spent, device, resumed)


def quieten_lightning() -> None:
    """Lightning advertises and counts devices at level INFO; what matters of that is in the run record."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # Lightning's own use of a torch interface that torch is about to rename
    warnings.filterwarnings("ignore", message=".*LeafSpec.*is deprecated")
