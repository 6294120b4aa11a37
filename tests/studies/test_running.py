"""Runs of a study: what they leave, that they resume, that neither company nor order changes them."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.errors import BudgetError, QuintetError
from components.files import files_below, read_json, sha256_file
from components.stages.train import checkpoint_path
from components.studies.inputs import Inputs
from components.studies.plan import Run
from components.studies.running import RunOptions, account, dvc_digest, finished, pending, perform, run_folder
from components.tracking.live import LiveRun
from tests.studies.conftest import MakePlan

OPTIONS = RunOptions("orbital-kind")


def make(root: Path, run: Run, options: RunOptions = OPTIONS) -> dict[str, Any]:
    perform(Inputs(root), run, options, lambda identity, parameters: LiveRun(root, identity, parameters))
    result = finished(root, run.digest)
    assert result is not None
    return result


def bytes_of(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): sha256_file(path) for path in files_below(folder)}


def test_a_run_leaves_all_that_a_comparison_needs_and_nothing_of_the_moment(checkout: Path, plan_of: MakePlan) -> None:
    run = plan_of().runs[0]
    result = make(checkout, run)
    folder = run_folder(checkout, run.digest)
    assert sorted(bytes_of(folder)) == [
        "evaluate/record.json", "manifest.json", "result.json",
        "train/config.json", "train/history.jsonl", "train/record.json",
    ]  # fmt: skip
    assert result["seed"] == 1
    assert result["settings"] == dict(run.settings)
    assert len(result["data_order"]) == 2
    rows = result["costs"]["rows"]
    assert result["costs"]["steps"] == 2 * -(-rows // 128)
    assert 0 < result["metrics"]["test/accuracy"] <= 1
    assert {"baseline/kmeans/accuracy", "baseline/majority/accuracy", "validation/loss"} <= set(result["metrics"])
    said = account(checkout, run.digest)
    assert said["state"] == "succeeded"
    assert said["train_seconds"] > 0
    before = bytes_of(folder)
    # a finished run is not made again, and one that is made again has the same bytes
    perform(Inputs(checkout), run, OPTIONS, lambda identity, parameters: pytest.fail("it trained again"))
    shutil.rmtree(folder)
    make(checkout, run)
    assert bytes_of(folder) == before
    assert not checkpoint_path(checkout, run.digest).exists()


def test_multiply_adds_and_parameters_are_those_of_the_layers(checkout: Path, plan_of: MakePlan) -> None:
    costs = make(checkout, plan_of().runs[0])["costs"]
    features, hidden, dim, prototypes, classes = 7, 64, 24, 48, 3
    encoder = features * hidden + hidden + hidden * dim + dim
    head = (dim + prototypes) * classes + classes
    assert costs["parameters"] == encoder + prototypes * dim + head
    products = features * hidden + hidden * dim + (dim + prototypes) * classes
    # the layer: distances and codes, then the pairwise distances of prototypes and q D
    layer = 2 * prototypes * dim + prototypes * dim * prototypes + prototypes * prototypes
    assert products + 2 * prototypes * dim <= costs["multiply_adds"] <= products + layer


def test_the_digest_of_data_is_dvcs_own(checkout: Path, tmp_path: Path) -> None:
    folder = tmp_path / "repository" / "data"
    shutil.copytree(checkout / "data" / "samples", folder)
    for command in (["init", "--no-scm", "-q"], ["add", "-q", "data"]):
        subprocess.run([sys.executable, "-m", "dvc", *command], cwd=folder.parent, check=True)
    assert f"md5: {dvc_digest(folder)}\n" in (folder.parent / "data.dvc").read_text(encoding="utf-8")


def _die(root: Path, run: Run) -> None:
    from components.training.core.callbacks import History

    original = History.on_train_epoch_end

    def kill_in_second(self: Any, trainer: Any, module: Any) -> None:
        if trainer.current_epoch == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        original(self, trainer, module)

    History.on_train_epoch_end = kill_in_second  # type: ignore[method-assign]
    make(root, run)


def test_a_killed_run_goes_on_from_its_checkpoint_and_ends_with_the_same_bytes(
    checkout: Path, plan_of: MakePlan
) -> None:
    run = plan_of().runs[1]
    make(checkout, run)
    folder = run_folder(checkout, run.digest)
    undisturbed = bytes_of(folder)
    shutil.rmtree(folder)
    process = multiprocessing.get_context("spawn").Process(target=_die, args=(checkout, run))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    assert account(checkout, run.digest)["state"] == "running"
    assert finished(checkout, run.digest) is None
    assert checkpoint_path(checkout, run.digest).is_file()
    make(checkout, run)
    assert account(checkout, run.digest)["resumed"] is True
    assert bytes_of(folder) == undisturbed


def test_a_budget_of_time_ends_a_run_which_then_goes_on_with_a_larger_one(checkout: Path, plan_of: MakePlan) -> None:
    run = plan_of(seeds=[31]).runs[0]
    with pytest.raises(BudgetError, match=r"before epoch 2 of 2, the budget is 1e-09 s; raise it"):
        make(checkout, run, RunOptions("orbital-kind", seconds=1e-9))
    assert account(checkout, run.digest)["state"] == "failed"
    assert "the budget is 1e-09 s" in account(checkout, run.digest)["error"]
    assert finished(checkout, run.digest) is None
    make(checkout, run, RunOptions("orbital-kind", seconds=600))
    assert account(checkout, run.digest)["resumed"] is True


def test_runs_of_one_process_do_not_feel_each_other(checkout: Path, plan_of: MakePlan) -> None:
    first, second = plan_of(seeds=[41]).runs
    alone = {run.digest: make(checkout, run) for run in (first, second)}
    for run in (first, second):
        shutil.rmtree(run_folder(checkout, run.digest))
    again = {run.digest: make(checkout, run) for run in (second, first)}
    assert alone == again
    assert alone[first.digest]["output"] != alone[second.digest]["output"]
    assert alone[first.digest]["data_order"] == alone[second.digest]["data_order"], "the same seed, the same order"


def test_code_that_changes_meanwhile_spoils_no_result(checkout: Path, plan_of: MakePlan, tmp_path: Path) -> None:
    run = plan_of(seeds=[51]).runs[0]
    twin = tmp_path / "twin"
    shutil.copytree(checkout, twin, ignore=shutil.ignore_patterns(".git", "mlflow"))
    code = twin / "components" / "methods" / "ddcl" / "numerics.py"

    def edit(identity: Any, parameters: Any) -> LiveRun:
        with code.open("a", encoding="utf-8") as file:
            file.write("# edited while it ran\n")
        return LiveRun(twin, identity, parameters)

    with pytest.raises(QuintetError, match="changed since the study was planned"):
        perform(Inputs(twin), run, OPTIONS, edit)
    assert finished(twin, run.digest) is None
    with pytest.raises(QuintetError, match="changed since the study was planned"):
        make(twin, run)


def test_pending_are_the_runs_without_a_result_each_once(checkout: Path, plan_of: MakePlan) -> None:
    plan = plan_of(seeds=[61])
    assert pending(checkout, (*plan.runs, *plan.runs)) == plan.runs
    make(checkout, plan.runs[0])
    assert pending(checkout, plan.runs) == plan.runs[1:]
    assert read_json(run_folder(checkout, plan.runs[0].digest) / "result.json")["digest"] == plan.runs[0].digest
