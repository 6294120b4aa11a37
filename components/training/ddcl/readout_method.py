"""Method `ddcl-readout`: configuration checked, module built, trained network loaded."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.config import TrainConfig, validated
from components.errors import ConfigError
from components.training.ddcl.config import ReadoutConfig
from components.training.registry import Answers, Tree

if TYPE_CHECKING:
    import torch

    from components.methods.ddcl.classifier import ReadoutClassifier
    from components.training.core.servable import Servable
    from components.training.data.batches import Rows, TokenBatch, TrainingData
    from components.training.ddcl.readout import ReadoutModule

SCORED_AS = "classifier"
FORMS = ("table", "features")
# Rows whose mixtures are told after a training.
EXPLAINED = 20


def check(config: TrainConfig) -> None:
    read_model_config(config)


def read_model_config(config: TrainConfig) -> ReadoutConfig:
    model = validated(ReadoutConfig, config.model, f"model of a {config.method} experiment")
    if config.reads.form not in FORMS:
        raise ConfigError(f"{config.method} reads rows of form {config.reads.form!r}; it can read: {', '.join(FORMS)}")
    columns = len(config.task.features)
    if config.reads.form == "table" and (columns == 0 or model.num_features not in (None, columns)):
        raise ConfigError(
            f"model.num_features is {model.num_features} and the task names {columns} features; of a table the task's "
            "features are read: name one or more, and leave num_features out"
        )
    if config.reads.form == "features" and (columns or model.num_features is None):
        raise ConfigError(
            f"model.num_features is {model.num_features} and the task names {columns} features; features of an encoder "
            "have no names: leave task.features out, and give their width as model.num_features"
        )
    return model


def model_section(config: TrainConfig) -> dict[str, Any]:
    return read_model_config(config).model_dump(mode="json")


def supervised(config: TrainConfig) -> bool:
    return read_model_config(config).supervised


def network(config: TrainConfig) -> "ReadoutClassifier":
    from components.methods.ddcl.classifier import ReadoutClassifier
    from components.methods.ddcl.encoders import ENCODERS
    from components.training.ddcl.readouts import READOUTS

    model = read_model_config(config)
    num_features = model.num_features or len(config.task.features)
    try:
        return ReadoutClassifier(
            num_features,
            len(config.task.classes),
            ENCODERS[model.encoder](num_features, model.dim, model.hidden),
            READOUTS[model.readout](model),
            view=model.view,
        )
    except ValueError as error:
        raise ConfigError(f"model of a {config.method} experiment is refused: {error}") from None


def untrained(config: TrainConfig, data: "TrainingData[TokenBatch]") -> "ReadoutModule":
    import torch

    from components.training.ddcl.readout import ReadoutModule

    model = read_model_config(config)
    width = data.train.sample(1, torch.Generator().manual_seed(0)).tokens.shape[-1]
    if width != (model.num_features or len(config.task.features)):
        raise ConfigError(
            f"model.num_features is {model.num_features}, and the rows are {width} wide; set it to {width}"
        )
    # the weights come from torch's global generator, which this process seeds here and uses for nothing else before
    torch.manual_seed(config.seed)
    module = ReadoutModule(network(config), config, model)
    module.initialise(data)
    return module


def trained(config: TrainConfig, weights: Path) -> "ReadoutClassifier":
    from safetensors.torch import load_file

    model = network(config)
    model.load_state_dict(load_file(weights))
    return model.eval()


def servable(config: TrainConfig, weights: Path) -> "Servable":
    from components.methods.ddcl.classifier import ServableClassifier
    from components.training.core.servable import Servable

    model = trained(config, weights)
    classes = len(config.task.classes)
    return Servable(
        module=ServableClassifier(model).eval(),
        inputs=ServableClassifier.INPUTS,
        outputs=ServableClassifier.OUTPUTS,
        widths=(classes, classes, model.readout.num_parts),
        num_features=model.scaler.mean.shape[0],
    )


def describe(config: TrainConfig, weights: Path, rows: "Rows[TokenBatch]") -> list[dict[str, Any]]:
    from components.training.ddcl.describe import describe_prototypes

    return describe_prototypes(trained(config, weights), rows, config.task)


def tree(config: TrainConfig, weights: Path, rows: "Rows[TokenBatch]") -> Tree | None:
    import torch

    from components.methods.ddcl.readouts import HierarchyReadout

    model = trained(config, weights)
    readout = model.readout
    if not isinstance(readout, HierarchyReadout):
        return None
    masses = [torch.zeros(layer.num_prototypes, dtype=torch.float64) for layer in readout.layers]
    with torch.no_grad():
        for batch in rows.in_order():
            for mass, level in zip(masses, readout.stack(*model.encode(batch.tokens, batch.mask)).levels, strict=True):
                mass.add_(level.assignments.double().sum(dim=(0, 1)))
    return Tree(readout.stack.tree(), tuple(mass / mass.sum() for mass in masses))


def explain(config: TrainConfig, weights: Path, rows: "Rows[TokenBatch]") -> list[dict[str, Any]]:
    from components.training.ddcl.describe import explain_rows

    return explain_rows(trained(config, weights), rows, config.task, EXPLAINED)


def preprocessing(config: TrainConfig, weights: Path) -> list[dict[str, Any]]:
    scaler = trained(config, weights).scaler
    names = config.task.features or [f"feature {index}" for index in range(scaler.mean.shape[0])]
    return [
        {
            "feature": name,
            "logarithm": bool(scaler.logarithmic[index]),
            "mean": float(scaler.mean[index]),
            "standard_deviation": float(scaler.std[index]),
        }
        for index, name in enumerate(names)
    ]


def answers(config: TrainConfig, weights: Path, rows: "Rows[TokenBatch]") -> Answers:
    import torch

    model = trained(config, weights)
    with torch.no_grad():
        outputs = [model(batch.tokens, batch.mask) for batch in rows.in_order()]
    logits = torch.cat([output.logits for output in outputs])
    if model.readout.num_parts == 0:
        return Answers(logits, None)
    return Answers(logits, torch.cat([output.readout.mixture for output in outputs]))


def views(config: TrainConfig, weights: Path, rows: "Rows[TokenBatch]") -> "dict[str, torch.Tensor]":
    """A table's rows as they are; of texts the mean of all tokens and the first token, the class token of encoders
    that have one.
    """
    import torch

    from components.methods.ddcl.classifier import VIEWS

    model = trained(config, weights)
    names = {"": "tokens"} if config.reads.form == "table" else {"mean": "mean", "cls": "first"}
    seen: dict[str, list[torch.Tensor]] = {name: [] for name in names}
    with torch.no_grad():
        for batch in rows.in_order():
            values = model.scaler(torch.where(batch.mask.unsqueeze(-1), batch.tokens, 0))
            for name, view in names.items():
                seen[name].append(VIEWS[view](values, batch.mask)[0].squeeze(1))
    return {name: torch.cat(parts) for name, parts in seen.items()}
