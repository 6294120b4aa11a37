"""The model gate: for every check, metrics that only this check refuses; and nothing passes unmeasured."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.config import ModelGateConfig
from components.errors import CollapseError, ModelGateError
from components.quality import model
from components.quality.core.report import GateReport, require_passed
from components.quality.model import gate_model

OPTIONS = ModelGateConfig(
    min_margin_over_majority=0.05,
    min_utilisation=0.5,
    min_perplexity=2.0,
    min_separation=0.1,
    max_identity_residual=1e-6,
)
HEALTHY = {
    model.WEIGHTS: 321.0,
    model.NONFINITE_WEIGHTS: 0.0,
    model.ACCURACY: 0.90,
    model.MAJORITY_ACCURACY: 0.80,
    model.LOSS: 3.0,
    model.RECONSTRUCTION: 2.0,
    model.DIVERSITY: 1.0,
    model.UTILISATION: 1.0,
    model.PERPLEXITY: 6.5,
    model.SEPARATION: 0.4,
}
# check -> what spoils it
ONLY_THIS: dict[str, dict[str, float]] = {
    "metrics/finite": {"train/loss": math.nan},
    "weights/present": {model.WEIGHTS: 0.0},
    "weights/finite": {model.NONFINITE_WEIGHTS: 1.0},
    "learning/beats_majority": {model.ACCURACY: 0.84},
    "loss/identity": {model.DIVERSITY: 1.0001},
    "loss/terms": {model.RECONSTRUCTION: 3.5, model.DIVERSITY: -0.5},
    "collapse/utilisation": {model.UTILISATION: 0.49},
    "collapse/perplexity": {model.PERPLEXITY: 1.99},
    "collapse/separation": {model.SEPARATION: 0.099},
}


def refused(report: GateReport) -> list[str]:
    return [check.name for check in report.refused]


def test_a_healthy_model_passes() -> None:
    report = gate_model(HEALTHY, OPTIONS)
    assert report.verdict == "passed"
    assert {check.name for check in report.checks} == {*ONLY_THIS, "metrics/present"}
    require_passed(report)


@pytest.mark.parametrize("check", ONLY_THIS)
def test_only_this_check_refuses(check: str) -> None:
    assert refused(gate_model(HEALTHY | ONLY_THIS[check], OPTIONS)) == [check]


@pytest.mark.parametrize("name", model.REQUIRED)
def test_what_was_not_measured_is_refused(name: str) -> None:
    metrics = {key: value for key, value in HEALTHY.items() if key != name}
    report = gate_model(metrics, OPTIONS)
    assert refused(report) == ["metrics/present"]
    assert name in report.findings[0]


def test_no_metric_at_all_is_refused() -> None:
    with pytest.raises(ModelGateError):
        require_passed(gate_model({}, OPTIONS))


@given(st.sampled_from(sorted(HEALTHY)), st.sampled_from([math.nan, math.inf, -math.inf]))
def test_a_value_that_is_not_finite_is_refused_and_named(name: str, value: float) -> None:
    report = gate_model(HEALTHY | {name: value}, OPTIONS)
    assert refused(report) == ["metrics/finite"]
    assert f"{name} {value}" in report.findings[0]


def test_collapse_has_its_own_error() -> None:
    with pytest.raises(CollapseError, match="collapse/separation"):
        require_passed(gate_model(HEALTHY | {model.SEPARATION: 0.0}, OPTIONS))


def test_equal_to_majority_is_refused_even_without_a_margin() -> None:
    options = OPTIONS.model_copy(update={"min_margin_over_majority": 0.0})
    assert refused(gate_model(HEALTHY | {model.ACCURACY: 0.8}, options)) == ["learning/beats_majority"]
    assert gate_model(HEALTHY | {model.ACCURACY: 0.8001}, options).verdict == "passed"


def test_bounds_themselves_are_allowed() -> None:
    at_bounds = {model.UTILISATION: 0.5, model.PERPLEXITY: 2.0, model.SEPARATION: 0.1}
    assert gate_model(HEALTHY | at_bounds, OPTIONS).verdict == "passed"


@given(st.floats(1.0, 1e6), st.floats(0.1, 10.0))
def test_the_residual_is_relative_above_one(loss: float, excess: float) -> None:
    residual = excess * 1e-6 * loss
    metrics = HEALTHY | {model.LOSS: loss, model.RECONSTRUCTION: 0.0, model.DIVERSITY: loss + residual}
    allowed = abs(excess - 1.0) > 1e-3
    if allowed:
        assert (refused(gate_model(metrics, OPTIONS)) == []) == (excess < 1.0)
