"""How a gate stage ends: its report kept for a reader, and an error unless everything passed."""

from components.files import write_json
from components.quality.core.report import GateReport, require_passed, write_report
from components.stages.execution import Context


def conclude_gate(context: Context, report: GateReport) -> None:
    """Keep the report where a reader finds it whatever happens, then raise the gate's error unless it passed.

    Only a report that passed becomes an output: a refusal leaves the old output, and everything after it, as it was.
    """
    write_json(context.info / "gates" / f"{context.address}.json", report.to_json())
    require_passed(report)
    write_report(context.folder, report)
