"""Every arm of every shipped study trains: a study must not find a broken arm after an hour."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from components.studies.config import StudyConfig, load_studies
from components.studies.inputs import Inputs
from components.studies.plan import plan_study
from components.studies.running import RunOptions, finished, perform
from components.tracking.live import LiveRun
from pipelines.scales import composed

SHIPPED = load_studies(Path(__file__).resolve().parents[2])


def stand_in(root: Path, tiny: Mapping[str, Any], study: StudyConfig) -> str:
    """The study's experiment, or where scale tiny lacks it one of the same method that reads rows of the same form."""
    if study.experiment in tiny["experiments"]:
        return study.experiment
    meant = composed(root, study.scale)["experiments"][study.experiment]
    return next(
        name
        for name, other in tiny["experiments"].items()
        if (other["method"], other["reads"]["form"]) == (meant["method"], meant["reads"]["form"])
    )


@pytest.mark.parametrize("name", SHIPPED)
def test_every_arm_makes_an_epoch(checkout: Path, tiny: Mapping[str, Any], name: str) -> None:
    shipped = SHIPPED[name].model_dump()
    base = {**shipped["base"], "training.accelerator": "cpu"}
    short = StudyConfig.model_validate(
        {
            **shipped,
            "experiment": stand_in(checkout, tiny, SHIPPED[name]),
            "scale": "tiny",
            "base": base,
            "seeds": [1],
            "budget": {"epochs": 1},
        }
    )
    inputs = Inputs(checkout)
    plan = plan_study(inputs, name, short, tiny)
    outputs = set()
    for run in plan.runs:
        perform(inputs, run, RunOptions(short.experiment), lambda identity, told: LiveRun(checkout, identity, told))
        result = finished(checkout, run.digest)
        assert result is not None
        assert {short.metric, *short.also} <= set(result["metrics"]), "a metric that no run has"
        outputs.add(result["output"])
    assert len(outputs) == len(plan.arms), "two arms that cannot be told apart"
