"""gate_data: the prepared data are whole, in their ranges and balanced, leak nothing and have not drifted."""

from typing import Any

from components.config import Name, Strict, validated
from components.stages.execution import Context
from components.stages.gating import conclude_gate


class GatedConfig(Strict):
    """The part of a dataset's configuration that its gate depends on."""

    kind: Name
    gate: dict[str, Any]


def run(context: Context) -> None:
    from components.datasets.registry import kind_named
    from components.quality.core.drift import Drift
    from components.quality.core.profile import accepted_profile, profile_path
    from components.quality.registry import gate_named

    config = context.section(GatedConfig, f"datasets.{context.name}")
    options: Any = validated(kind_named(config.kind).GateOptions, config.gate, f"datasets.{context.name}.gate")
    subject = f"data/prepared/{context.name}"
    reference = accepted_profile(context.input(profile_path(context.name)))
    report = gate_named(config.kind).gate(
        context.input(subject),
        options,
        subject=subject,
        docs_folder=context.info / "data_docs" / context.name,
        drift=Drift(reference, options.drift),
    )
    conclude_gate(context, report)
