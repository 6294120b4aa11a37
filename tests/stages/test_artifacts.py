"""How stages find each other's files, and what they say of the run they belong to."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.config import ReadsConfig, TrainConfig
from components.errors import ConfigError, ModelGateError, ParityError
from components.files import digest_of, read_json, write_json
from components.quality.core.report import Check, GateReport
from components.stages.artifacts import (
    dataset_reference,
    read_folder,
    record_for,
    run_digest,
    trained_run,
)
from components.stages.execution import Context, Declaration
from components.stages.gating import conclude_gate
from tests.training.tables import train_config

DIGEST = "ab" * 32


def context(root: Path, stage: str = "gate_model", parameters: dict[str, Any] | None = None) -> Context:
    declaration = Declaration(
        inputs=("data/prepared/sample", "outputs/train/kinds"),
        output=f"outputs/{stage}/kinds",
        parameters=parameters or {"seed": 1},
    )
    folder = root / "fresh"
    folder.mkdir(exist_ok=True)
    return Context(root, f"{stage}@kinds", stage, "kinds", declaration, {"data/prepared/sample": "1" * 64}, folder)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What prepare and train leave behind, as far as the stages after them read it."""
    prepared, trained = tmp_path / "data" / "prepared" / "sample", tmp_path / "outputs" / "train" / "kinds"
    write_json(prepared / "summary.json", {"entry": "some-entry"})
    write_json(prepared / "manifest.json", {"outputs": {"table.csv": "cd" * 32, "summary.json": "ef" * 32}})
    write_json(trained / "config.json", {"experiment": train_config().model_dump(mode="json"), "scale": "quick"})
    write_json(trained / "record.json", {"digest": DIGEST})
    return tmp_path


def test_the_trained_run_is_what_training_wrote(project: Path) -> None:
    run = trained_run(context(project))
    assert run.config == train_config()
    assert (run.experiment, run.scale, run.digest) == ("kinds", "quick", DIGEST)
    assert run.weights == project / "outputs" / "train" / "kinds" / "model.safetensors"


def test_a_configuration_that_training_did_not_write_is_refused(project: Path) -> None:
    path = project / "outputs" / "train" / "kinds" / "config.json"
    content = read_json(path)
    content["experiment"]["seed"] = None
    write_json(path, content)
    with pytest.raises(ConfigError, match=r"config.json of the trained model is refused: seed: .*got None"):
        trained_run(context(project))


def reading(folder: str, gate: str) -> TrainConfig:
    """A configuration whose rows lie there."""
    return train_config().model_copy(update={"reads": ReadsConfig(form="table", folder=folder, gate=gate)})


SAMPLE = reading("prepared/sample", "gate_data/sample")


def test_only_declared_folders_are_found(project: Path) -> None:
    assert read_folder(context(project), SAMPLE) == project / "data" / "prepared" / "sample"
    with pytest.raises(RuntimeError, match=r"reads data/features/other, which dvc\.yaml does not list"):
        read_folder(context(project), reading("features/other", "gate_features/other"))


def test_a_data_set_is_named_by_its_entry_and_the_digest_of_its_files(project: Path) -> None:
    assert dataset_reference(context(project), SAMPLE, "train") == {
        "name": "some-entry",
        "digest": digest_of({"table.csv": "cd" * 32, "summary.json": "ef" * 32}),
        "context": "train",
    }
    write_json(project / "data" / "prepared" / "sample" / "summary.json", {})
    assert dataset_reference(context(project), SAMPLE, "test")["name"] == SAMPLE.dataset


def test_the_digest_of_a_run_is_that_of_all_that_determines_it(project: Path) -> None:
    here = context(project)
    digest = run_digest(here)
    assert digest == digest_of(here.identity)
    assert run_digest(context(project)) == digest
    others = [
        context(project, parameters={"seed": 2}),
        context(project, stage="train"),
        replace(here, input_digests={"data/prepared/sample": "2" * 64}),
        replace(here, name="regimes"),
    ]
    assert len({digest, *(run_digest(other) for other in others)}) == 5
    # where the checkout lies is no part of it
    elsewhere = project / "elsewhere"
    elsewhere.mkdir()
    assert run_digest(replace(here, root=elsewhere, folder=elsewhere)) == digest


def test_a_record_is_filed_under_the_run_that_was_trained(project: Path) -> None:
    here = context(project)
    record = record_for(here, trained_run(here), metrics={"model/weights": 3.0})
    assert (record.stage, record.experiment, record.digest) == ("gate_model", "kinds", DIGEST)
    assert (record.method, record.dataset, record.scale) == ("ddcl-readout", "orbital-sample", "quick")
    assert record.metrics == {"model/weights": 3.0}


def test_a_gate_that_passes_leaves_its_report_in_both_places(project: Path) -> None:
    report = GateReport("model", "model kinds", (Check("finite", True, 0, "none"),))
    conclude_gate(context(project), report)
    assert read_json(project / "fresh" / "report.json")["verdict"] == "passed"
    assert read_json(project / "run_info" / "gates" / "gate_model@kinds.json") == report.to_json()


@pytest.mark.parametrize(("gate", "error"), [("model", ModelGateError), ("export", ParityError)])
@pytest.mark.parametrize("checks", [(), (Check("finite", False, 3, "none", mend="train anew"),)])
def test_a_gate_that_refuses_leaves_its_report_for_the_reader_alone(
    project: Path, gate: Any, error: type[Exception], checks: tuple[Check, ...]
) -> None:
    with pytest.raises(error):
        conclude_gate(context(project), GateReport(gate, "model kinds", checks))
    assert not (project / "fresh" / "report.json").exists()
    said = read_json(project / "run_info" / "gates" / "gate_model@kinds.json")
    assert said["verdict"] == "refused"
    assert said["findings"]
