"""The table at the end of a run, for a terminal and as Markdown for Prefect's pages."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from components.markdown import table as markdown_table
from pipelines.plan import GOOD
from pipelines.progress import STYLES
from pipelines.results import RunResult, evaluations, gate_verdict
from pipelines.runner import StageResult

VERDICT_STYLES = {"passed": "green", "refused": "bold red", "no report": "yellow"}
# What a reader looks for first; the others follow in alphabetical order.
LEADING_METRICS = ("accuracy", "macro_f1", "nmi", "ari", "pixel_error", "explained", "utilisation", "perplexity")
MAX_METRICS = 12


def print_result(root: Path, run: RunResult, console: Console) -> None:
    """Stages with state, duration and verdict; metrics beside their baselines; where to look next."""
    table = Table(title=f"scale {run.scale}: {run.summary().split(';')[0]}, {run.seconds:.1f} s", title_justify="left")
    table.add_column("stage", no_wrap=True)
    table.add_column("state", overflow="fold")
    table.add_column("seconds", justify="right")
    table.add_column("gate")
    for result in (*run.stages, *run.after):
        verdict = gate_verdict(root, result)
        table.add_row(
            result.address,
            f"[{STYLES[result.outcome]}]{escape(state(result))}[/]",
            duration(result),
            f"[{VERDICT_STYLES.get(verdict, '')}]{verdict}[/]" if verdict else "",
        )
    console.print(table)
    for name, systems in evaluations(root, run).items():
        console.print(_metrics_table(name, systems))
    for failure in run.failures:
        log = root / "run_info" / "logs" / f"{failure.address}.log"
        console.print(f"error: {failure.address}: {failure.why}", style="bold red", markup=False, soft_wrap=True)
        console.print(f"       its log: {log.relative_to(root)}", markup=False, soft_wrap=True)
    for what, how in next_steps(root, run):
        console.print(f"{what + ':':<15}{how}", markup=False, highlight=False, soft_wrap=True)


def markdown(root: Path, run: RunResult) -> str:
    """The same table as Markdown."""
    lines = [f"**{run.summary()}** (scale {run.scale}, {run.seconds:.1f} s)", ""]
    states = [
        [result.address, state(result), duration(result), gate_verdict(root, result)]
        for result in (*run.stages, *run.after)
    ]
    lines.append(markdown_table(["stage", "state", "seconds", "gate"], states))
    for name, systems in evaluations(root, run).items():
        names = metric_names(systems)
        rows = [[system, *(number(values.get(metric)) for metric in names)] for system, values in systems.items()]
        lines += ["", markdown_table([name, *names], rows)]
    return "\n".join(lines) + "\n"


def state(result: StageResult) -> str:
    return f"{result.outcome} ({result.why})" if result.why else str(result.outcome)


def duration(result: StageResult) -> str:
    return f"{result.seconds:.1f}" if result.seconds else ""


def number(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, int | float) else ""


def metric_names(systems: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The metrics that the model shares with a baseline, the leading ones first; all of the model's when alone."""
    model = {name for name, value in systems["model"].items() if isinstance(value, int | float)}
    shared = model.intersection(*[set().union(*(values for name, values in systems.items() if name != "model"))])
    ordered = sorted(shared or model, key=lambda name: (_rank(name), name))
    return ordered[:MAX_METRICS]


def next_steps(root: Path, run: RunResult) -> list[tuple[str, str]]:
    """Where to look next: only what is there to be looked at."""
    steps = []
    if (root / "mlflow" / "mlflow.db").is_file():
        steps.append(("MLflow", "quintet up, or: mlflow ui --workers 1 --backend-store-uri sqlite:///mlflow/mlflow.db"))
    docs = sorted((root / "run_info" / "data_docs").glob("*/**/index.html"))
    steps += [("Data Docs", str(path.relative_to(root))) for path in docs[:3]]
    reports = sorted((root / "run_info").glob("report*.html")) + sorted((root / "run_info").glob("report*/index.html"))
    steps += [("report", str(path.relative_to(root))) for path in reports[:1]]
    exported = [
        result.address for result in run.stages if result.address.startswith("gate_export@") and result.outcome in GOOD
    ]
    steps += [("serve", f"quintet serve {address.partition('@')[2]}") for address in exported]
    return steps


def _rank(metric: str) -> int:
    name = metric.rpartition("/")[2]
    return LEADING_METRICS.index(name) if name in LEADING_METRICS else len(LEADING_METRICS)


def _metrics_table(name: str, systems: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row a metric and a column a system: there are few systems and many metrics, and a terminal is narrow."""
    table = Table(title=f"{name}: the model beside its baselines, test split", title_justify="left")
    table.add_column("metric", no_wrap=True)
    for system in systems:
        # spaces let a long name wrap
        table.add_column(system.replace("_", " "), justify="right", style="bold" if system == "model" else "")
    for metric in metric_names(systems):
        table.add_row(metric, *(number(values.get(metric)) for values in systems.values()))
    return table
