"""export: the trained model as an ONNX bundle, with all that a server and its reader need."""

from typing import Any

from components.config import ExportConfig
from components.files import read_json
from components.stages.artifacts import TrainedRun, dataset_reference, prepared_table, record_for, trained_run
from components.stages.execution import Context

MAX_REQUEST_BYTES = 4 * 1024 * 1024


def run(context: Context) -> None:
    import torch

    from components.export.bundle import write_bundle
    from components.export.card import model_card
    from components.export.onnx import export_onnx
    from components.tracking.records import write_record
    from components.training.core.tables import load_table
    from components.training.registry import method

    trained = trained_run(context)
    task = trained.config.task
    config = context.section(ExportConfig, f"experiments.{context.name}.export")
    family = method(trained.config.method)
    servable = family.servable(trained.config, trained.weights)
    table = load_table(prepared_table(context, trained.config.dataset), task)
    # traced with real rows; two of each axis, because a size of one would be taken for a constant
    tokens = table.train.rows[:4].reshape(2, 2, -1)
    model = export_onnx(
        servable.module,
        (tokens, torch.ones(2, 2, dtype=torch.bool)),
        input_names=servable.inputs,
        output_names=servable.outputs,
        max_batch=config.max_batch,
        max_tokens=config.max_tokens,
        opset=config.opset,
    )
    columns = read_json(context.input(f"data/prepared/{trained.config.dataset}/columns.json"))
    summary = read_json(context.input(f"data/prepared/{trained.config.dataset}/summary.json"))
    fields = [{"name": name, **columns[name]} for name in task.features]
    data = dataset_reference(context, trained.config.dataset, "train")
    write_bundle(
        context.folder / "bundle",
        name=context.name,
        model=model,
        schema={
            "inputs": [
                {
                    "name": "tokens",
                    "datatype": "FP32",
                    "shape": [-1, -1, servable.num_features],
                    "fields": fields,
                    "example": [float(f"{value:.6g}") for value in table.test.rows[0].tolist()],
                },
                {"name": "mask", "datatype": "BOOL", "shape": [-1, -1], "optional": True},
            ],
            "outputs": [
                {"name": name, "datatype": "FP32", "shape": [-1, width]}
                for name, width in zip(servable.outputs, servable.widths, strict=True)
            ],
            "limits": {
                "max_batch": config.max_batch,
                "max_tokens": config.max_tokens,
                "max_request_bytes": MAX_REQUEST_BYTES,
            },
        },
        labels=task.classes,
        prototypes=family.describe(trained.config, trained.weights, table),
        preprocessing=family.preprocessing(trained.config, trained.weights),
        model_card=model_card(
            name=context.name,
            method=trained.config.method,
            task=task,
            fields=fields,
            data=summary,
            validation=_validation_metrics(trained),
        ),
        lineage={"digest": trained.digest, "data": data, "scale": trained.scale},
    )
    record = record_for(
        context,
        trained,
        metrics={"export/model_bytes": float(len(model))},
        artifacts=["bundle"],
    )
    write_record(context.folder, record)


def _validation_metrics(trained: TrainedRun) -> dict[str, Any]:
    metrics: dict[str, float] = read_json(trained.folder / "record.json")["metrics"]
    return {name: value for name, value in metrics.items() if name.startswith("validation/")}
