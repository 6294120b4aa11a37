"""A checkout of its own for studies, and a small study on the shipped orbits."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from components.studies.config import StudyConfig
from components.studies.inputs import Inputs
from components.studies.plan import Plan, plan_study
from pipelines.scales import composed
from tests.endtoend.copies import make_copy

REFERENCE = "timescale_ratio=0.1"
STUDY: dict[str, Any] = {
    "question": "Does the ratio matter?",
    "experiment": "orbital-kind",
    "scale": "tiny",
    "base": {"training.epochs": 2, "training.accelerator": "cpu"},
    "grid": {"training.timescale_ratio": [0.1, 1.0]},
    "reference": REFERENCE,
    "seeds": [1, 2],
    "metric": "test/accuracy",
}

MakePlan = Callable[..., Plan]


def study(**changes: Any) -> StudyConfig:
    return StudyConfig.model_validate({**STUDY, **changes})


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh copy in which nothing has run. What tests leave there is kept by digest, so they do not meet."""
    return make_copy(tmp_path_factory.mktemp("studies")).root


@pytest.fixture(scope="session")
def tiny(checkout: Path) -> Mapping[str, Any]:
    return composed(checkout, "tiny")


@pytest.fixture
def plan_of(checkout: Path, tiny: Mapping[str, Any]) -> MakePlan:
    def make(**changes: Any) -> Plan:
        return plan_study(Inputs(checkout), "some", study(**changes), tiny)

    return make
