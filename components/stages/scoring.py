"""What a trained model scores on the test rows, by its head and by its prototypes alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from components.config import TrainConfig

if TYPE_CHECKING:
    from components.evaluation.metrics import Indices
    from components.training.core.tables import Table
    from components.training.registry import Method

OWN_PROTOTYPES = "own_prototypes"


@dataclass(frozen=True)
class ModelScores:
    """Scores by name, of the head and of the prototypes; predictions (M,) and clusters (M,) of the test rows."""

    model: dict[str, float]
    own_prototypes: dict[str, float]
    predictions: "Indices"
    clusters: "Indices"
    num_prototypes: int

    @property
    def metrics(self) -> dict[str, float]:
        """All of them under the names that records use."""
        return {
            **{f"test/{name}": value for name, value in self.model.items()},
            **{f"baseline/{OWN_PROTOTYPES}/{name}": value for name, value in self.own_prototypes.items()},
        }


def score_model(family: "Method", config: TrainConfig, weights: Path, table: "Table") -> ModelScores:
    """Answer for the test rows of `table` with the trained model in `weights`.

    A prototype is named by the majority of the training rows that go to it.
    """
    from components.evaluation.metrics import majority_mapping, scores

    labels = {name: getattr(table, name).labels.numpy() for name in ("train", "test")}
    logits, mixtures = {}, {}
    for name in labels:
        predicted = family.predict(config, weights, getattr(table, name).tokens)
        logits[name], mixtures[name] = (tensor.double().numpy() for tensor in predicted)
    classes, num_prototypes = config.task.classes, mixtures["test"].shape[1]
    predictions = logits["test"].argmax(axis=1)
    clusters = {name: mixture.argmax(axis=1) for name, mixture in mixtures.items()}
    mapping = majority_mapping(clusters["train"], labels["train"], num_prototypes, len(classes))
    return ModelScores(
        model=scores(labels["test"], predictions, classes),
        own_prototypes=scores(labels["test"], mapping[clusters["test"]], classes, clusters["test"]),
        predictions=predictions,
        clusters=clusters["test"],
        num_prototypes=num_prototypes,
    )
