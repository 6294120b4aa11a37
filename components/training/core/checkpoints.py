"""Checkpoints for resuming: written whole or not at all, read without unpickling, kept outside the stage outputs."""

import io
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch.callbacks import Checkpoint
from typing_extensions import override

from components.files import write_bytes


class AtomicCheckpointIO(TorchCheckpointIO):
    """A kill while saving leaves the previous checkpoint in place."""

    @override
    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        write_bytes(Path(path), buffer.getvalue())

    @override
    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        loaded: dict[str, Any] = torch.load(path, map_location=map_location, weights_only=True)
        return loaded


class EpochCheckpoint(Checkpoint):
    """Saves at the end of every n-th epoch; always the same file, the last good state.

    A stage that is killed loses at most n epochs: a resumed run starts at an epoch's beginning, and since the order of
    batches is a function of seed and epoch, it ends where an undisturbed run ends, bit for bit on a CPU.
    """

    def __init__(self, path: Path, every_epochs: int):
        super().__init__()
        self.path = path
        self.every_epochs = every_epochs

    @override
    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        if (trainer.current_epoch + 1) % self.every_epochs == 0:
            trainer.save_checkpoint(self.path)
