"""Training of a VQ autoencoder: the pixels' squared error beside the quantiser's own loss."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from components.config import TrainConfig
from components.methods.ddcl import (
    codebook_usage,
    parameter_groups,
    prototype_separation,
    stable_temperature,
    temperature_schedule,
)
from components.methods.ddcl.autoencoder import VQAutoencoder
from components.methods.ddcl.quantiser import SoftVectorQuantizer
from components.training.core.module import TrainableModule
from components.training.core.schedules import with_schedule
from components.training.data.batches import TrainingData
from components.training.data.images import ImageBatch
from components.training.ddcl.vq_config import VQConfig

# Images whose latents the first codes are chosen from.
WARM_IMAGES = 256


class VQModule(TrainableModule):
    """L = (squared error of the pixels) / (their variance around the mean image) + loss_weight * (quantiser's loss).

    The first term is the share of the variance that is left: 1 for a decoder that always answers the mean image.

    The codes of a soft quantiser learn at `learning_rate` and the rest at `timescale_ratio` times that; beside a hard
    quantiser all learn at the slow rate, so that encoder and decoder have the same budget in both.
    """

    network: VQAutoencoder
    temperature_unit: Tensor
    usage: Tensor
    validation_usage: Tensor
    first_use: Tensor
    full_use: Tensor
    variance: Tensor

    def __init__(self, network: VQAutoencoder, config: TrainConfig, model: VQConfig):
        super().__init__()
        self.network = network
        self.config = config
        self.model_config = model
        self.steps = 1
        self.register_buffer("temperature_unit", torch.ones((), dtype=torch.float64))
        self.register_buffer("usage", torch.zeros(model.num_codes, dtype=torch.int64), persistent=False)
        self.register_buffer("validation_usage", torch.zeros(model.num_codes, dtype=torch.int64), persistent=False)
        # shares of the codes in use over the first epoch and at its end
        self.register_buffer("first_use", torch.zeros(2, dtype=torch.float64))
        # the first epoch that used all codes; 0: none yet
        self.register_buffer("full_use", torch.zeros((), dtype=torch.int64))
        # of the validation images around the mean image of training: what answering that one leaves
        self.register_buffer("variance", torch.ones((), dtype=torch.float64))

    @torch.no_grad()
    def initialise(self, data: TrainingData[ImageBatch]) -> None:
        """Place the codes on latents of training images, and measure what the mean image leaves."""
        training, model = self.config.training, self.model_config
        self.steps = training.epochs * -(-len(data.train) // training.batch_size)
        generator = torch.Generator().manual_seed(self.config.seed)
        images = data.train.sample(WARM_IMAGES, generator).images
        latents = self.network.encode(images)
        quantiser = self.network.quantiser
        if isinstance(quantiser, SoftVectorQuantizer):
            if model.temperature_unit == "variance":
                self.temperature_unit.fill_(stable_temperature(latents))
            self._set_temperature(0)
        quantiser.initialise(latents, generator, noise_std=model.init_noise, method=model.initialisation)
        self.variance.fill_(left_by_mean_image(data))

    @override
    def losses(self, batch: ImageBatch) -> dict[str, Tensor]:
        output = self.network(batch.images)
        pixels = functional.mse_loss(output.images, batch.images)
        counts = self.usage if self.training else self.validation_usage
        counts += torch.bincount(output.indices.flatten(), minlength=len(counts))
        quantised = output.quantised
        left = pixels / self.variance.to(pixels.dtype)
        return {
            "loss": left + self.model_config.loss_weight * quantised.loss,
            "pixel_error": pixels,
            "explained": 1 - left,
            "quantisation_loss": quantised.quantisation_loss,
            "reconstruction": quantised.reconstruction,
            "diversity": quantised.diversity,
        }

    @override
    def on_train_batch_start(self, batch: ImageBatch, batch_idx: int) -> None:
        self._set_temperature(self.trainer.global_step)

    @override
    def state_metrics(self) -> dict[str, float]:
        codebook = self.network.quantiser.codebook.detach()
        separation, usage, after = (
            prototype_separation(codebook),
            codebook_usage(self.usage),
            codebook_usage(self.validation_usage),
        )
        self.usage.zero_()
        self.validation_usage.zero_()
        epoch = self.trainer.current_epoch + 1
        if epoch == 1:
            self.first_use.copy_(torch.tensor([usage.utilisation, after.utilisation]))
        if usage.utilisation == 1 and not self.full_use:
            self.full_use.fill_(epoch)
        health = {
            # over all steps of an epoch a code need win but once; at its end the validation latents say what is left
            "prototypes/utilisation_of_first_epoch": float(self.first_use[0]),
            "prototypes/utilisation_after_first_epoch": float(self.first_use[1]),
            "prototypes/validation_utilisation": after.utilisation,
            "prototypes/validation_perplexity": after.perplexity,
            # one more than all epochs where some code was left over in each
            "prototypes/epochs_to_full_use": float(self.full_use or self.config.training.epochs + 1),
            "prototypes/separation_min": separation.minimum,
            "prototypes/separation_mean": separation.mean,
            "prototypes/utilisation": usage.utilisation,
            "prototypes/perplexity": usage.perplexity,
        }
        if isinstance(self.network.quantiser, SoftVectorQuantizer):
            health["prototypes/temperature"] = float(self.network.quantiser.temperature)
        return health

    @override
    def configure_optimizers(self) -> Any:
        training = self.config.training
        slow = training.learning_rate * training.timescale_ratio
        groups: list[dict[str, Any]] = (
            parameter_groups(self, learning_rate=training.learning_rate, timescale_ratio=training.timescale_ratio)
            if isinstance(self.network.quantiser, SoftVectorQuantizer)
            else [{"name": "rest", "params": list(self.parameters()), "lr": slow}]
        )
        optimizer = torch.optim.AdamW(groups, weight_decay=training.weight_decay)
        return with_schedule(optimizer, training.schedule, self.steps)

    def _set_temperature(self, step: int) -> None:
        quantiser, model = self.network.quantiser, self.model_config
        if isinstance(quantiser, SoftVectorQuantizer):
            schedule = temperature_schedule(
                model.temperature_schedule,
                start=model.temperature_start,
                end=model.temperature_end,
                steps=max(1, self.steps - 1),
            )
            quantiser.set_temperature(schedule(step) * float(self.temperature_unit))


def mean_image(data: TrainingData[ImageBatch]) -> Tensor:
    """The mean (C, H, W) of the training images, in float64."""
    total, count = torch.zeros(()), 0
    for batch in data.train.in_order():
        total = total + batch.images.double().sum(dim=0)
        count += len(batch.images)
    return total / count


def left_by_mean_image(data: TrainingData[ImageBatch]) -> float:
    """The mean squared error per pixel of always answering the mean training image, on the validation images."""
    mean = mean_image(data)
    errors = [(batch.images.double() - mean).square().flatten(1).mean(dim=1) for batch in data.validation.in_order()]
    return float(torch.cat(errors).mean())
