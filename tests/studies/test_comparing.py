"""The comparison of a study that really ran: what it writes, what it reports, what it refuses."""

import csv
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from components.errors import ComparisonError, RecordError, UsageError
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
    folder = run_folder(root, digest)
    write_json(folder / "result.json", {**read_json(folder / "result.json"), **changes})
    # as if it had been written so: what was changed by hand is another matter
    manifest = read_json(folder / "manifest.json")
    manifest["files"]["result.json"] = sha256_file(folder / "result.json")
    write_json(folder / "manifest.json", manifest)


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


def test_files_that_were_changed_or_cut_off_are_refused_in_one_line(made: Path, template: Plan) -> None:
    folder = run_folder(made, template.arms[REFERENCE][0].digest)
    before = {name: (folder / name).read_bytes() for name in ("result.json", "train/history.jsonl")}
    for name, content in before.items():
        (folder / name).write_bytes(content.replace(b"0.", b"0.9", 1))
        with pytest.raises(
            RecordError, match=rf"{name} was changed after it was written; delete .* run the study again"
        ):
            compare_study(made, NAME)
        (folder / name).write_bytes(content)
    for content, said in (
        (before["result.json"][:50], "is not JSON"),
        (b"{}", "is not of the form"),
        (b"[]", "is not of"),
    ):
        (folder / "result.json").write_bytes(content)
        with pytest.raises(RecordError, match=rf"result.json {said}"):
            compare_study(made, NAME)
    (folder / "result.json").write_bytes(before["result.json"])
    path = study_folder(made, NAME) / "study.json"
    path.write_text(path.read_text()[:40])
    with pytest.raises(
        RecordError, match=r"study.json is not JSON .*; delete it; `quintet ablate planted` writes it anew"
    ):
        compare_study(made, NAME)


def test_a_note_that_cannot_be_read_costs_the_time_alone(made: Path, template: Plan) -> None:
    account_path(made, template.arms[REFERENCE][0].digest).write_text('{"state": ')
    assert set(compare_study(made, NAME).seconds) == set(template.arms)


def test_the_goal_of_another_metric_can_be_said_but_that_of_the_study_stays(made: Path) -> None:
    assert compare_study(made, NAME, "validation/loss").metrics["validation/loss"].goal == "minimise"
    assert compare_study(made, NAME, "train/loss", "minimise").metrics["train/loss"].goal == "minimise"
    with pytest.raises(UsageError, match="has test/accuracy to maximise, not to minimise"):
        compare_study(made, NAME, "test/accuracy", "minimise")


def test_arms_on_other_data_are_told_of(made: Path, template: Plan) -> None:
    path = study_folder(made, NAME) / "study.json"
    write_json(path, {**read_json(path), "knobs": [*template.config.knobs, "datasets.orbital-sample.prepare.max_rows"]})
    other = "timescale_ratio=1.0,checkpoint_every_epochs=1"
    for seed in (1, 2, 3):
        spoil(made, template, other, seed, {"data": {"data/prepared/orbital-sample": {"sha256": "0", "dvc": "0"}}})
    notes = compare_study(made, NAME).notes
    assert f"not on the data of the reference, so that a difference may be that of the test rows: {other}" in notes


def test_first_runs_of_a_process_have_no_time_where_others_have(made: Path, template: Plan) -> None:
    """All runs of the fixture were made without a word of it, as in processes of their own: all count."""
    digest = template.arms[REFERENCE][1].digest
    write_json(
        account_path(made, digest), {**read_json(account_path(made, digest)), "warm": True, "train_seconds": 7.5}
    )
    assert compare_study(made, NAME).seconds == {REFERENCE: 7.5}
