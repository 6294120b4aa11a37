"""Method `ddcl-readout`: configuration checked, module built, trained network loaded."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.config import TrainConfig, validated
from components.training.ddcl.config import ReadoutConfig

if TYPE_CHECKING:
    import torch

    from components.methods.ddcl.classifier import ReadoutClassifier
    from components.training.core.servable import Servable
    from components.training.core.tables import Table
    from components.training.ddcl.readout import ReadoutModule


def check(config: TrainConfig) -> None:
    read_model_config(config)


def read_model_config(config: TrainConfig) -> ReadoutConfig:
    return validated(ReadoutConfig, config.model, f"model of a {config.method} experiment")


def model_section(config: TrainConfig) -> dict[str, Any]:
    return read_model_config(config).model_dump(mode="json")


def network(config: TrainConfig) -> "ReadoutClassifier":
    from components.methods.ddcl.classifier import ReadoutClassifier

    model = read_model_config(config)
    return ReadoutClassifier(
        len(config.task.features),
        len(config.task.classes),
        dim=model.dim,
        hidden=model.hidden,
        num_prototypes=model.num_prototypes,
    )


def untrained(config: TrainConfig, table: "Table") -> "ReadoutModule":
    import torch

    from components.training.ddcl.readout import ReadoutModule

    # the weights come from torch's global generator, which this process seeds here and uses for nothing else before
    torch.manual_seed(config.seed)
    module = ReadoutModule(network(config), config, read_model_config(config))
    module.initialise(table)
    return module


def trained(config: TrainConfig, weights: Path) -> "ReadoutClassifier":
    from safetensors.torch import load_file

    model = network(config)
    model.load_state_dict(load_file(weights))
    return model.eval()


def servable(config: TrainConfig, weights: Path) -> "Servable":
    from components.methods.ddcl.classifier import ServableClassifier
    from components.training.core.servable import Servable

    classes, prototypes = len(config.task.classes), read_model_config(config).num_prototypes
    return Servable(
        module=ServableClassifier(trained(config, weights)).eval(),
        inputs=ServableClassifier.INPUTS,
        outputs=ServableClassifier.OUTPUTS,
        widths=(classes, classes, prototypes),
        num_features=len(config.task.features),
    )


def describe(config: TrainConfig, weights: Path, table: "Table") -> list[dict[str, Any]]:
    from components.training.ddcl.describe import describe_prototypes

    return describe_prototypes(trained(config, weights), table.train, config.task)


def preprocessing(config: TrainConfig, weights: Path) -> list[dict[str, Any]]:
    scaler = trained(config, weights).scaler
    return [
        {
            "feature": name,
            "logarithm": bool(scaler.logarithmic[index]),
            "mean": float(scaler.mean[index]),
            "standard_deviation": float(scaler.std[index]),
        }
        for index, name in enumerate(config.task.features)
    ]


def predict(config: TrainConfig, weights: Path, tokens: "torch.Tensor") -> tuple["torch.Tensor", "torch.Tensor"]:
    import torch

    with torch.no_grad():
        output = trained(config, weights)(tokens)
    return output.logits, output.histogram


def scaled(config: TrainConfig, weights: Path, rows: "torch.Tensor") -> "torch.Tensor":
    import torch

    with torch.no_grad():
        values: torch.Tensor = trained(config, weights).scaler(rows)
    return values
