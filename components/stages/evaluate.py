"""evaluate: the model beside named baselines, on the same test rows and the same features, with pictures."""

from typing import Any

import numpy as np

from components.files import write_json
from components.stages.artifacts import dataset_reference, prepared_table, record_for, trained_run
from components.stages.execution import Context
from components.stages.scoring import score


def run(context: Context) -> None:
    import torch

    from components.evaluation.metrics import classification, contingency
    from components.tracking.records import write_record
    from components.training.core.tables import load_table
    from components.training.registry import method

    trained = trained_run(context)
    config, task = trained.config, trained.config.task
    torch.set_num_threads(config.training.threads)
    table = load_table(prepared_table(context, config.dataset), task)
    scored = score(method(config.method), config, trained.weights, table)
    metrics: dict[str, Any] = {
        "model": scored.model,
        "baselines": scored.systems,
        "notes": scored.notes,
        "test_rows": len(table.test),
        "rows_of_other_classes_left_out": table.left_out,
    }
    write_json(context.folder / "metrics.json", metrics)
    labels = table.test.labels.numpy()
    draw(
        context,
        trained.folder,
        task.classes,
        classification(labels, scored.predictions, len(task.classes)).confusion,
        contingency(scored.clusters, labels, scored.num_prototypes, len(task.classes)).T,
    )
    record = record_for(
        context,
        trained,
        metrics=scored.metrics,
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
