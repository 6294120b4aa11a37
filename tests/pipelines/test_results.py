"""The table says what this run did, and nothing of an earlier one."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from components.errors import ConfigError, GateError
from components.files import write_json
from pipelines import after
from pipelines.after import After, run_step
from pipelines.results import RunResult, evaluations, gate_verdict, load_result, save_result
from pipelines.runner import Outcome, StageResult
from pipelines.table import markdown, metric_names, next_steps, print_result

MODEL = {"accuracy": 0.9123, "loss": 0.5, "macro_f1": 0.8, "note": "text"}
BASELINES = {"majority": {"accuracy": 0.5, "macro_f1": 0.25}, "k-means": {"accuracy": 0.7, "macro_f1": 0.6}}


def result(address: str, outcome: Outcome = Outcome.RAN, why: str = "never run") -> StageResult:
    return StageResult(address, outcome, 1.25, why)


def run_of(*stages: StageResult, after: tuple[StageResult, ...] = ()) -> RunResult:
    return RunResult("tiny", "2026-01-01T00:00:00+00:00", 3.0, stages, after)


@pytest.fixture
def evaluated(tmp_path: Path) -> Path:
    write_json(tmp_path / "outputs/evaluate/kind/metrics.json", {"model": MODEL, "baselines": BASELINES})
    write_json(tmp_path / "outputs/gate_model/kind/report.json", {"verdict": "passed", "findings": []})
    return tmp_path


def printed(root: Path, run: RunResult) -> str:
    console = Console(width=160, record=True, file=io.StringIO())
    print_result(root, run, console)
    return console.export_text()


def test_a_result_survives_its_file(tmp_path: Path) -> None:
    run = run_of(result("a", Outcome.FAILED, "no rows"), after=(result("sync"),))
    save_result(tmp_path, run)
    assert load_result(tmp_path) == run
    with pytest.raises(ConfigError, match="nothing has run here; `quintet run` does"):
        load_result(tmp_path / "elsewhere")


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_run_succeeds_only_when_all_ended_well(outcome: Outcome) -> None:
    good = outcome in (Outcome.RAN, Outcome.CACHED, Outcome.RESTORED)
    assert run_of(result("a"), result("b", outcome)).succeeded == good
    assert run_of(result("a"), after=(result("sync", outcome),)).succeeded == good


def test_metrics_stand_beside_their_baselines(evaluated: Path) -> None:
    text = printed(
        evaluated, run_of(result("gate_model@kind"), result("evaluate@kind", Outcome.CACHED, "nothing changed"))
    )
    lines = [line for line in text.splitlines() if "accuracy" in line or "macro_f1" in line]
    assert any("0.9123" in line and "0.5000" in line for line in lines)
    assert any("0.8000" in line and "0.2500" in line for line in lines)
    assert "cached (nothing changed)" in text
    assert "passed" in text
    # what no baseline has cannot be compared
    assert metric_names({"model": MODEL, **BASELINES}) == ["accuracy", "macro_f1"]
    assert metric_names({"model": MODEL}) == ["accuracy", "macro_f1", "loss"]


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.NOT_RUN])
def test_figures_and_verdicts_of_an_earlier_run_are_not_shown(evaluated: Path, outcome: Outcome) -> None:
    run = run_of(
        result("gate_model@kind", outcome, "accuracy is no better than chance"), result("evaluate@kind", outcome)
    )
    assert evaluations(evaluated, run) == {}
    assert gate_verdict(evaluated, run.stages[0]) == ("refused" if outcome is Outcome.FAILED else "")
    assert "passed" not in printed(evaluated, run)


def test_a_gate_without_a_report_has_not_passed(tmp_path: Path) -> None:
    assert gate_verdict(tmp_path, result("gate_model@kind")) == "no report"
    assert gate_verdict(tmp_path, result("train@kind")) == ""


def test_brackets_in_a_message_are_shown_as_they_are(tmp_path: Path) -> None:
    text = printed(tmp_path, run_of(result("a", Outcome.FAILED, "column [bold] is missing")))
    assert "error: a: column [bold] is missing" in text
    assert "run_info/logs/a.log" in text


def test_next_steps_name_only_what_is_there(evaluated: Path) -> None:
    run = run_of(result("gate_export@kind"), result("gate_export@other", Outcome.FAILED))
    assert next_steps(evaluated, run) == [("serve", "quintet serve kind")]
    for name in ("mlflow/mlflow.db", "run_info/data_docs/orbits/index.html", "run_info/report/index.html"):
        (evaluated / name).parent.mkdir(parents=True, exist_ok=True)
        (evaluated / name).touch()
    assert [what for what, _ in next_steps(evaluated, run)] == ["MLflow", "Data Docs", "report", "serve"]


def test_markdown_has_the_same_rows(evaluated: Path) -> None:
    text = markdown(evaluated, run_of(result("evaluate@kind"), result("b", Outcome.FAILED, "a | b")))
    assert "| evaluate@kind | ran (never run) | 1.2 |" in text
    assert "| b | failed (a \\| b) |" in text
    assert "| model | 0.9123 | 0.8000 |" in text


def test_a_step_that_is_refused_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(root: Path) -> str:
        raise GateError("the store is of a refused kind")

    monkeypatch.setitem(after.STEPS, After.SYNC, refuse)
    step = run_step(tmp_path, After.SYNC)
    assert (step.address, step.outcome, step.why) == ("sync", Outcome.FAILED, "the store is of a refused kind")


def test_a_defect_in_a_step_keeps_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def divide(root: Path) -> str:
        return str(1 // 0)

    monkeypatch.setitem(after.STEPS, After.REPORT, divide)
    step = run_step(tmp_path, After.REPORT)
    assert step.outcome is Outcome.FAILED
    assert "ZeroDivisionError" in step.why
    assert "return str(1 // 0)" in (tmp_path / "run_info/logs/report.log").read_text()


def test_a_step_says_what_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(after.STEPS, After.SYNC, lambda root: "2 new runs")
    assert run_step(tmp_path, After.SYNC).why == "2 new runs"
