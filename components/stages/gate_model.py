"""gate_model: the trained model is finite, better than no model, and its prototypes are in good health."""

from components.config import ModelGateConfig
from components.files import read_json
from components.stages.artifacts import record_for, trained_run
from components.stages.execution import Context
from components.stages.gating import conclude_gate


def run(context: Context) -> None:
    from safetensors.torch import load_file

    from components.quality.model import NONFINITE_WEIGHTS, WEIGHTS, gate_model
    from components.tracking.records import write_record

    trained = trained_run(context)
    options = context.section(ModelGateConfig, f"experiments.{context.name}.gate")
    weights = load_file(trained.weights)
    metrics: dict[str, float] = {
        **read_json(trained.folder / "record.json")["metrics"],
        WEIGHTS: float(sum(tensor.numel() for tensor in weights.values())),
        NONFINITE_WEIGHTS: float(sum(int((~tensor.isfinite()).sum()) for tensor in weights.values())),
    }
    report = gate_model(metrics, options, subject=f"model {context.name}")
    conclude_gate(context, report)
    record = record_for(
        context,
        trained,
        tags={"gate_model": report.verdict},
        metrics={name: metrics[name] for name in (WEIGHTS, NONFINITE_WEIGHTS)},
        artifacts=["report.json"],
    )
    write_record(context.folder, record)
