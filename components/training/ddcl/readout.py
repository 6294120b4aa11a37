"""Training of the prototype readout: cross-entropy plus the quantisation loss, on two time scales."""

import torch
from torch import Tensor
from torch.nn import functional

from components.config import TrainConfig
from components.methods.ddcl import (
    ExponentialTemperature,
    codebook_usage,
    kmeans_plus_plus,
    parameter_groups,
    prototype_separation,
)
from components.methods.ddcl.classifier import ReadoutClassifier
from components.training.core.batches import Batch
from components.training.core.module import TrainableModule
from components.training.core.tables import Table
from components.training.ddcl.config import ReadoutConfig

# Tokens that k-means++ chooses the first prototypes from.
WARM_TOKENS = 2048


class ReadoutModule(TrainableModule):
    """L = L_task + loss_weight * L_q; prototypes learn at `learning_rate`, all else at `timescale_ratio` times that.

    The temperature is a function of the step alone (exponential from start to end), set before each step.
    """

    network: ReadoutClassifier

    def __init__(self, network: ReadoutClassifier, config: TrainConfig, model: ReadoutConfig):
        super().__init__()
        self.network = network
        self.config = config
        self.model_config = model
        self.register_buffer("usage", torch.zeros(model.num_prototypes), persistent=False)

    @torch.no_grad()
    def initialise(self, table: Table) -> None:
        """Fit the scaler on the training rows and place the prototypes on encoded tokens by k-means++."""
        task = self.config.task
        logarithmic = torch.tensor([name in task.log_features for name in task.features])
        self.network.scaler.fit(table.train.rows, logarithmic)
        generator = torch.Generator().manual_seed(self.config.seed)
        warm = torch.randperm(len(table.train), generator=generator)[:WARM_TOKENS]
        tokens = self.network.encode(table.train.tokens[warm]).flatten(0, 1)
        prototypes = kmeans_plus_plus(tokens, self.model_config.num_prototypes, generator=generator)
        noise = torch.randn(prototypes.shape, generator=generator) * self.model_config.init_noise
        self.network.readout.prototypes.copy_(prototypes + noise)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        tokens, labels, _ = batch
        output = self.network(tokens)
        task = functional.cross_entropy(output.logits, labels)
        if self.training:
            winners = output.ddcl.assignments.detach().flatten(0, 1).argmax(dim=-1)
            self.usage += torch.bincount(winners, minlength=self.model_config.num_prototypes)
        return {
            "loss": task + self.model_config.loss_weight * output.ddcl.loss,
            "task_loss": task,
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
            "prototypes/separation_min": float(separation.minimum),
            "prototypes/separation_mean": float(separation.mean),
            "prototypes/utilisation": float(usage.utilisation),
            "prototypes/perplexity": float(usage.perplexity),
            "prototypes/temperature": float(self.network.readout.temperature),
        }

    def configure_optimizers(self) -> torch.optim.Optimizer:
        training = self.config.training
        groups = parameter_groups(
            self.network, learning_rate=training.learning_rate, timescale_ratio=training.timescale_ratio
        )
        return torch.optim.AdamW(groups, weight_decay=training.weight_decay)

    def _schedule(self) -> ExponentialTemperature:
        last_step = max(1, int(self.trainer.estimated_stepping_batches) - 1)
        return ExponentialTemperature(self.model_config.temperature_start, self.model_config.temperature_end, last_step)
