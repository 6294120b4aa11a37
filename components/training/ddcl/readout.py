"""Training of the prototype readout: cross-entropy plus the quantisation loss, on two time scales."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from components.config import TrainConfig
from components.methods.ddcl import (
    ExponentialTemperature,
    codebook_usage,
    parameter_groups,
    prototype_separation,
    usage_counts,
)
from components.methods.ddcl.classifier import ReadoutClassifier
from components.training.core.batches import Batch
from components.training.core.module import TrainableModule
from components.training.core.schedules import with_schedule
from components.training.core.tables import Table
from components.training.ddcl.config import ReadoutConfig

# Tokens that the first prototypes are chosen from.
WARM_TOKENS = 2048


class ReadoutModule(TrainableModule):
    """L = L_task + loss_weight * L_q; prototypes learn at `learning_rate`, all else at `timescale_ratio` times that.

    The temperature is a function of the step alone (exponential from start to end), set before each step.
    """

    network: ReadoutClassifier
    class_weights: Tensor
    usage: Tensor

    def __init__(self, network: ReadoutClassifier, config: TrainConfig, model: ReadoutConfig):
        super().__init__()
        self.network = network
        self.config = config
        self.model_config = model
        # only training needs it: what is saved and served is `network`
        self.decoder = nn.Sequential(
            nn.Linear(model.dim, model.hidden), nn.GELU(), nn.Linear(model.hidden, len(config.task.features))
        )
        self.register_buffer("class_weights", torch.ones(len(config.task.classes)))
        self.register_buffer("usage", torch.zeros(model.num_prototypes, dtype=torch.int64), persistent=False)

    @torch.no_grad()
    def initialise(self, table: Table) -> None:
        """Fit the scaler on the training rows and place the prototypes, as a rule on encoded tokens."""
        task = self.config.task
        logarithmic = torch.tensor([name in task.log_features for name in task.features])
        self.network.scaler.fit(table.train.rows, logarithmic)
        if task.balanced:
            counts = torch.bincount(table.train.labels, minlength=len(task.classes)).clamp_min(1)
            self.class_weights.copy_(len(table.train) / (len(task.classes) * counts))
        generator = torch.Generator().manual_seed(self.config.seed)
        warm = torch.randperm(len(table.train), generator=generator)[:WARM_TOKENS]
        tokens = self.network.encode(table.train.tokens[warm])
        model = self.model_config
        self.network.readout.initialise(tokens, generator, noise_std=model.init_noise, method=model.initialisation)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        tokens, labels, _ = batch
        output = self.network(tokens)
        task = functional.cross_entropy(output.logits, labels, weight=self.class_weights)
        if self.training:
            self.usage += usage_counts(output.ddcl.assignments)
        anchor = functional.mse_loss(self.decoder(output.ddcl.codes), self.network.scaler(tokens))
        weights = self.model_config
        return {
            "loss": task + weights.loss_weight * output.ddcl.loss + weights.anchor_weight * anchor,
            "task_loss": task,
            "anchor_loss": anchor,
            "quantisation_loss": output.ddcl.loss,
            "reconstruction": output.ddcl.reconstruction,
            "diversity": output.ddcl.diversity,
            "accuracy": (output.logits.argmax(dim=-1) == labels).double().mean(),
        }

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        self.network.readout.set_temperature(self._schedule()(self.trainer.global_step))

    def state_metrics(self) -> dict[str, float]:
        separation = prototype_separation(self.network.readout.prototypes.detach())
        usage = codebook_usage(self.usage)
        self.usage.zero_()
        return {
            "prototypes/separation_min": separation.minimum,
            "prototypes/separation_mean": separation.mean,
            "prototypes/utilisation": usage.utilisation,
            "prototypes/perplexity": usage.perplexity,
            "prototypes/temperature": float(self.network.readout.temperature),
        }

    def configure_optimizers(self) -> Any:
        training = self.config.training
        groups = parameter_groups(self, learning_rate=training.learning_rate, timescale_ratio=training.timescale_ratio)
        optimizer = torch.optim.AdamW(groups, weight_decay=training.weight_decay)
        return with_schedule(optimizer, training.schedule, self._steps())

    def _schedule(self) -> ExponentialTemperature:
        model = self.model_config
        return ExponentialTemperature(model.temperature_start, model.temperature_end, max(1, self._steps() - 1))

    def _steps(self) -> int:
        return int(self.trainer.estimated_stepping_batches)
