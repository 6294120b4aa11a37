"""From a study to its runs: what names a run, what is shared, and what is refused before anything runs."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from components.errors import ConfigError, DataGateError
from components.files import read_json
from components.studies.inputs import Inputs
from components.studies.plan import plan_study
from pipelines.scales import composed
from tests.studies.conftest import REFERENCE, MakePlan, study


def digests(plan: Any) -> set[str]:
    return {run.digest for run in plan.runs}


def test_every_arm_has_a_run_for_every_seed_with_a_digest_of_its_own(plan_of: MakePlan) -> None:
    plan = plan_of()
    assert [(run.arm, run.seed) for run in plan.runs] == [
        (REFERENCE, 1), (REFERENCE, 2), ("timescale_ratio=1.0", 1), ("timescale_ratio=1.0", 2),
    ]  # fmt: skip
    assert len(digests(plan)) == 4
    assert digests(plan_of()) == digests(plan)
    settings = plan.runs[0].settings
    assert settings["training.timescale_ratio"] == 0.1
    assert settings["model.init_noise"] == 0.01, "defaults are written out"
    assert settings["datasets.orbital-sample.prepare.max_rows"] == 1500
    assert not {"seed", "gate.min_separation"} & set(settings)


def test_two_studies_share_the_runs_they_have_in_common_whatever_they_are_called(plan_of: MakePlan) -> None:
    by_grid = plan_of()
    arms = {"slow": {"training.timescale_ratio": 0.1}, "none": {"training.timescale_ratio": 0.5}}
    by_name = plan_of(grid={}, arms=arms, varies=["training.timescale_ratio"], reference="slow")
    assert len(digests(by_grid) & digests(by_name)) == 2
    # a default written out is the same configuration
    spelt = plan_of(base={"training.epochs": 2, "training.accelerator": "cpu", "model.init_noise": 0.01})
    assert digests(spelt) == digests(by_grid)


def test_configuration_data_and_code_change_the_digest(
    checkout: Path, tiny: Mapping[str, Any], plan_of: MakePlan, tmp_path: Path
) -> None:
    before = digests(plan_of())
    assert not before & digests(plan_of(base={"training.epochs": 3, "training.accelerator": "cpu"}))
    rows = {"training.epochs": 2, "training.accelerator": "cpu", "datasets.orbital-sample.prepare.max_rows": 1400}
    assert not before & digests(plan_of(base=rows))
    twin = tmp_path / "twin"
    shutil.copytree(checkout, twin, ignore=shutil.ignore_patterns(".git", "outputs"))
    assert digests(plan_study(Inputs(twin), "some", study(), tiny)) == before, "the place of a checkout must not matter"
    with (twin / "components" / "methods" / "ddcl" / "numerics.py").open("a", encoding="utf-8") as code:
        code.write("# another line\n")
    assert not before & digests(plan_study(Inputs(twin), "some", study(), tiny))


def test_the_data_are_those_the_graph_makes_at_this_scale_and_the_checkout_stays_as_it_is(
    checkout: Path, plan_of: MakePlan
) -> None:
    before = (checkout / "params.yaml").read_bytes()
    plan = plan_of()
    context = Inputs(checkout).context(plan.runs[0].params, "train@orbital-kind", checkout)
    summary = read_json(context.input("data/prepared/orbital-sample/summary.json"))
    assert summary["prepare"]["max_rows"] == 1500
    assert read_json(context.input("outputs/gate_data/orbital-sample/report.json"))["verdict"] == "passed"
    assert (checkout / "params.yaml").read_bytes() == before
    assert not (checkout / "data" / "prepared" / "orbital-sample").exists()


def test_data_that_their_gate_refuses_stop_the_study(plan_of: MakePlan) -> None:
    base = {"training.accelerator": "cpu", "datasets.orbital-sample.gate.min_rows": 5000}
    with pytest.raises(DataGateError, match="rows"):
        plan_of(base=base)


def test_an_undeclared_difference_is_refused_and_named(plan_of: MakePlan) -> None:
    arms = {"slow": {"training.timescale_ratio": 0.1}, "fast": {"training.timescale_ratio": 1.0, "model.hidden": 32}}
    with pytest.raises(
        ConfigError,
        match=r"arm fast differs from slow in model.hidden \(32 against 64\), which the study does not vary",
    ):
        plan_of(grid={}, arms=arms, varies=["training.timescale_ratio"], reference="slow")
    plan_of(grid={}, arms=arms, varies=["training.timescale_ratio", "model.hidden"], reference="slow")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"grid": {"training.epoch": [1, 2]}, "reference": "epoch=1"}, r"arm epoch=1: .*training.epoch: Extra inputs"),
        ({"grid": {"model.dims": [8, 16]}, "reference": "dims=8"}, r"arm dims=8: .*dims: Extra inputs"),
        ({"grid": {"model.dim": [16, -3]}, "reference": "dim=16"}, r"arm dim=-3: .*equal to 2 \(got -3\)"),
        ({"grid": {"gate.min_separation": [1, 2]}, "reference": "min_separation=1"}, r"read behind the training"),
        ({"experiment": "nobody"}, r"scale tiny has no experiment 'nobody'; it has: orbital-regime, orbital-kind"),
        ({"grid": {"datasets.orbital-sample.prepare.max_row": [1]}, "reference": "max_row=1"}, r"max_row: Extra"),
    ],
)  # fmt: skip
def test_faults_of_an_arm_are_found_before_anything_runs(plan_of: MakePlan, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plan_of(**changes)


def test_doubles_and_knobs_that_nobody_reads_are_refused(plan_of: MakePlan) -> None:
    arms = {"a": {"model.init_noise": 0.01}, "b": {}}
    with pytest.raises(ConfigError, match="arms a and b are the same runs"):
        plan_of(grid={}, arms=arms, varies=["model.init_noise"], reference="a")
    note = "datasets.orbital-sample.note"
    arms = {"a": {note: "one"}, "b": {note: "two"}}
    with pytest.raises(ConfigError, match="arms a and b are the same runs: what they set apart, no run reads"):
        plan_of(grid={}, arms=arms, varies=[note], reference="a")
    arms = {"a": {"model.dim": 8}, "b": {"model.dim": 16}}
    with pytest.raises(ConfigError, match=r"model.depth is declared as a knob, but no arm sets it"):
        plan_of(grid={}, arms=arms, varies=["model.dim", "model.depth"], reference="a")


@pytest.mark.parametrize("scale", ["tiny", "quick"])
def test_the_shipped_studies_can_be_planned(checkout: Path, scale: str) -> None:
    from components.studies.config import load_studies

    params = composed(checkout, scale)
    inputs = Inputs(checkout)
    for name, config in load_studies(checkout).items():
        if config.scale == scale:
            plan = plan_study(inputs, name, config, params)
            assert len(digests(plan)) == len(plan.runs)
