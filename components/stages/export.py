"""export: the trained model as an ONNX bundle, with all that a server and its reader need."""

from typing import TYPE_CHECKING, Any

from components.config import ExportConfig
from components.files import read_json
from components.stages.artifacts import TrainedRun, dataset_reference, read_folder, record_for, trained_run
from components.stages.execution import Context

if TYPE_CHECKING:
    from torch import Tensor

    from components.training.data.batches import Rows, TokenBatch

MAX_REQUEST_BYTES = 4 * 1024 * 1024


def run(context: Context) -> None:
    import torch

    from components.export.bundle import write_bundle
    from components.export.card import model_card
    from components.export.onnx import export_onnx
    from components.tracking.records import write_record
    from components.training.data.forms import read_data
    from components.training.registry import classifier

    trained = trained_run(context)
    task = trained.config.task
    config = context.section(ExportConfig, f"exports.{context.name}")
    family = classifier(trained.config.method)
    servable = family.servable(trained.config, trained.weights)
    folder = read_folder(context, trained.config)
    data = read_data(trained.config, folder)
    # traced with real rows; two of each axis, because a size of one would be taken for a constant
    tokens = real_tokens(data.train, 4).reshape(2, 2, -1)
    model = export_onnx(
        servable.module,
        (tokens, torch.ones(2, 2, dtype=torch.bool)),
        input_names=servable.inputs,
        output_names=servable.outputs,
        max_batch=config.max_batch,
        max_tokens=config.max_tokens,
        opset=config.opset,
    )
    summary = read_json(folder / "summary.json")
    columns = read_json(folder / "columns.json") if task.features else {}
    fields = [{"name": name, **columns[name]} for name in task.features]
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
                    **({"fields": fields} if fields else {}),
                    "example": [float(f"{value:.6g}") for value in real_tokens(data.test, 1)[0].tolist()],
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
        prototypes=family.describe(trained.config, trained.weights, data.train),
        preprocessing=family.preprocessing(trained.config, trained.weights),
        model_card=model_card(
            name=context.name,
            method=trained.config.method,
            task=task,
            fields=fields,
            data=summary,
            width=servable.num_features,
            validation=_validation_metrics(trained),
        ),
        lineage={
            "digest": trained.digest,
            "data": dataset_reference(context, trained.config, "train"),
            "scale": trained.scale,
        },
    )
    record = record_for(
        context,
        trained,
        metrics={"export/model_bytes": float(len(model))},
        artifacts=["bundle"],
    )
    write_record(context.folder, record)


def real_tokens(rows: "Rows[TokenBatch]", count: int) -> "Tensor":
    """The first `count` valid tokens (count, F) of a split."""
    import torch

    found: list[Tensor] = []
    for batch in rows.in_order(count):
        found.append(batch.tokens[batch.mask])
        if sum(map(len, found)) >= count:
            break
    return torch.cat(found)[:count]


def _validation_metrics(trained: TrainedRun) -> dict[str, Any]:
    metrics: dict[str, float] = read_json(trained.folder / "record.json")["metrics"]
    return {name: value for name, value in metrics.items() if name.startswith("validation/")}
