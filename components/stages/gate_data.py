"""gate_data: the prepared table is whole, in its ranges, balanced over the splits, and leaks nothing."""

from components.config import DataGateConfig
from components.stages.execution import Context
from components.stages.gating import conclude_gate


def run(context: Context) -> None:
    from components.quality.orbital.gate import gate_orbital

    options = context.section(DataGateConfig, f"datasets.{context.name}.gate")
    path = context.input(f"data/prepared/{context.name}") / "table.csv"
    docs = context.root / "run_info" / "data_docs" / context.name
    report = gate_orbital(path, options, subject=path.relative_to(context.root).as_posix(), docs_folder=docs)
    conclude_gate(context, report)
