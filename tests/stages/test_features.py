"""The stages of features as DVC runs them: a frozen encoder on a prepared text, and the gate that encodes rows anew."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from components.arrays import open_array, save_array
from components.errors import ConfigError, GateError
from components.files import files_below, read_json, write_json, write_text
from components.stages.execution import run_stage
from components.stages.features import chunks_folder
from tests.datasets.checkouts import ROOT

DVC_YAML = """
stages:
  features:
    foreach: ${features}
    do:
      cmd: quintet stage features@${key}
      deps:
      - data/prepared/${item.dataset}
      params:
      - features.${key}.compute
      - features.${key}.dataset
      outs:
      - data/features/${key}:
          persist: true
  gate_features:
    foreach: ${features}
    do:
      cmd: quintet stage gate_features@${key}
      deps:
      - data/features/${key}
      - data/prepared/${item.dataset}
      params:
      - features.${key}.compute
      - features.${key}.dataset
      - features.${key}.gate
      outs:
      - outputs/gate_features/${key}:
          persist: true
"""
TEXTS = ("a short one", "a somewhat longer text than that", "words", "and the last, which is cut: " + "so " * 30)
COMPUTE = {
    "encoder": {"entry": "minilm-l6", "layers": 1},
    "max_tokens": 16,
    "rows_at_once": 3,
    "threads": 1,
    "accelerator": "cpu",
}
GATE = {"max_constant_dimensions": 0.01, "recomputed_rows": 8}


@dataclass
class Project:
    """A checkout with one prepared text; `configure` changes how its features are computed."""

    root: Path

    @property
    def features(self) -> Path:
        return self.root / "data" / "features" / "few"

    def configure(self, **compute: Any) -> None:
        section = {"dataset": "few-texts", "compute": {**COMPUTE, **compute}, "gate": GATE}
        write_text(self.root / "params.yaml", yaml.safe_dump({"features": {"few": section}}))

    def run(self, stage: str) -> dict[str, Any]:
        run_stage(self.root, f"{stage}@few")
        said: dict[str, Any] = read_json(self.root / "run_info" / "stages" / f"{stage}@few.json")
        return said

    def bytes_of_features(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in files_below(self.features)}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "site"))
    root = tmp_path / "project"
    write_text(root / ".dvc" / "config", "[core]\n    no_scm = true\n    analytics = false\n")
    write_text(root / "dvc.yaml", DVC_YAML)
    (root / "data").mkdir()
    shutil.copy(ROOT / "data" / "catalogue.yaml", root / "data")
    rows = [f"{i} {text}" for i in range(2) for text in TEXTS]
    prepare(root / "data" / "prepared" / "few-texts", rows, None)
    project = Project(root)
    project.configure()
    return project


def prepare(folder: Path, first: list[str], second: list[str] | None) -> None:
    """The files that preparing a text writes."""
    count = len(first)
    columns: dict[str, list[Any]] = {
        "id": [f"row {i}" for i in range(count)],
        "text": first,
        "label": [i % 2 for i in range(count)],
        "group": [""] * count,
        "split": [("train", "train", "validation", "test")[i % 4] for i in range(count)],
    }
    if second is not None:
        columns["second"] = second
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    write_json(folder / "summary.json", {"pairs": second is not None, "classes": ["no", "yes"]})


def test_features_are_computed_gated_and_the_same_again(project: Project) -> None:
    said = project.run("features")
    assert (said["device"], said["chunks_resumed"]) == ("cpu", 0)
    summary = read_json(project.features / "summary.json")
    assert (summary["rows"], summary["chunks"], summary["cut"], summary["layers"]) == (8, 3, 2, 1)
    assert summary["tokens"] == len(open_array(project.features / "features.npy"))
    assert summary["compute"]["max_tokens"] == summary["tokens_of_longest"] == 16
    # what is finished leaves no chunks, so that the second run computes all of it
    assert list((project.root / ".quintet" / "features").iterdir()) == []
    project.run("gate_features")
    report = read_json(project.root / "outputs" / "gate_features" / "few" / "report.json")
    assert report["verdict"] == "passed"
    first = project.bytes_of_features()
    assert project.run("features")["chunks_resumed"] == 0
    assert project.bytes_of_features() == first


def test_pairs_go_through_as_pairs(project: Project) -> None:
    project.run("features")
    alone = read_json(project.features / "summary.json")["tokens"]
    folder = project.root / "data" / "prepared" / "few-texts"
    prepare(folder, [f"{i} {text}" for i in range(2) for text in TEXTS], ["and its second"] * 8)
    project.run("features")
    # three words and a separator more in each row that is not cut
    assert alone < read_json(project.features / "summary.json")["tokens"] <= alone + 8 * 4
    project.run("gate_features")


def other_texts(project: Project) -> None:
    prepare(project.root / "data" / "prepared" / "few-texts", [f"quite other {i}" for i in range(8)], None)


def another_layer(project: Project) -> None:
    project.configure(encoder={"entry": "minilm-l6", "layers": 1, "layer": 0})


def edited(project: Project) -> None:
    values = np.array(open_array(project.features / "features.npy"))
    save_array(project.features / "features.npy", -values)


@pytest.mark.parametrize("spoil", [other_texts, another_layer, edited], ids=["texts", "layer", "values"])
def test_features_of_anything_else_are_refused(project: Project, spoil: Callable[[Project], None]) -> None:
    project.run("features")
    spoil(project)
    with pytest.raises(GateError):
        project.run("gate_features")
    assert not (project.root / "outputs" / "gate_features" / "few").exists()


def test_chunks_of_another_device_or_of_other_weights_are_other_chunks(tmp_path: Path) -> None:
    """A kill leaves chunks, and what takes them up may run where there is a GPU, or after a change of the catalogue."""
    identity = {"parameters": {"accelerator": "auto"}}
    facts: dict[str, Any] = {"encoder": "minilm-l6", "files": {"model.safetensors": "a" * 64}}
    folder = chunks_folder(tmp_path, identity, facts, "cpu")
    assert folder == chunks_folder(tmp_path, dict(identity), dict(facts), "cpu")
    others = [
        chunks_folder(tmp_path, identity, facts, "cuda"),
        chunks_folder(tmp_path, identity, {**facts, "files": {"model.safetensors": "b" * 64}}, "cpu"),
        chunks_folder(tmp_path, {"parameters": {"accelerator": "cpu"}}, facts, "cpu"),
    ]
    assert len({folder, *others}) == 4


def test_a_stage_that_was_killed_goes_on_where_it_was(project: Project) -> None:
    folder = project.root / "data" / "prepared" / "few-texts"
    prepare(folder, [f"{i} {text}" for i in range(100) for text in TEXTS], None)
    project.configure(rows_at_once=1)
    code = "import sys; from pathlib import Path; from components.stages.execution import run_stage; "
    command = [sys.executable, "-c", f"{code}run_stage(Path(sys.argv[1]), 'features@few')", project.root]
    process = subprocess.Popen(command, cwd=ROOT)
    deadline = time.monotonic() + 120
    while len(list(project.root.glob(".quintet/features/*/*.sha256"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not project.features.exists()
    finished = len(list(project.root.glob(".quintet/features/*/*.sha256")))
    assert project.run("features")["chunks_resumed"] >= finished >= 3
    resumed = project.bytes_of_features()
    assert project.run("features")["chunks_resumed"] == 0
    assert project.bytes_of_features() == resumed


def test_an_entry_that_is_no_encoder_is_refused(project: Project) -> None:
    project.configure(encoder={"entry": "orbital-sample"})
    with pytest.raises(ConfigError, match="entry 'orbital-sample' is no encoder but is read by 'orbital-"):
        project.run("features")
    assert not project.features.exists()
