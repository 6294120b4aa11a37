"""How trained models are scored on test rows. A new kind of model is a module and a line in `SCORINGS`."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from components.config import TrainConfig
from components.errors import ConfigError

if TYPE_CHECKING:
    from components.training.data.batches import TrainingData


class Scored(Protocol):
    """What a model scored: `metrics` flat, under the names that records use; `details` for metrics.json."""

    @property
    def metrics(self) -> dict[str, float]: ...

    @property
    def details(self) -> dict[str, Any]: ...


class Scoring(Protocol):
    """A module that scores models of one kind and draws what there is to see."""

    def score(self, config: TrainConfig, weights: Path, data: "TrainingData[Any]") -> Scored: ...

    def tell(self, config: TrainConfig, weights: Path, data: "TrainingData[Any]") -> dict[str, Any]:
        """What there is to read of the model, by the name of a JSON file."""

    def draw(self, scored: Any, config: TrainConfig, training: Path, folder: Path, name: str) -> None:
        """The pictures of one experiment into `folder`; `training` is where the history of its training lies."""


# By `SCORED_AS` of a method.
SCORINGS: Mapping[str, str] = {
    "autoencoder": "components.stages.scoring.autoencoder",
    "classifier": "components.stages.scoring.classifier",
}


def scoring_of(config: TrainConfig) -> Scoring:
    from components.training.registry import method

    name = method(config.method).SCORED_AS
    if name not in SCORINGS:
        raise ConfigError(f"method {config.method} is scored as {name!r}; known are: {', '.join(sorted(SCORINGS))}")
    loaded: Scoring = importlib.import_module(SCORINGS[name])
    return loaded
