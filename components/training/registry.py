"""The methods that can be trained. A new one is a folder under `components/training` and a line here."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from components.config import Config, TrainConfig
from components.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from components.training.core.module import TrainableModule
    from components.training.core.servable import Servable
    from components.training.core.tables import Table


class Method(Protocol):
    """What a method's training package offers. Importing the package is cheap; its functions import torch."""

    def check(self, config: TrainConfig) -> None:
        """Raise ConfigError when `config.model` or the task does not fit the method."""

    def model_section(self, config: TrainConfig) -> dict[str, Any]:
        """The section `model` with every default written out. Raises ConfigError as `check` does."""

    def untrained(self, config: TrainConfig, table: "Table") -> "TrainableModule":
        """The module as training starts: weights drawn from the seed, prototypes and scales from the training rows."""

    def trained(self, config: TrainConfig, weights: Path) -> "nn.Module":
        """The network with trained weights, in evaluation mode on the CPU."""

    def servable(self, config: TrainConfig, weights: Path) -> "Servable":
        """The trained network as it is deployed."""

    def predict(self, config: TrainConfig, weights: Path, tokens: "Tensor") -> "tuple[Tensor, Tensor]":
        """Logits (B, C) and mixtures of prototypes (B, K) for tokens (B, T, F) in physical units."""

    def scaled(self, config: TrainConfig, weights: Path, rows: "Tensor") -> "Tensor":
        """Rows (N, F) as the trained model scales them, so that baselines see the same features."""

    def describe(self, config: TrainConfig, weights: Path, table: "Table") -> list[dict[str, Any]]:
        """One entry a prototype, in terms of real rows."""

    def preprocessing(self, config: TrainConfig, weights: Path) -> list[dict[str, Any]]:
        """One entry a feature: what the model does with it before anything else."""


METHODS = {
    "ddcl-readout": "components.training.ddcl.readout_method",
}


def method(name: str) -> Method:
    if name not in METHODS:
        raise ConfigError(f"there is no method {name!r}; the methods are: {', '.join(sorted(METHODS))}")
    loaded: Method = importlib.import_module(METHODS[name])
    return loaded


def check_methods(config: Config) -> None:
    """Refuse a configuration whose method sections do not fit, before any stage starts."""
    for experiment in config.experiments.values():
        method(experiment.method).check(experiment)
