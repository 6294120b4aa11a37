"""evaluate: the model beside named baselines, on the same test rows and the same features, with pictures."""

from typing import Any

import numpy as np

from components.files import write_json
from components.stages.artifacts import dataset_reference, prepared_table, record_for, trained_run
from components.stages.execution import Context
from components.stages.scoring import OWN_PROTOTYPES, score_model

NOTES = {
    "model": "the linear head on mean code and histogram; nmi and ari judge its predictions",
    OWN_PROTOTYPES: (
        "the model without its head: each object goes to its most probable prototype, each prototype is named by "
        "the majority of its training rows; nmi and ari judge the prototypes themselves"
    ),
}


def run(context: Context) -> None:
    import torch

    from components.evaluation.baselines import baseline_data, run_baselines
    from components.evaluation.metrics import classification, contingency, scores
    from components.tracking.records import write_record
    from components.training.core.tables import load_table
    from components.training.registry import method

    trained = trained_run(context)
    config, task = trained.config, trained.config.task
    torch.set_num_threads(config.training.threads)
    family = method(config.method)
    table = load_table(prepared_table(context, config.dataset), task)
    labels = {name: getattr(table, name).labels.numpy() for name in ("train", "test")}
    num_classes = len(task.classes)
    scored = score_model(family, config, trained.weights, table)

    def scaled(rows: np.ndarray) -> np.ndarray:
        values: np.ndarray = family.scaled(config, trained.weights, torch.from_numpy(rows).float()).double().numpy()
        return values

    answers = run_baselines(
        baseline_data(
            table.train.rows.double().numpy(),
            labels["train"],
            table.test.rows.double().numpy(),
            num_classes=num_classes,
            num_clusters=scored.num_prototypes,
            seed=config.seed,
            balanced=task.balanced,
            scaler=scaled,
        )
    )
    systems = {
        OWN_PROTOTYPES: scored.own_prototypes,
        **{
            name: scores(labels["test"], answer.predictions, task.classes, answer.clusters)
            for name, answer in answers.items()
        },
    }
    metrics: dict[str, Any] = {
        "model": scored.model,
        "baselines": systems,
        "notes": {**NOTES, **{name: answer.note for name, answer in answers.items()}},
        "test_rows": len(table.test),
        "rows_of_other_classes_left_out": table.left_out,
    }
    write_json(context.folder / "metrics.json", metrics)
    draw(
        context,
        trained.folder,
        task.classes,
        classification(labels["test"], scored.predictions, num_classes).confusion,
        contingency(scored.clusters, labels["test"], scored.num_prototypes, num_classes).T,
    )
    flat = dict(scored.metrics)
    for system, values in systems.items():
        flat |= {f"baseline/{system}/{name}": value for name, value in values.items()}
    record = record_for(
        context,
        trained,
        metrics=flat,
        artifacts=["metrics.json", "plots"],
        datasets=[dataset_reference(context, config.dataset, "test")],
    )
    write_record(context.folder, record)


def draw(context: Context, training: Any, classes: tuple[str, ...], confusion: np.ndarray, use: np.ndarray) -> None:
    """The pictures of one experiment, into `plots/`."""
    from components.evaluation.plots import plot_confusion, plot_prototype_use, plot_separation, plot_training
    from components.tracking.records import HISTORY_NAME, read_history

    folder = context.folder / "plots"
    folder.mkdir()
    history = read_history(training / HISTORY_NAME)
    steps = [step for step, _ in history]
    series = {name: [metrics[name] for _, metrics in history] for name in history[0][1]}
    plot_confusion(confusion, classes, folder / "confusion.png", f"{context.name}: test rows")
    plot_prototype_use(use, classes, folder / "prototype_use.png", f"{context.name}: prototypes of the test rows")
    plot_separation(
        steps,
        series["prototypes/separation_min"],
        series["prototypes/separation_mean"],
        series["prototypes/temperature"],
        folder / "separation.png",
        f"{context.name}: prototypes over training",
    )
    plot_training(
        steps,
        {name: series[f"{name}/loss"] for name in ("train", "validation")},
        {name: series[f"{name}/accuracy"] for name in ("train", "validation")},
        folder / "training.png",
        f"{context.name}: training",
    )
