"""Synchronising: everything arrives, twice changes nothing, an empty store is filled again."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tracked

from components.errors import RecordError, TrackingError
from components.tracking import LiveRun, RunIdentity, lineage, runs, store, synchronise
from components.tracking.fill import stored_sizes

COMMIT = "c" * 40


def only_run(root: Path, seed: str = "a") -> Any:
    client = store.open_client(root)
    experiment = store.experiment_id(client, root, tracked.METHOD)
    run = runs.find_run(client, experiment, tracked.EXPERIMENT, tracked.digest(seed))
    assert run is not None
    return run


def points(root: Path, run: Any, key: str) -> list[tuple[int, float]]:
    """The (step, value) of a metric, every one that is stored, in order of steps."""
    history = store.open_client(root).get_metric_history(run.info.run_id, key)
    return sorted((point.step, point.value) for point in history)


def test_everything_arrives(root: Path) -> None:
    tracked.write_experiment(root)
    tracked.write_stage_info(root, COMMIT)
    tracked.write_lock(root, {"components/files.py": "a" * 32})
    report = synchronise(root)
    name = f"orbital-kind-{tracked.digest('a')[:8]}"
    assert report.created == (name,)
    assert report.registered == ("orbital-kind v1",)
    assert (report.updated, report.unchanged, report.notes, report.not_registered) == ((), (), (), ())
    run = only_run(root)
    assert (run.info.run_name, run.info.status) == (name, "FINISHED")
    # times are those of the stage, not of the synchronisation.
    assert run.info.end_time - run.info.start_time == 12500
    assert run.data.params["model.num_prototypes"] == "8"
    assert run.data.params["model.centre"] == "true"
    assert run.data.params["config_sha256"] == run.data.tags[lineage.CONFIG_TAG]
    assert run.data.metrics["test/accuracy"] == 0.91
    assert points(root, run, "validation/loss") == [
        (step, values["validation/loss"]) for step, values in tracked.history()
    ]
    assert run.data.tags[lineage.COMMIT_TAG] == run.data.tags["mlflow.source.git.commit"] == COMMIT
    assert run.data.tags[lineage.COMMIT_SOURCE_TAG] == lineage.FROM_STAGE
    assert json.loads(run.data.tags["dvc.train.deps"]) == {"components/files.py": "a" * 32}
    assert json.loads(run.data.tags["dvc.prepare.outs"]) == {"data/prepared/orbital-sample": "e" * 32 + ".dir"}
    assert run.data.tags["stage.train.initialisation"] == "k-means++"
    assert run.data.tags["quintet.scale"] == "tiny"
    (used,) = run.inputs.dataset_inputs
    assert used.dataset.name == "orbital-sample"
    assert {tag.key: tag.value for tag in used.tags} == {
        "mlflow.data.context": "train",
        "quintet.digest": tracked.digest("table"),
        "dvc.md5": "e" * 32 + ".dir",
    }
    assert not set(run.data.tags) & set(runs.OWNER_TAGS)


def test_artifacts_are_the_outputs(root: Path, tmp_path: Path) -> None:
    tracked.write_experiment(root)
    synchronise(root)
    run = only_run(root)
    stored = Path(store.open_client(root).download_artifacts(run.info.run_id, "", str(tmp_path)))
    content = tracked.folder_content(stored)
    for stage, name in (
        ("train", "config.json"),
        ("train", "history.jsonl"),
        ("train", "manifest.json"),
        ("evaluate", "plots/confusion.txt"),
        ("gate_export", "report.json"),
    ):
        assert content[f"{stage}/{name}"] == (tracked.output(root, stage) / name).read_bytes()
    assert "lineage.json" in content
    # a bundle is kept once, under its own digest.
    assert not [name for name in content if name.startswith("export/bundle")]


def test_second_time_changes_nothing(root: Path) -> None:
    tracked.write_experiment(root)
    tracked.write_experiment(root, "b", "orbital-regime")
    tracked.write_lock(root, {"x": "1"})
    synchronise(root)
    before = tracked.dump(root)
    files = tracked.folder_content(root / "mlflow" / "artifacts")
    report = synchronise(root)
    assert len(report.unchanged) == 2
    assert not report.changed
    assert tracked.dump(root) == before
    assert tracked.folder_content(root / "mlflow" / "artifacts") == files


def view(root: Path) -> dict[str, Any]:
    run = only_run(root)
    client = store.open_client(root)
    (version,) = client.search_model_versions(f"name = '{tracked.EXPERIMENT}'")
    whole = client.get_model_version(tracked.EXPERIMENT, version.version)
    # the load of the machine is seen in the live store only.
    measured = {key: value for key, value in run.data.metrics.items() if not key.startswith("system/")}
    return {
        "params": run.data.params,
        "tags": run.data.tags,
        "metrics": measured,
        "history": {key: points(root, run, key) for key in measured},
        "inputs": [(entry.dataset.name, entry.dataset.digest) for entry in run.inputs.dataset_inputs],
        "status": run.info.status,
        "name": run.info.run_name,
        "version": (whole.version, whole.tags, whole.aliases),
        "model": stored_names(root, run),
    }


def stored_names(root: Path, run: Any) -> dict[str, int]:
    sizes = stored_sizes(store.open_client(root), run.info.run_id)
    # MLflow writes the time of saving into its own description of the model.
    return {name: size for name, size in sizes.items() if not name.endswith("MLmodel")}


@pytest.mark.parametrize("streamed", [False, True], ids=["from-records", "from-live-run"])
def test_deleted_store_is_rebuilt(root: Path, streamed: bool) -> None:
    if streamed:
        with LiveRun(root, RunIdentity(**tracked.identity()), {"seed": 7}) as live:
            for step, metrics in tracked.history():
                live.log(step, metrics)
    tracked.write_experiment(root)
    tracked.write_stage_info(root, COMMIT)
    synchronise(root)
    before = view(root)
    (root / "mlflow" / "mlflow.db").unlink()
    shutil.rmtree(root / "mlflow" / "artifacts")
    report = synchronise(root)
    assert report.created
    assert report.registered == ("orbital-kind v1",)
    assert view(root) == before


def test_lost_artifacts_alone_are_put_back(root: Path) -> None:
    tracked.write_experiment(root)
    synchronise(root)
    (lost,) = (root / "mlflow" / "artifacts").rglob("train/config.json")
    content = lost.read_bytes()
    lost.unlink()
    assert synchronise(root).updated
    assert lost.read_bytes() == content


def test_live_points_are_not_repeated(root: Path) -> None:
    with LiveRun(root, RunIdentity(**tracked.identity())) as live:
        for step, metrics in tracked.history()[:3]:
            live.log(step, metrics)
    tracked.write_experiment(root)
    report = synchronise(root)
    assert report.updated == (live.identity.name,)
    assert points(root, only_run(root), "train/loss") == [
        (step, values["train/loss"]) for step, values in tracked.history()
    ]


def test_best_value_stands_after_history(root: Path) -> None:
    tracked.write_train(root, metrics={"validation/loss": 0.123})
    synchronise(root)
    assert only_run(root).data.metrics["validation/loss"] == 0.123
    assert synchronise(root).unchanged


def test_changed_evaluation_updates_and_comes_back(root: Path) -> None:
    tracked.write_train(root)
    for accuracy in (0.91, 0.5, 0.91):
        tracked.write_evaluate(root, accuracy=accuracy)
        synchronise(root)
        assert only_run(root).data.metrics["test/accuracy"] == accuracy
    assert synchronise(root).unchanged


def test_changed_parameter_is_reported_not_hidden(root: Path) -> None:
    tracked.write_train(root)
    synchronise(root)
    tracked.write_train(root, parameters={"seed": 8})
    report = synchronise(root)
    assert "seed is now 8" in report.notes[0]
    assert only_run(root).data.tags["changed.seed"] == "8"
    tracked.write_train(root, parameters={"seed": 7})
    synchronise(root)
    assert "changed.seed" not in only_run(root).data.tags


def test_two_stages_may_not_contradict(root: Path) -> None:
    tracked.write_experiment(root)
    tracked.write_train(root, metrics={"test/accuracy": 0.1})
    with pytest.raises(RecordError, match=r"test/accuracy is 0\.1 in the record of train@orbital-kind"):
        synchronise(root)


def test_head_commit_is_marked_as_such_and_kept(root: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)

    git("init")
    git("commit", "--allow-empty", "-m", "first")
    tracked.write_train(root)
    tracked.write_stage_info(root, COMMIT, digest="0" * 64)
    synchronise(root)
    first = lineage.head_commit(root)
    tags = only_run(root).data.tags
    assert (tags[lineage.COMMIT_TAG], tags[lineage.COMMIT_SOURCE_TAG]) == (first, lineage.FROM_HEAD)
    git("commit", "--allow-empty", "-m", "second")
    assert lineage.head_commit(root) != first
    assert synchronise(root).unchanged
    assert only_run(root).data.tags[lineage.COMMIT_TAG] == first


def test_long_lineage_is_named_by_digest_and_listed_whole(root: Path, tmp_path: Path) -> None:
    tracked.write_train(root)
    tracked.write_lock(root, {f"components/part_{number}.py": "a" * 32 for number in range(300)})
    synchronise(root)
    run = only_run(root)
    assert run.data.tags["dvc.train.deps"].startswith("sha256:")
    path = store.open_client(root).download_artifacts(run.info.run_id, "lineage.json", str(tmp_path))
    assert len(json.loads(Path(path).read_text())["train@orbital-kind"]["deps"]) == 300


def test_later_stages_of_a_replaced_training_are_stale(root: Path) -> None:
    tracked.write_experiment(root)
    tracked.write_train(root, "b")
    report = synchronise(root)
    assert report.stale == (f"orbital-kind-{tracked.digest('a')[:8]}",)
    assert report.created == (f"orbital-kind-{tracked.digest('b')[:8]}",)
    assert not report.registered


def test_record_in_foreign_folder_is_refused(root: Path) -> None:
    tracked.write_experiment(root)
    shutil.copytree(tracked.output(root, "train"), tracked.output(root, "train", "other"))
    with pytest.raises(RecordError, match="in the folder of another stage"):
        synchronise(root)


def test_vanished_artifact_is_named(root: Path) -> None:
    tracked.write_experiment(root)
    shutil.rmtree(tracked.output(root, "evaluate") / "plots")
    with pytest.raises(RecordError, match="names plots, which is gone"):
        synchronise(root)


def test_deleted_run_and_experiment_return(root: Path) -> None:
    tracked.write_experiment(root)
    synchronise(root)
    client = store.open_client(root)
    client.delete_run(only_run(root).info.run_id)
    assert synchronise(root).created
    client.delete_experiment(store.experiment_id(client, root, tracked.METHOD))
    synchronise(root)
    assert only_run(root).info.status == "FINISHED"


def test_moved_checkout_is_told_what_to_do(root: Path) -> None:
    tracked.write_experiment(root)
    synchronise(root)
    moved = root.rename(root.with_name("moved"))
    with pytest.raises(TrackingError, match=r"delete mlflow/mlflow\.db and mlflow/artifacts"):
        synchronise(moved)
    (moved / "mlflow" / "mlflow.db").unlink()
    shutil.rmtree(moved / "mlflow" / "artifacts")
    assert synchronise(moved).created


def test_nothing_to_synchronise(root: Path) -> None:
    report = synchronise(root)
    assert not report.changed
    assert not report.unchanged
