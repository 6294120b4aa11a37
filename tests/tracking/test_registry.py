"""The registry: only what a gate passed, once, with an alias that obeys people; bundles come back byte for byte."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import tracked

from components.errors import BundleError, RecordError, TrackingError, UsageError
from components.export.bundle import verify_bundle
from components.tracking import fetch_bundle, registry, store, synchronise


def aliases(root: Path) -> dict[str, str]:
    return registry.aliases_of(store.open_client(root), tracked.EXPERIMENT)


def test_refused_gate_registers_nothing(root: Path) -> None:
    tracked.write_experiment(root)
    tracked.write_gate(root, verdict="refused")
    report = synchronise(root)
    assert not report.registered
    assert "verdict is 'refused'" in report.not_registered[0][1]
    assert store.open_client(root).search_registered_models() == []


def test_gate_of_another_bundle_registers_nothing(root: Path) -> None:
    tracked.write_experiment(root)
    tracked.write_export(root, scale=3.0)
    report = synchronise(root)
    assert not report.registered
    assert "run gate_export@orbital-kind again" in report.not_registered[0][1]


@pytest.mark.parametrize("missing", ["report.json", "record.json"])
def test_gate_without_proof_registers_nothing(root: Path, missing: str) -> None:
    tracked.write_experiment(root)
    gate = tracked.output(root, "gate_export")
    (gate / missing).unlink()
    if missing == "report.json":
        with pytest.raises(RecordError):
            synchronise(root)
        return
    assert not synchronise(root).registered


def test_rollback_by_hand_survives_and_new_version_takes_over(root: Path) -> None:
    tracked.write_experiment(root)
    synchronise(root)
    tracked.write_experiment(root, "b", scale=3.0)
    assert synchronise(root).registered == ("orbital-kind v2",)
    assert aliases(root) == {"champion": "2"}
    store.open_client(root).set_registered_model_alias(tracked.EXPERIMENT, "champion", "1")
    report = synchronise(root)
    assert not report.registered
    assert "champion is version 1" in report.not_registered[0][1]
    assert aliases(root) == {"champion": "1"}
    tracked.write_experiment(root, "c", scale=4.0)
    assert synchronise(root).registered == ("orbital-kind v3",)
    assert aliases(root) == {"champion": "3"}


def test_new_bundle_of_the_same_training_is_a_new_version(root: Path, tmp_path: Path) -> None:
    tracked.write_experiment(root)
    synchronise(root)
    old = tracked.folder_content(tracked.output(root, "export") / "bundle")
    tracked.write_export(root, scale=3.0)
    tracked.write_gate(root)
    assert synchronise(root).registered == ("orbital-kind v2",)
    # the first version still answers with its own bytes.
    assert tracked.folder_content(fetch_bundle(root, tracked.EXPERIMENT, "1", tmp_path / "one")) == old


def test_kill_between_version_and_alias_is_finished(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    tracked.write_experiment(root)
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "set_registered_model_alias", killed)
        with pytest.raises(Killed):
            synchronise(root)
    assert aliases(root) == {}
    synchronise(root)
    assert aliases(root) == {"champion": "1"}


def test_bundle_comes_back_byte_for_byte(root: Path, tmp_path: Path) -> None:
    tracked.write_experiment(root)
    synchronise(root)
    bundle = tracked.output(root, "export") / "bundle"
    original = tracked.folder_content(bundle)
    shutil.rmtree(bundle)
    out = fetch_bundle(root, tracked.EXPERIMENT, "champion", tmp_path / "out" / "bundle")
    assert tracked.folder_content(out) == original
    verify_bundle(out)
    # a bundle gives way to a bundle.
    (out / "labels.json").write_text("[]")
    fetch_bundle(root, tracked.EXPERIMENT, "champion", out)
    assert tracked.folder_content(out) == original


def test_altered_stored_bundle_is_refused_and_out_untouched(root: Path, tmp_path: Path) -> None:
    tracked.write_experiment(root)
    synchronise(root)
    (model,) = (root / "mlflow" / "artifacts").rglob("bundle/*/model.onnx")
    content = bytearray(model.read_bytes())
    content[-1] ^= 1
    model.write_bytes(bytes(content))
    with pytest.raises(BundleError, match=r"model\.onnx"):
        fetch_bundle(root, tracked.EXPERIMENT, "champion", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    manifest = model.with_name("manifest.json")
    manifest.write_text(manifest.read_text().replace("orbital-kind", "orbital-kink"))
    with pytest.raises(BundleError, match="the store was altered"):
        fetch_bundle(root, tracked.EXPERIMENT, "champion", tmp_path / "out")
    shutil.rmtree(model.parent)
    with pytest.raises(BundleError, match="are not in the store"):
        fetch_bundle(root, tracked.EXPERIMENT, "champion", tmp_path / "out")


def test_fetch_says_what_there_is(root: Path, tmp_path: Path) -> None:
    tracked.write_experiment(root)
    synchronise(root)
    with pytest.raises(TrackingError, match="registered: orbital-kind"):
        fetch_bundle(root, "nothing", "champion", tmp_path / "out")
    with pytest.raises(TrackingError, match=r"aliases: champion \(version 1\)"):
        fetch_bundle(root, tracked.EXPERIMENT, "challenger", tmp_path / "out")
    with pytest.raises(TrackingError, match=r"aliases: champion \(version 1\)"):
        fetch_bundle(root, tracked.EXPERIMENT, "99", tmp_path / "out")


def test_fetch_does_not_replace_a_foreign_folder(root: Path, tmp_path: Path) -> None:
    tracked.write_experiment(root)
    synchronise(root)
    precious = tmp_path / "out" / "thesis.tex"
    precious.parent.mkdir()
    precious.write_text("years")
    with pytest.raises(UsageError, match="not a bundle"):
        fetch_bundle(root, tracked.EXPERIMENT, "champion", precious.parent)
    assert precious.read_text() == "years"


def test_registered_model_answers_through_mlflow(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    tracked.write_experiment(root)
    synchronise(root)
    uri = store.tracking_uri(root)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    previous = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    try:
        model = mlflow.pyfunc.load_model("models:/orbital-kind@champion")
    finally:
        mlflow.set_tracking_uri(previous)
    flavour = model.metadata.flavors["onnx"]
    assert flavour["providers"] == ["CPUExecutionProvider"]
    tokens = np.arange(2 * 3 * 7, dtype=np.float32).reshape(2, 3, 7)
    answer = model.predict({"tokens": tokens, "mask": np.ones((2, 3), dtype=bool)})
    np.testing.assert_allclose(answer["logits"], 2 * tokens.mean(axis=1)[:, :3], rtol=1e-6)
    with pytest.raises(mlflow.exceptions.MlflowException):
        model.predict({"tokens": tokens[..., :6], "mask": np.ones((2, 3), dtype=bool)})


def test_an_experiment_that_is_not_exported_is_no_matter_of_the_registry(root: Path) -> None:
    tracked.write_train(root)
    tracked.write_evaluate(root)
    report = synchronise(root)
    assert report.created
    assert (report.registered, report.not_registered) == ((), ())
