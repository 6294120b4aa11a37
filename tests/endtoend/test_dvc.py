"""One graph, two runners, and every stage run twice: by the flow in one copy, by `dvc repro` in another."""

import json
import re
import shutil
import socket
from pathlib import Path

import pytest

from components.files import read_json, sha256_file
from tests.endtoend import store
from tests.endtoend.copies import OUTPUT_FOLDERS, Copy
from tests.endtoend.undisturbed import First, differences

pytestmark = pytest.mark.endtoend

TEXT = {".json", ".jsonl", ".csv", ".md"}
BINARY = {".npy", ".parquet", ".png", ".onnx", ".safetensors"}
# A moment to the minute, or a place on a machine.
OF_THE_MOMENT = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d|/tmp/|/home/|/root/|/Users/")


def test_both_runners_leave_the_same_bytes(by_flow: First, by_dvc: First) -> None:
    assert differences(by_flow.outputs, by_dvc.outputs) == []
    assert by_flow.copy.lock() == by_dvc.copy.lock()
    assert (by_flow.copy.root / "dvc.lock").read_bytes() == (by_dvc.copy.root / "dvc.lock").read_bytes()
    assert (by_flow.copy.root / "params.yaml").read_bytes() == (by_dvc.copy.root / "params.yaml").read_bytes()


def test_both_runners_leave_the_same_in_the_tracking_store(by_flow: First, by_dvc: First) -> None:
    assert differences(by_flow.tracked, by_dvc.tracked) == []
    assert sum(name.startswith("model ") for name in by_flow.tracked) == 4
    for experiment in ("orbital-regime", "orbital-kind"):
        assert by_flow.tracked[f"model {experiment}: aliases"] == {"champion": "1"}


def test_the_store_is_made_anew_from_the_outputs(by_flow: First, by_dvc: First) -> None:
    root = by_dvc.copy.root
    (root / "mlflow" / "mlflow.db").unlink()
    shutil.rmtree(root / "mlflow" / "artifacts")
    synced = by_dvc.copy.quintet("sync")
    assert synced.code == 0, synced.text
    # also equal to what the flow's trainings had streamed while they ran
    assert differences(store.contents(root), by_flow.tracked) == []


def test_runs_carry_their_lineage(by_flow: First) -> None:
    lock = by_flow.copy.lock()
    for experiment in ("orbital-regime", "orbital-kind"):
        (name,) = [key for key in by_flow.tracked if key.startswith(f"run {experiment}-") and key.endswith(": tags")]
        _, version = by_flow.tracked[f"model {experiment}: version 1"]
        for tags in (by_flow.tracked[name], version):
            for stage in ("train", "export", "gate_export"):
                assert json.loads(tags[f"dvc.{stage}.outs"]) == lock[f"{stage}@{experiment}"]
            assert json.loads(tags["dvc.prepare.outs"]) == lock["prepare@orbital-sample"]
        record = read_json(by_flow.copy.root / "outputs" / "train" / experiment / "record.json")
        assert by_flow.tracked[name]["quintet.digest"] == version["quintet.digest"] == record["digest"]
        gate = read_json(by_flow.copy.root / "outputs" / "gate_export" / experiment / "report.json")
        assert gate["verdict"] == "passed"
        manifest = by_flow.copy.root / "outputs" / "export" / experiment / "bundle" / "manifest.json"
        assert version["quintet.bundle_sha256"] == sha256_file(manifest)


def test_manifests_name_what_dvc_keeps(by_flow: First) -> None:
    compared = 0
    for stages in by_flow.copy.lock().values():
        for path, md5 in stages.items():
            # the lock that came with the clone also names stages of another scale, which did not run here
            if not (by_flow.copy.root / path).exists():
                continue
            manifest = read_json(by_flow.copy.root / path / "manifest.json")
            kept = {entry["relpath"]: entry["md5"] for entry in read_json(cached(by_flow.copy, md5))}
            assert set(kept) == {*manifest["outputs"], "manifest.json"}
            for name, digest in manifest["outputs"].items():
                assert sha256_file(cached(by_flow.copy, kept[name])) == digest, f"{path}/{name}"
                compared += 1
    assert compared > 40


def cached(copy: Copy, md5: str) -> Path:
    return copy.root / ".dvc" / "cache" / "files" / "md5" / md5[:2] / md5[2:]


def test_no_output_speaks_of_the_moment_or_the_machine(by_flow: First) -> None:
    root = by_flow.copy.root
    place = re.compile(re.escape(str(root).encode()))
    # a short name of a machine may well stand in a picture by chance
    host = re.compile(rb"\b" + re.escape(socket.gethostname().encode()) + rb"\b")
    for name in by_flow.outputs:
        content = (root / name).read_bytes()
        is_text = Path(name).suffix in TEXT
        for pattern in (OF_THE_MOMENT, place, host) if is_text else (place,):
            found = pattern.search(content)
            assert found is None, f"{name} holds {found.group()!r}"
    assert {Path(name).suffix for name in by_flow.outputs} == TEXT | BINARY
    assert {Path(name).parts[0] for name in by_flow.outputs} == {Path(name).parts[0] for name in OUTPUT_FOLDERS}
