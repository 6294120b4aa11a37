"""Method `ddcl-vq`: configuration checked, module built, trained network loaded."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.config import TrainConfig, validated
from components.errors import ConfigError
from components.training.ddcl.vq_config import VQConfig

if TYPE_CHECKING:
    from components.methods.ddcl.autoencoder import VQAutoencoder
    from components.training.data.batches import TrainingData
    from components.training.data.images import ImageBatch
    from components.training.ddcl.vq import VQModule

SCORED_AS = "autoencoder"
FORM = "images"


def check(config: TrainConfig) -> None:
    read_model_config(config)


def read_model_config(config: TrainConfig) -> VQConfig:
    if config.reads.form != FORM:
        raise ConfigError(f"{config.method} reads rows of form {config.reads.form!r}; it can read: {FORM}")
    return validated(VQConfig, config.model, f"model of a {config.method} experiment")


def model_section(config: TrainConfig) -> dict[str, Any]:
    return read_model_config(config).model_dump(mode="json")


def network(config: TrainConfig) -> "VQAutoencoder":
    from components.methods.ddcl.autoencoder import VQAutoencoder
    from components.training.ddcl.quantisers import QUANTISERS

    model = read_model_config(config)
    return VQAutoencoder(
        model.channels,
        QUANTISERS[model.quantiser](model),
        width=model.width,
        dim=model.dim,
        downsamplings=model.downsamplings,
    )


def untrained(config: TrainConfig, data: "TrainingData[ImageBatch]") -> "VQModule":
    import torch

    from components.training.ddcl.vq import VQModule

    model = read_model_config(config)
    channels = data.train.sample(1, torch.Generator().manual_seed(0)).images.shape[1]
    if channels != model.channels:
        raise ConfigError(f"model.channels is {model.channels}, and the images have {channels}; set it to {channels}")
    # the weights come from torch's global generator, which this process seeds here and uses for nothing else before
    torch.manual_seed(config.seed)
    module = VQModule(network(config), config, model)
    module.initialise(data)
    return module


def trained(config: TrainConfig, weights: Path) -> "VQAutoencoder":
    from safetensors.torch import load_file

    model = network(config)
    model.load_state_dict(load_file(weights))
    return model.eval()
