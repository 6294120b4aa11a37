"""The result of one run of the graph, kept in `run_info/last_run.json`, and the facts its table shows beside it."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from components.errors import ConfigError
from components.files import read_json, write_json
from pipelines.plan import GOOD
from pipelines.runner import Outcome, StageResult


@dataclass(frozen=True)
class RunResult:
    """`stages` in the order of the graph, then `after`: what was done when it had ended. `started` is in UTC."""

    scale: str
    started: str
    seconds: float
    stages: tuple[StageResult, ...]
    after: tuple[StageResult, ...]

    @property
    def failures(self) -> tuple[StageResult, ...]:
        return tuple(result for result in (*self.stages, *self.after) if result.outcome is Outcome.FAILED)

    @property
    def succeeded(self) -> bool:
        return all(result.outcome in GOOD for result in (*self.stages, *self.after))

    def summary(self) -> str:
        """One sentence for the state of the flow run."""
        counts = {outcome: sum(result.outcome is outcome for result in self.stages) for outcome in Outcome}
        said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
        first = f"; first failure: {self.failures[0].address}: {self.failures[0].why}" if self.failures else ""
        return f"{len(self.stages)} stages: {said}{first}"


def result_path(root: Path) -> Path:
    return root / "run_info" / "last_run.json"


def save_result(root: Path, result: RunResult) -> None:
    write_json(result_path(root), asdict(result))


def load_result(root: Path) -> RunResult:
    """The last run's result. Raises ConfigError when there is none."""
    try:
        content = read_json(result_path(root))
    except FileNotFoundError:
        raise ConfigError(f"{result_path(root)} does not exist: nothing has run here; `quintet run` does") from None
    return RunResult(
        scale=content["scale"],
        started=content["started"],
        seconds=content["seconds"],
        stages=tuple(_stage_result(entry) for entry in content["stages"]),
        after=tuple(_stage_result(entry) for entry in content["after"]),
    )


def gate_verdict(root: Path, result: StageResult) -> str:
    """What a gate said: passed or refused; empty for a stage that is no gate or did not run.

    A gate that refuses fails, and leaves its former report in place: that one is not about this run.
    """
    stage, _, name = result.address.partition("@")
    if not stage.startswith("gate_") or result.outcome is Outcome.NOT_RUN:
        return ""
    report = root / "outputs" / stage / name / "report.json"
    if result.outcome is Outcome.FAILED:
        return "refused"
    return str(read_json(report)["verdict"]) if report.is_file() else "no report"


def evaluations(root: Path, run: RunResult) -> dict[str, dict[str, dict[str, Any]]]:
    """For each experiment that has figures of this run: the metrics of the model, then of each baseline."""
    found = {}
    for result in run.stages:
        stage, _, name = result.address.partition("@")
        path = root / "outputs" / "evaluate" / name / "metrics.json"
        if stage == "evaluate" and result.outcome in GOOD and path.is_file():
            content = read_json(path)
            found[name] = {"model": content["model"], **content.get("baselines", {})}
    return found


def _stage_result(entry: dict[str, Any]) -> StageResult:
    return StageResult(entry["address"], Outcome(entry["outcome"]), entry["seconds"], entry["why"])
