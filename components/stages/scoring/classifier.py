"""What a trained classifier scores on the test rows, by its head and by its prototypes alone, beside the baselines."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from components.config import TrainConfig

if TYPE_CHECKING:
    from components.evaluation.metrics import Indices
    from components.training.data.batches import TrainingData
    from components.training.registry import Tree

OWN_PROTOTYPES = "own_prototypes"
BY_HEAD = "the linear head on what the readout gives it; nmi and ari judge its predictions"
BY_PROTOTYPES = (
    "the model without its head: each object goes to its most probable prototype, each prototype is named by "
    "the majority of its training rows; nmi and ari judge the prototypes themselves"
)


@dataclass(frozen=True)
class Scores:
    """Scores by name, of the model and of every other system; predictions (M,) and clusters (M,) of the test rows.

    `notes` says of each system what it does. `clusters` is None where the model has no prototypes.
    """

    model: dict[str, float]
    systems: dict[str, dict[str, float]]
    notes: dict[str, str]
    labels: "Indices"
    predictions: "Indices"
    clusters: "Indices | None"
    num_prototypes: int
    left_out: int = 0
    tree: "Tree | None" = None
    details: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        details = {
            "model": self.model,
            "baselines": self.systems,
            "notes": self.notes,
            "test_rows": len(self.labels),
            "rows_of_other_classes_left_out": self.left_out,
        }
        object.__setattr__(self, "details", details)

    @property
    def metrics(self) -> dict[str, float]:
        """All of them under the names that records use."""
        flat = {f"test/{name}": value for name, value in self.model.items()}
        for system, values in self.systems.items():
            flat |= {f"baseline/{system}/{name}": value for name, value in values.items()}
        return flat


def score(config: TrainConfig, weights: Path, data: "TrainingData[Any]") -> Scores:
    """Answer for the test rows with the trained model in `weights`, and with each baseline.

    A prototype is named by the majority of the training rows that go to it. The baselines are fitted on the training
    rows with the run's seed, on the features as the model scales them, clusterings with as many clusters as it has
    prototypes, or as there are classes where it has none.
    """
    from components.evaluation.metrics import majority_mapping, scores
    from components.training.registry import classifier

    family = classifier(config.method)
    classes = config.task.classes
    answers = {name: family.answers(config, weights, getattr(data, name)) for name in ("train", "test")}
    labels = {name: getattr(data, name).all_labels().numpy() for name in answers}
    predictions = answers["test"].logits.argmax(dim=1).numpy()
    model, systems, notes = scores(labels["test"], predictions, classes), {}, {"model": BY_HEAD}
    clusters, num_prototypes = None, 0
    mixtures = {name: answer.mixtures for name, answer in answers.items()}
    if mixtures["train"] is not None and mixtures["test"] is not None:
        num_prototypes = mixtures["test"].shape[1]
        clusters = mixtures["test"].argmax(dim=1).numpy()
        mapping = majority_mapping(
            mixtures["train"].argmax(dim=1).numpy(), labels["train"], num_prototypes, len(classes)
        )
        systems[OWN_PROTOTYPES] = scores(labels["test"], mapping[clusters], classes, clusters)
        notes[OWN_PROTOTYPES] = BY_PROTOTYPES
        if not family.supervised(config):
            # the head learnt nothing: the prototypes are the model
            predictions, model, notes["model"] = mapping[clusters], systems[OWN_PROTOTYPES], BY_PROTOTYPES
    for name, answer in _baselines(config, weights, data, labels["train"], num_prototypes or len(classes)).items():
        systems[name] = scores(labels["test"], answer.predictions, classes, answer.clusters)
        notes[name] = answer.note
    return Scores(
        model,
        systems,
        notes,
        labels["test"],
        predictions,
        clusters,
        num_prototypes,
        data.left_out,
        family.tree(config, weights, data.test),
    )


def _baselines(
    config: TrainConfig, weights: Path, data: "TrainingData[Any]", labels: "Indices", num_clusters: int
) -> dict[str, Any]:
    """The answers of each baseline on each view of the rows; a view's name stands before the baseline's."""
    from components.evaluation.baselines import baseline_data, run_baselines
    from components.training.registry import classifier

    family = classifier(config.method)
    views = {name: family.views(config, weights, getattr(data, name)) for name in ("train", "test")}
    found: dict[str, Any] = {}
    for view, rows in views["train"].items():
        answers = run_baselines(
            baseline_data(
                rows.double().numpy(),
                labels,
                views["test"][view].double().numpy(),
                num_classes=len(config.task.classes),
                num_clusters=num_clusters,
                seed=config.seed,
                balanced=config.task.balanced,
            )
        )
        for name, answer in answers.items():
            # the majority does not look at rows, so it is the same in every view
            found[f"{view}_{name}" if view and name != "majority" else name] = answer
    return found


def tell(config: TrainConfig, weights: Path, data: "TrainingData[Any]") -> dict[str, Any]:
    """What each prototype stands for, and some test rows told in prototypes, by the name of the file to write."""
    from components.training.registry import classifier

    family = classifier(config.method)
    told = {
        "prototypes.json": family.describe(config, weights, data.train),
        "explanations.json": family.explain(config, weights, data.test),
    }
    return {name: content for name, content in told.items() if content}


def draw(scored: Scores, config: TrainConfig, training: Path, folder: Path, name: str) -> None:
    """Confusion, use of the prototypes, and the course of training."""
    from components.evaluation.metrics import classification, contingency
    from components.evaluation.pictures import plot_tree
    from components.evaluation.plots import plot_confusion, plot_prototype_use, plot_separation, plot_training
    from components.tracking.records import HISTORY_NAME, read_history

    classes: tuple[str, ...] = config.task.classes
    history = read_history(training / HISTORY_NAME)
    steps = [step for step, _ in history]
    series = {metric: np.array([metrics[metric] for _, metrics in history]) for metric in history[0][1]}
    confusion = classification(scored.labels, scored.predictions, len(classes)).confusion
    plot_confusion(confusion, classes, folder / "confusion.png", f"{name}: test rows")
    if scored.clusters is not None:
        use = contingency(scored.clusters, scored.labels, scored.num_prototypes, len(classes)).T
        plot_prototype_use(use, classes, folder / "prototype_use.png", f"{name}: prototypes of the test rows")
    if scored.tree is not None:
        memberships, sizes = ([part.numpy() for part in parts] for parts in scored.tree)
        plot_tree(memberships, sizes, folder / "tree.png", f"{name}: prototypes, and what those above them gather")
    if "prototypes/temperature" in series:
        plot_separation(
            steps,
            series["prototypes/separation_min"],
            series["prototypes/separation_mean"],
            series["prototypes/temperature"],
            folder / "separation.png",
            f"{name}: prototypes over training",
        )
    if "train/accuracy" in series:
        plot_training(
            steps,
            {part: series[f"{part}/loss"] for part in ("train", "validation")},
            {part: series[f"{part}/accuracy"] for part in ("train", "validation")},
            folder / "training.png",
            f"{name}: training",
        )
