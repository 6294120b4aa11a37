"""evaluate: the model beside named baselines, on the same test rows and the same features, with pictures."""

from components.files import write_json
from components.stages.artifacts import dataset_reference, read_folder, record_for, trained_run
from components.stages.execution import Context
from components.stages.scoring import scoring_of


def run(context: Context) -> None:
    import torch

    from components.tracking.records import write_record
    from components.training.data.forms import read_data

    trained = trained_run(context)
    config = trained.config
    torch.set_num_threads(config.training.threads)
    scoring = scoring_of(config)
    data = read_data(config, read_folder(context, config))
    scored = scoring.score(config, trained.weights, data)
    told = scoring.tell(config, trained.weights, data)
    for name, content in told.items():
        write_json(context.folder / name, content)
    write_json(context.folder / "metrics.json", scored.details)
    plots = context.folder / "plots"
    plots.mkdir()
    scoring.draw(scored, config, trained.folder, plots, context.name)
    record = record_for(
        context,
        trained,
        metrics=scored.metrics,
        artifacts=["metrics.json", "plots", *told],
        datasets=[dataset_reference(context, config, "test")],
    )
    write_record(context.folder, record)
