"""Training of a readout: cross-entropy plus the quantisation loss, on two time scales."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from components.config import TrainConfig
from components.methods.ddcl import TemperatureSchedule, parameter_groups, stable_temperature, temperature_schedule
from components.methods.ddcl.classifier import ClassifierOutput, ReadoutClassifier
from components.methods.ddcl.readouts import HierarchyReadout, PrototypeReadout
from components.training.core.module import TrainableModule
from components.training.core.schedules import with_schedule
from components.training.data.batches import TokenBatch, TrainingData
from components.training.ddcl.config import ReadoutConfig
from components.training.ddcl.watching import PrototypeWatch

# Rows whose tokens the first prototypes are chosen from, and which the monitor looks at.
WARM_ROWS = 2048
# Of those, the tokens of long sequences are thinned to this many.
WARM_TOKENS = 8192


class ReadoutModule(TrainableModule):
    """L = L_task + loss_weight * L_q; prototypes learn at `learning_rate`, all else at `timescale_ratio` times that.

    Without labels L_task is left out. A readout without prototypes learns wholly at the slow rate, as the rest of the
    network beside prototypes does. The temperature is a function of the step alone, set before each step.
    """

    network: ReadoutClassifier
    class_weights: Tensor
    temperature_unit: Tensor

    def __init__(self, network: ReadoutClassifier, config: TrainConfig, model: ReadoutConfig):
        super().__init__()
        self.network = network
        self.config = config
        self.model_config = model
        # only training needs it: what is saved and served is `network`
        self.decoder = (
            nn.Sequential(
                nn.Linear(model.dim, model.hidden),
                nn.GELU(),
                nn.Linear(model.hidden, network.scaler.mean.shape[0]),
            )
            if model.anchor_weight
            else None
        )
        self.register_buffer("class_weights", torch.ones(len(config.task.classes)))
        self.register_buffer("temperature_unit", torch.ones((), dtype=torch.float64))
        self.watch = PrototypeWatch(config.training.learning_rate, config.training.timescale_ratio)
        # of the whole training; known when the rows are
        self.steps = 1

    @torch.no_grad()
    def initialise(self, data: TrainingData[TokenBatch]) -> None:
        """Fit the scaler on the training rows and place the prototypes, as a rule on encoded tokens."""
        task, model, rows = self.config.task, self.model_config, data.train
        self.steps = self.config.training.epochs * -(-len(rows) // self.config.training.batch_size)
        logarithmic = torch.zeros(self.network.scaler.mean.shape[0], dtype=torch.bool)
        for position, name in enumerate(task.features):
            logarithmic[position] = name in task.log_features
        self.network.scaler.fit((batch.tokens[batch.mask] for batch in rows.in_order()), logarithmic)
        if task.balanced:
            labels = rows.all_labels()
            counts = torch.bincount(labels, minlength=len(task.classes)).clamp_min(1)
            self.class_weights.copy_(len(labels) / (len(task.classes) * counts))
        generator = torch.Generator().manual_seed(self.config.seed)
        warm = rows.sample(WARM_ROWS, generator)
        tokens, mask = self._thinned(warm)
        if isinstance(self.network.readout, PrototypeReadout | HierarchyReadout):
            if model.temperature_unit == "variance":
                self.temperature_unit.fill_(stable_temperature(tokens, mask))
            self._set_temperature(0)
            self.network.readout.initialise(
                tokens, generator, mask, noise_std=model.init_noise, method=model.initialisation
            )
            self.watch.look_at(warm)
        else:
            self.network.readout.initialise(tokens, generator, mask)

    @override
    def losses(self, batch: TokenBatch) -> dict[str, Tensor]:
        output: ClassifierOutput = self.network(batch.tokens, batch.mask)
        model, readout = self.model_config, output.readout
        terms = {"quantisation_loss": readout.loss, **readout.terms}
        loss = model.loss_weight * readout.loss
        if model.supervised:
            task = functional.cross_entropy(output.logits, batch.labels, weight=self.class_weights)
            loss = loss + task
            terms |= {"task_loss": task, "accuracy": (output.logits.argmax(dim=-1) == batch.labels).double().mean()}
        if self.decoder is not None and readout.codes is not None:
            values, valid = self.network.scaled(batch.tokens, batch.mask)
            anchor = functional.mse_loss(self.decoder(readout.codes)[valid], values[valid])
            loss = loss + model.anchor_weight * anchor
            terms["anchor_loss"] = anchor
        return {"loss": loss, **terms}

    @override
    def on_train_batch_start(self, batch: TokenBatch, batch_idx: int) -> None:
        self._set_temperature(self.trainer.global_step)

    @override
    def state_metrics(self) -> dict[str, float]:
        readout = self.network.readout
        health = {f"prototypes/{name}": value for name, value in readout.health().items()}
        if not self.model_config.monitor or not isinstance(readout, PrototypeReadout | HierarchyReadout):
            return health
        return {**health, **self.watch.metrics(self.network)}

    @override
    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["prototype_watch"] = self.watch.state_dict()

    @override
    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.watch.load_state_dict(checkpoint["prototype_watch"])

    def remarks(self) -> list[str]:
        """What the monitor said of the last epoch, if it warned of anything."""
        return list(self.watch.reasons)

    @override
    def configure_optimizers(self) -> Any:
        training = self.config.training
        groups: list[dict[str, Any]] = (
            parameter_groups(self, learning_rate=training.learning_rate, timescale_ratio=training.timescale_ratio)
            if isinstance(self.network.readout, PrototypeReadout | HierarchyReadout)
            else [
                {"name": "rest", "params": self.parameters(), "lr": training.learning_rate * training.timescale_ratio}
            ]
        )
        optimizer = torch.optim.AdamW(groups, weight_decay=training.weight_decay)
        return with_schedule(optimizer, training.schedule, self.steps)

    def _thinned(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        """Encoded tokens of some rows and their mask, every so many tokens of them where they are many."""
        tokens, mask = self.network.encode(batch.tokens, batch.mask)
        valid = tokens[mask]
        every = -(-len(valid) // WARM_TOKENS)
        thinned = valid[::every].unsqueeze(0)
        return thinned, torch.ones(thinned.shape[:2], dtype=torch.bool)

    def _set_temperature(self, step: int) -> None:
        readout = self.network.readout
        if isinstance(readout, PrototypeReadout | HierarchyReadout):
            readout.set_temperature(self._schedule()(step) * float(self.temperature_unit))

    def _schedule(self) -> TemperatureSchedule:
        model = self.model_config
        return temperature_schedule(
            model.temperature_schedule,
            start=model.temperature_start,
            end=model.temperature_end,
            steps=max(1, self.steps - 1),
        )
