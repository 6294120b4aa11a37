"""The comparison of a study that really ran: what it writes, what it reports, what it refuses."""

import csv
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from components.errors import ComparisonError, UsageError
from components.files import files_below, read_json, sha256_file, write_json
from components.studies.comparing import compare_study
from components.studies.inputs import Inputs
from components.studies.plan import Plan, plan_study
from components.studies.running import RUNS, RunOptions, account_path, perform, run_folder
from components.studies.store import read_study, study_folder, write_study
from components.tracking.live import LiveRun
from tests.studies.conftest import study

NAME = "planted"
REFERENCE = "timescale_ratio=0.1,checkpoint_every_epochs=1"
# What a machine's clock tells; all else must not depend on the moment.
OF_THE_MOMENT = {"times.md", "plots/front_seconds.png"}


@pytest.fixture(scope="module")
def template(checkout: Path, tiny: Mapping[str, Any]) -> Plan:
    """A real study of four arms by three seeds; one of its two knobs changes nothing."""
    config = study(
        base={"training.epochs": 1, "training.accelerator": "cpu"},
        grid={"training.timescale_ratio": [0.1, 1.0], "training.checkpoint_every_epochs": [1, 2]},
        reference=REFERENCE,
        seeds=[1, 2, 3],
        also={"validation/loss": "minimise"},
    )
    plan = plan_study(Inputs(checkout), NAME, config, tiny)
    inputs = Inputs(checkout)
    for run in plan.runs:
        perform(inputs, run, RunOptions("orbital-kind"), lambda identity, told: LiveRun(checkout, identity, told))
    return plan


@pytest.fixture
def made(template: Plan, checkout: Path, tmp_path: Path) -> Path:
    """A folder with nothing but the files of the study, for a test to spoil."""
    for part in (RUNS, Path("run_info")):
        shutil.copytree(checkout / part, tmp_path / part)
    write_study(tmp_path, template)
    return tmp_path


def written(root: Path) -> dict[str, str]:
    folder = study_folder(root, NAME)
    found = {path.relative_to(folder).as_posix(): sha256_file(path) for path in files_below(folder)}
    return {name: digest for name, digest in found.items() if name not in OF_THE_MOMENT}


def spoil(root: Path, plan: Plan, arm: str, seed: int, changes: Mapping[str, Any]) -> None:
    digest = next(run.digest for run in plan.runs if (run.arm, run.seed) == (arm, seed))
    path = run_folder(root, digest) / "result.json"
    write_json(path, {**read_json(path), **changes})


def test_the_table_has_the_numbers_of_the_runs(made: Path, template: Plan) -> None:
    comparison = compare_study(made, NAME)
    assert list(comparison.metrics) == ["test/accuracy", "validation/loss"]
    rows = {row["arm"]: row for row in csv.DictReader((study_folder(made, NAME) / "table.csv").open())}
    assert list(rows) == list(template.arms)
    values = {
        arm: [read_json(run_folder(made, run.digest) / "result.json")["metrics"]["test/accuracy"] for run in runs]
        for arm, runs in template.arms.items()
    }
    other = "timescale_ratio=1.0,checkpoint_every_epochs=1"
    assert float(rows[other]["mean"]) == pytest.approx(sum(values[other]) / 3, rel=1e-3)
    expected = stats.ttest_rel(values[other], values[REFERENCE]).pvalue
    assert float(rows[other]["p"]) == pytest.approx(expected, rel=1e-3)
    text = (study_folder(made, NAME) / "table.md").read_text(encoding="utf-8")
    assert "## The reference beside baselines" in text
    assert "baseline kmeans" in text
    assert "| parameters |" in text
    assert comparison.systems is not None
    assert comparison.costs[REFERENCE]["parameters"] == 3443
    assert set(comparison.seconds) == set(template.arms)


def test_the_dead_switch_is_reported_and_the_live_one_is_not(made: Path) -> None:
    comparison = compare_study(made, NAME)
    assert {switch.knob: switch.dead for switch in comparison.switches} == {
        "training.timescale_ratio": False,
        "training.checkpoint_every_epochs": True,
    }
    (note,) = comparison.notes
    assert note.startswith("training.checkpoint_every_epochs is dead: in all 6 pairs of runs")
    assert note in (study_folder(made, NAME) / "table.md").read_text(encoding="utf-8")


def test_the_same_results_give_the_same_bytes_whatever_the_clock_said(made: Path) -> None:
    compare_study(made, NAME)
    before = written(made)
    assert {
        "comparison.json",
        "table.md",
        "summary.md",
        "table.csv",
        "costs.csv",
        "plots/test_accuracy_arms.png",
    } <= set(before)
    compare_study(made, NAME)
    assert written(made) == before
    shutil.rmtree(made / "run_info")
    comparison = compare_study(made, NAME)
    assert written(made) == before
    assert comparison.seconds == {}
    assert not (study_folder(made, NAME) / "plots" / "front_seconds.png").exists()


def test_a_resumed_training_has_no_time(made: Path, template: Plan) -> None:
    digest = template.arms[REFERENCE][0].digest
    path = account_path(made, digest)
    write_json(path, {**read_json(path), "resumed": True, "train_seconds": 1e9})
    assert compare_study(made, NAME).seconds[REFERENCE] < 1e6


def test_planted_undeclared_differences_are_refused_and_all_named(made: Path, template: Plan) -> None:
    other = "timescale_ratio=1.0,checkpoint_every_epochs=1"
    digest = template.arms[other][1].digest
    settings = read_json(run_folder(made, digest) / "result.json")["settings"]
    spoil(made, template, other, 2, {"settings": {**settings, "training.batch_size": 64}, "device": "gpu"})
    with pytest.raises(ComparisonError) as refusal:
        compare_study(made, NAME)
    said = str(refusal.value)
    assert "arm timescale_ratio=1.0,checkpoint_every_epochs=1, seed 2: training.batch_size is 64" in said
    assert "device is 'gpu', that of the reference is 'cpu'" in said
    assert "Declare the knob, or run the study again" in said
    assert not (study_folder(made, NAME) / "table.md").exists()


def test_an_arm_that_lacks_a_run_is_left_out_and_named(made: Path, template: Plan) -> None:
    other = "timescale_ratio=1.0,checkpoint_every_epochs=2"
    run = template.arms[other][2]
    shutil.rmtree(run_folder(made, run.digest))
    write_json(account_path(made, run.digest), {"state": "failed", "error": "the loss is nan at step 3"})
    comparison = compare_study(made, NAME)
    assert other not in {arm.name for arm in comparison.metrics["test/accuracy"].arms}
    assert f"arm {other} is left out, it lacks 1 runs (seed 3: the loss is nan at step 3)" in comparison.notes


def test_without_its_reference_nothing_is_compared(made: Path, template: Plan) -> None:
    shutil.rmtree(run_folder(made, template.arms[REFERENCE][0].digest))
    with pytest.raises(ComparisonError, match=r"lacks 1 of 3 runs .*`quintet ablate planted` makes what is missing"):
        compare_study(made, NAME)


def test_another_metric_is_compared_when_asked_for_and_an_unknown_one_is_refused(made: Path) -> None:
    comparison = compare_study(made, NAME, "test/macro_f1")
    assert list(comparison.metrics) == ["test/accuracy", "validation/loss", "test/macro_f1"]
    assert (study_folder(made, NAME) / "metrics" / "test_macro_f1.md").is_file()
    with pytest.raises(UsageError, match=r"has no metric 'test/f1'; there are: .*test/macro_f1"):
        compare_study(made, NAME, "test/f1")


def test_results_of_other_runs_and_studies_that_never_ran_are_refused(made: Path, template: Plan) -> None:
    spoil(made, template, REFERENCE, 1, {"seed": 2})
    with pytest.raises(ComparisonError, match="is that of another run"):
        compare_study(made, NAME)
    with pytest.raises(UsageError, match=r"'nobody' has not been run here; .*there are results of: planted"):
        read_study(made, "nobody")
