"""What a trained model scores on the test rows, by its head and by its prototypes alone, beside the baselines."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from components.config import TrainConfig

if TYPE_CHECKING:
    from components.evaluation.metrics import Indices
    from components.training.core.tables import Table
    from components.training.registry import Method

OWN_PROTOTYPES = "own_prototypes"
NOTES = {
    "model": "the linear head on mean code and histogram; nmi and ari judge its predictions",
    OWN_PROTOTYPES: (
        "the model without its head: each object goes to its most probable prototype, each prototype is named by "
        "the majority of its training rows; nmi and ari judge the prototypes themselves"
    ),
}


@dataclass(frozen=True)
class Scores:
    """Scores by name, of the model and of every other system; predictions (M,) and clusters (M,) of the test rows.

    `notes` says of each system what it does.
    """

    model: dict[str, float]
    systems: dict[str, dict[str, float]]
    notes: dict[str, str]
    predictions: "Indices"
    clusters: "Indices"
    num_prototypes: int

    @property
    def metrics(self) -> dict[str, float]:
        """All of them under the names that records use."""
        flat = {f"test/{name}": value for name, value in self.model.items()}
        for system, values in self.systems.items():
            flat |= {f"baseline/{system}/{name}": value for name, value in values.items()}
        return flat


def score(family: "Method", config: TrainConfig, weights: Path, table: "Table") -> Scores:
    """Answer for the test rows of `table` with the trained model in `weights`, and with each baseline.

    A prototype is named by the majority of the training rows that go to it. The baselines are fitted on the training
    rows with the run's seed, on the features as the model scales them, clusterings with as many clusters as it has
    prototypes.
    """
    import torch

    from components.evaluation.baselines import baseline_data, run_baselines
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

    def scaled(rows: np.ndarray) -> np.ndarray:
        values: np.ndarray = family.scaled(config, weights, torch.from_numpy(rows).float()).double().numpy()
        return values

    answers = run_baselines(
        baseline_data(
            table.train.rows.double().numpy(),
            labels["train"],
            table.test.rows.double().numpy(),
            num_classes=len(classes),
            num_clusters=num_prototypes,
            seed=config.seed,
            balanced=config.task.balanced,
            scaler=scaled,
        )
    )
    return Scores(
        model=scores(labels["test"], predictions, classes),
        systems={
            OWN_PROTOTYPES: scores(labels["test"], mapping[clusters["test"]], classes, clusters["test"]),
            **{
                name: scores(labels["test"], answer.predictions, classes, answer.clusters)
                for name, answer in answers.items()
            },
        },
        notes={**NOTES, **{name: answer.note for name, answer in answers.items()}},
        predictions=predictions,
        clusters=clusters["test"],
        num_prototypes=num_prototypes,
    )
