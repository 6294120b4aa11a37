"""The methods that can be trained. A new one is a folder under `components/training` and a line here."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from components.config import Config, TrainConfig
from components.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from components.training.core.module import TrainableModule
    from components.training.core.servable import Servable
    from components.training.data.batches import Rows, TrainingData


class Method(Protocol):
    """What every method's training package offers. Importing the package is cheap; its functions import torch."""

    # how its models are scored: a name of `components.stages.scoring`
    SCORED_AS: str

    def check(self, config: TrainConfig) -> None:
        """Raise ConfigError when `config.model`, the task or the form of the data does not fit the method."""

    def model_section(self, config: TrainConfig) -> dict[str, Any]:
        """The section `model` with every default written out. Raises ConfigError as `check` does."""

    def untrained(self, config: TrainConfig, data: "TrainingData[Any]") -> "TrainableModule":
        """The module as training starts: weights drawn from the seed, prototypes and scales from the training rows."""

    def trained(self, config: TrainConfig, weights: Path) -> "nn.Module":
        """The network with trained weights, in evaluation mode on the CPU."""


class Answers(NamedTuple):
    """logits (N, C) of all rows of a split; mixtures (N, K) of prototypes, or None where the model has none."""

    logits: "Tensor"
    mixtures: "Tensor | None"


class Tree(NamedTuple):
    """Levels of prototypes from the tokens upwards: memberships (K_l, K_l+1), and each prototype's share (K_l,) of all
    tokens of a split.
    """

    memberships: "tuple[Tensor, ...]"
    sizes: "tuple[Tensor, ...]"


@runtime_checkable
class Classifier(Method, Protocol):
    """A method whose models predict a class. Those of the exported experiments are classifiers."""

    def answers(self, config: TrainConfig, weights: Path, rows: "Rows[Any]") -> Answers:
        """What the trained model says of all rows of a split."""

    def supervised(self, config: TrainConfig) -> bool:
        """Whether the model learnt from labels. Where not, its clusters are named by the majority of training rows."""

    def views(self, config: TrainConfig, weights: Path, rows: "Rows[Any]") -> "dict[str, Tensor]":
        """What baselines see of a split: by name, one vector a row (N, F), scaled as the trained model scales."""

    def servable(self, config: TrainConfig, weights: Path) -> "Servable":
        """The trained network as it is deployed."""

    def describe(self, config: TrainConfig, weights: Path, rows: "Rows[Any]") -> list[dict[str, Any]]:
        """One entry a prototype, in terms of real rows."""

    def tree(self, config: TrainConfig, weights: Path, rows: "Rows[Any]") -> "Tree | None":
        """The levels of a hierarchy, None for any other model."""

    def explain(self, config: TrainConfig, weights: Path, rows: "Rows[Any]") -> list[dict[str, Any]]:
        """Some rows, each told by its mixture of prototypes; empty where the model has none."""

    def preprocessing(self, config: TrainConfig, weights: Path) -> list[dict[str, Any]]:
        """One entry a feature: what the model does with it before anything else."""


METHODS = {
    "ddcl-readout": "components.training.ddcl.readout_method",
    "ddcl-vq": "components.training.ddcl.vq_method",
}


def method(name: str) -> Method:
    if name not in METHODS:
        raise ConfigError(f"there is no method {name!r}; the methods are: {', '.join(sorted(METHODS))}")
    loaded: Method = importlib.import_module(METHODS[name])
    return loaded


def classifier(name: str) -> Classifier:
    """The method `name`. Raises ConfigError where its models predict no class."""
    loaded = method(name)
    if not isinstance(loaded, Classifier):
        raise ConfigError(f"models of method {name!r} predict no class, so there is nothing to export; leave it out")
    return loaded


def check_methods(config: Config) -> None:
    """Refuse a configuration whose method sections do not fit, before any stage starts."""
    for experiment in config.experiments.values():
        method(experiment.method).check(experiment)
    for name in config.exports:
        classifier(config.experiments[name].method)
