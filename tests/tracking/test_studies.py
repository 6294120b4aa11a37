"""Studies: nested runs that are streamed or rebuilt from files, the same either way, and found again by everybody."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import studied
import tracked
from hypothesis import given
from hypothesis import strategies as st

from components.errors import RecordError, TrackingError
from components.files import read_json, write_json
from components.tracking import LiveRun, RunIdentity, runs, store, sweep, synchronise
from components.tracking.fill import stored_sizes
from components.tracking.grammar import METRIC_PREFIXES, metric_table
from components.tracking.studies import child_placement, end_study, open_study, sync_study
from components.tracking.study_files import read_study_files, study_digest
from components.tracking.study_links import VIEW_PREFIX

REPOSITORY = Path(__file__).resolve().parents[2]

# opens the study in the given checkout, tells the parent's id, and waits to be killed or let go.
OPENER = """
import json, sys
from pathlib import Path
from components.tracking.studies import open_study
print(open_study(Path(sys.argv[1]), json.loads(sys.argv[2])), flush=True)
sys.stdin.readline()
"""


def opener(root: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OPENER, str(root), json.dumps(studied.study())]
    return subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def told(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def all_runs(root: Path) -> list[Any]:
    client = store.open_client(root)
    ids = [experiment.experiment_id for experiment in client.search_experiments(filter_string="name LIKE 'quintet/%'")]
    return list(client.search_runs(ids, max_results=1000)) if ids else []


def children_of(root: Path, parent_id: str, experiment: str = f"quintet/study/{studied.STUDY}") -> dict[str, Any]:
    """Name -> run, as MLflow's own filter for nested runs finds them."""
    client = store.open_client(root)
    found = client.get_experiment_by_name(experiment)
    search = f"tags.`mlflow.parentRunId` = '{parent_id}'"
    return {run.info.run_name: run for run in client.search_runs([found.experiment_id], search)}


def points(root: Path, run: Any, key: str) -> list[tuple[int, float]]:
    history = store.open_client(root).get_metric_history(run.info.run_id, key)
    return sorted((point.step, point.value) for point in history)


def live(root: Path, arm: str, seed: int, parent_id: str) -> LiveRun:
    identity = RunIdentity(**{**tracked.identity(), "digest": studied.digest(arm, seed)})
    return LiveRun(root, identity, {"seed": seed}, placement=child_placement(studied.STUDY, arm, seed, parent_id))


def names(arms: tuple[str, ...] = tuple(studied.ARMS)) -> set[str]:
    return {f"{arm}, seed {seed}" for arm in arms for seed in studied.SEEDS}


def test_children_hold_what_their_files_say(root: Path) -> None:
    report = sync_study(root, studied.write_whole_study(root))
    assert set(report.created) == {*names(), f"prototypes-{study_digest(studied.study())[:8]}"}
    assert (report.updated, report.unchanged, report.busy, report.missing, report.notes) == ((), (), (), (), ())
    children = children_of(root, report.parent_id)
    assert {name: run.info.run_id for name, run in children.items()} == {
        f"{arm}, seed {seed}": run_id for (arm, seed), run_id in report.children.items()
    }
    run = children["many, seed 2"]
    assert run.info.status == "FINISHED"
    # times are those of the run, not of the synchronisation.
    assert run.info.end_time - run.info.start_time == 26500
    assert run.data.metrics["test/accuracy"] == studied.accuracy("many", 2)
    assert {key: value for key, value in run.data.metrics.items() if key.startswith("cost/")} == {
        "cost/parameters": 3200.0,
        "cost/multiply_adds": 22400.0,
        "cost/steps": 40.0,
        "cost/epochs": 5.0,
        "cost/rows": 120.0,
        "cost/seconds": 26.5,
        "cost/train_seconds": 4.0,
        "cost/train_cpu_seconds": 4.25,
    }
    expected = [(step, values["train/loss"]) for step, values in studied.history("many", 2)]
    assert points(root, run, "train/loss") == expected
    # the knob that is no parameter of the record is one of the run all the same.
    assert run.data.params == {"arm": "many", "seed": "2", "model.num_prototypes": "32", "model.centre": "true"}
    assert run.data.tags["quintet.study"] == studied.STUDY
    assert (run.data.tags["quintet.arm"], run.data.tags["quintet.seed"]) == ("many", "2")
    assert run.data.tags["quintet.digest"] == studied.digest("many", 2)
    assert run.data.tags["quintet.git_commit"] == "c" * 40
    (used,) = run.inputs.dataset_inputs
    assert {tag.key: tag.value for tag in used.tags} == {
        "mlflow.data.context": "train",
        "quintet.digest": tracked.digest("table"),
        "dvc.md5": studied.DVC_HASH,
    }
    assert json.loads(run.data.tags["dvc.study.deps"]) == {"data/prepared/orbital-sample": studied.DVC_HASH}
    kept = stored_sizes(store.open_client(root), run.info.run_id)
    assert {"train/config.json", "train/history.jsonl", "result.json", "lineage.json"} <= set(kept)


def test_parent_tells_the_study(root: Path, tmp_path: Path) -> None:
    folder = studied.write_whole_study(root)
    report = sync_study(root, folder)
    client = store.open_client(root)
    parent = client.get_run(report.parent_id)
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["quintet.kind"] == "study"
    assert parent.data.tags["quintet.best_arm"] == "many"
    assert parent.data.metrics["reference/test/accuracy"] == sum(studied.accuracy("few", seed) for seed in (1, 2)) / 2
    assert parent.data.metrics["best/test/accuracy"] == sum(studied.accuracy("many", seed) for seed in (1, 2)) / 2
    assert (parent.data.metrics["study/arms"], parent.data.metrics["study/runs"]) == (3, 6)
    # from the first start to the last end: 22 runs a ten seconds' step apart, the last lasts 26.5.
    assert parent.info.end_time - parent.info.start_time == (22 - 1) * 10_000 + 26_500
    note = parent.data.tags["mlflow.note.content"]
    assert "How many prototypes does the readout need?" in note
    assert (folder / "summary.md").read_text().strip() in note
    assert all(f"]({link})" in note for link in report.links.values())
    stored = Path(client.download_artifacts(report.parent_id, "", str(tmp_path)))
    assert tracked.folder_content(stored).items() >= tracked.folder_content(folder).items()
    experiment = client.get_experiment_by_name("quintet/study/prototypes")
    assert "| `cost/` |" in experiment.tags["mlflow.note.content"]


def test_every_metric_of_a_study_is_of_the_grammar(root: Path) -> None:
    sync_study(root, studied.write_whole_study(root))
    used = {key.split("/")[0] for run in all_runs(root) for key in run.data.metrics}
    assert used <= set(METRIC_PREFIXES)
    assert {"cost", "reference", "best", "study", "test"} <= used


def test_second_time_changes_nothing(root: Path) -> None:
    folder = studied.write_whole_study(root)
    first = sync_study(root, folder)
    before = tracked.dump(root)
    files = tracked.folder_content(root / "mlflow" / "artifacts")
    second = sync_study(root, folder)
    assert not second.changed
    assert len(second.unchanged) == 7
    assert (second.children, second.links) == (first.children, first.links)
    assert tracked.dump(root) == before
    assert tracked.folder_content(root / "mlflow" / "artifacts") == files


def view(root: Path, report: Any) -> str:
    """All that the store says of a study, with the names of runs in place of their ids."""
    client = store.open_client(root)
    told = {}
    for run in all_runs(root):
        told[run.info.run_name] = {
            "params": run.data.params,
            "tags": run.data.tags,
            "history": {key: points(root, run, key) for key in sorted(run.data.metrics)},
            "inputs": [
                (entry.dataset.to_dictionary(), [*map(dict, entry.tags)]) for entry in run.inputs.dataset_inputs
            ],
            "times": (run.info.start_time, run.info.end_time, run.info.status),
            "files": stored_sizes(client, run.info.run_id),
        }
    experiment = client.get_experiment_by_name("quintet/study/prototypes")
    text = json.dumps({"runs": told, "links": dict(report.links), "experiment": experiment.tags}, sort_keys=True)
    ids = {run_id: f"ID of {arm} {seed}" for (arm, seed), run_id in report.children.items()}
    for run_id, name in {**ids, report.parent_id: "ID of the study"}.items():
        text = text.replace(run_id, name)
    # sizes of files that hold ids, and the order of a table, are the same; nothing else may remain of an id.
    assert not re.search(r"\b[0-9a-f]{32}\b", text.replace(studied.DVC_HASH, ""))
    return text


def test_deleted_store_comes_back_the_same(root: Path) -> None:
    folder = studied.write_whole_study(root)
    before = view(root, sync_study(root, folder))
    (root / "mlflow" / "mlflow.db").unlink()
    shutil.rmtree(root / "mlflow" / "artifacts")
    report = sync_study(root, folder)
    assert len(report.created) == 7
    assert view(root, report) == before


def test_streamed_runs_are_completed_not_repeated(root: Path) -> None:
    parent_id = open_study(root, studied.study())
    sent: dict[str, str | None] = {}
    for arm in studied.ARMS:
        for seed in studied.SEEDS:
            with live(root, arm, seed, parent_id) as run:
                for step, metrics in studied.history(arm, seed)[:3]:
                    run.log(step, metrics)
            sent[f"{arm}, seed {seed}"] = run.run_id
    assert store.open_client(root).get_run(parent_id).info.status == "RUNNING"
    report = sync_study(root, studied.write_whole_study(root))
    assert report.parent_id == parent_id
    assert set(report.updated) == {*names(), f"prototypes-{study_digest(studied.study())[:8]}"}
    children = children_of(root, parent_id)
    assert {name: run.info.run_id for name, run in children.items()} == sent
    assert len(all_runs(root)) == 7
    for name, run in children.items():
        arm, seed = name.split(", seed ")
        assert points(root, run, "train/loss") == [
            (step, values["train/loss"]) for step, values in studied.history(arm, int(seed))
        ]
    assert not [run for run in all_runs(root) if run.info.status != "FINISHED"]
    assert not sync_study(root, root / "outputs" / "studies" / studied.STUDY).changed


def test_same_digest_in_two_studies_and_in_the_graph(root: Path) -> None:
    first = sync_study(root, studied.write_whole_study(root))
    second = sync_study(root, studied.write_whole_study(root, studied.study(arms=("some", "few"), name="other")))
    shared = [("few", 1), ("few", 2), ("some", 1), ("some", 2)]
    assert len({*first.children.values(), *second.children.values()}) == 10
    for cell in shared:
        assert store.open_client(root).get_run(second.children[cell]).data.tags["quintet.study"] == "other"
        assert store.open_client(root).get_run(first.children[cell]).data.tags["quintet.study"] == studied.STUDY
    # a run of the graph with the very digest of one of the study's stays where it is.
    with LiveRun(root, RunIdentity(**{**tracked.identity(), "digest": studied.digest("few", 1)})) as graph:
        pass
    assert graph.run_id not in {*first.children.values(), *second.children.values()}
    assert sync_study(root, root / "outputs" / "studies" / studied.STUDY).children == first.children
    # two parents of one study do not share children either.
    longer = sync_study(root, studied.write_whole_study(root, studied.study(seeds=(1, 2, 3))))
    assert longer.parent_id != first.parent_id
    assert not {*longer.children.values()} & {*first.children.values()}
    assert len(children_of(root, first.parent_id)) == 6


def test_six_processes_open_a_fresh_store_and_make_one_parent(tmp_path: Path) -> None:
    processes = [opener(tmp_path) for _ in range(6)]
    ids = [told(process) for process in processes]
    for process in processes:
        process.communicate("\n", timeout=60)
        assert process.returncode == 0
    assert re.fullmatch(r"[0-9a-f]{32}", ids[0])
    assert len(set(ids)) == 1
    (parent,) = all_runs(tmp_path)
    assert parent.info.run_id == ids[0]
    # its owner is gone by now; the next to open it has it.
    assert open_study(tmp_path, studied.study()) == ids[0]
    assert store.open_client(tmp_path).get_run(ids[0]).data.tags[runs.PID_TAG] == str(os.getpid())


def test_killed_study_is_swept_then_finished(root: Path) -> None:
    process = opener(root)
    parent_id = told(process)
    folder = studied.write_whole_study(root)
    # while its process lives, the parent is left to it; children that are finished are there.
    busy = sync_study(root, folder)
    assert busy.busy == (f"prototypes-{study_digest(studied.study())[:8]}",)
    assert set(busy.created) == names()
    assert store.open_client(root).get_run(parent_id).info.status == "RUNNING"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert sweep(root) == busy.busy
    swept = store.open_client(root).get_run(parent_id)
    assert (swept.info.status, swept.data.tags["quintet.end_reason"][:6]) == ("FAILED", "KILLED")
    report = sync_study(root, folder)
    assert report.updated == busy.busy
    assert report.parent_id == parent_id
    finished = store.open_client(root).get_run(parent_id)
    assert finished.info.status == "FINISHED"
    assert not {"quintet.end_reason", *runs.OWNER_TAGS} & set(finished.data.tags)


def test_stopped_study_says_so(root: Path) -> None:
    parent_id = open_study(root, studied.study())
    end_study(root, parent_id, "KILLED", "interrupted")
    run = store.open_client(root).get_run(parent_id)
    assert (run.info.status, run.data.tags["quintet.end_reason"]) == ("KILLED", "interrupted")
    assert open_study(root, studied.study()) == parent_id
    assert store.open_client(root).get_run(parent_id).info.status == "RUNNING"


def test_unfinished_study_names_what_is_missing(root: Path) -> None:
    folder = studied.write_whole_study(root)
    shutil.rmtree(root / "outputs" / "study_runs" / studied.digest("many", 2))
    studied.write_account(root, "many", 2, state="failed", error="loss is not finite at step 3")
    report = sync_study(root, folder)
    assert report.missing == ("many, seed 2: loss is not finite at step 3",)
    parent = store.open_client(root).get_run(report.parent_id)
    assert parent.info.status == "FAILED"
    assert parent.data.tags["quintet.end_reason"] == (
        "1 of 6 runs are not finished: many, seed 2: loss is not finite at step 3"
    )
    assert "- many, seed 2: loss is not finite" in parent.data.tags["mlflow.note.content"]
    # an arm that lacks a seed is not held against the others.
    assert parent.data.tags["quintet.best_arm"] == "some"
    assert not sync_study(root, folder).changed
    studied.write_run(root, "many", 2)
    studied.write_account(root, "many", 2)
    assert sync_study(root, folder).parent_id == report.parent_id
    whole = store.open_client(root).get_run(report.parent_id)
    assert (whole.info.status, whole.data.tags["quintet.best_arm"]) == ("FINISHED", "many")
    assert "quintet.end_reason" not in whole.data.tags


def test_best_follows_the_goal(root: Path) -> None:
    folder = studied.write_whole_study(root, studied.study(goal="minimise"))
    files = read_study_files(root, folder)
    assert files.best == "few"
    assert read_study_files(root, studied.write_study(root, studied.study(metric="train/loss"))).best == "few"


def test_knob_that_an_arm_leaves_alone_is_told_as_it_was(root: Path) -> None:
    knobs = ["model.num_prototypes", "model.centre", "datasets.orbital-sample.prepare"]
    arms = [{**arm, "settings": {"model.num_prototypes": 0}} for arm in studied.study()["arms"]]
    report = sync_study(root, studied.write_whole_study(root, {**studied.study(knobs=knobs), "arms": arms}))
    params = store.open_client(root).get_run(report.children["many", 1]).data.params
    assert (params["model.centre"], params["datasets.orbital-sample.prepare.max_rows"]) == ("true", "120")
    assert params["model.num_prototypes"] == "32"


def test_measures_may_have_goals(root: Path) -> None:
    content = studied.study(also={"train/loss": "minimise"})
    report = sync_study(root, studied.write_whole_study(root, content))
    assert "best/train/loss" in store.open_client(root).get_run(report.parent_id).data.metrics


def test_links_lead_to_runs_and_views_that_exist(root: Path) -> None:
    report = sync_study(root, studied.write_whole_study(root))
    client = store.open_client(root)
    experiment = client.get_experiment_by_name("quintet/study/prototypes")
    measured = {key for run_id in report.children.values() for key in client.get_run(run_id).data.metrics}
    settings = {key for run_id in report.children.values() for key in client.get_run(run_id).data.params}
    compared, views = [], []
    for link in report.links.values():
        assert link.startswith("/#/")
        page = urlsplit(link.removeprefix("/#"))
        query = {key: values[0] for key, values in parse_qs(page.query).items()}
        if page.path == "/compare-runs":
            assert json.loads(query["experiments"]) == [experiment.experiment_id]
            compared.append(json.loads(query["runs"]))
        elif "viewStateShareKey" in query:
            views.append(json.loads(experiment.tags[VIEW_PREFIX + query["viewStateShareKey"]]))
        else:
            assert page.path == f"/experiments/{experiment.experiment_id}/runs/{report.parent_id}"
    first, every = compared
    assert [client.get_run(run_id).data.tags["quintet.arm"] for run_id in first] == list(studied.ARMS)
    assert every == list(report.children.values())
    assert len(views) == 3
    for state in views:
        found = client.search_runs([experiment.experiment_id], state["searchFilter"], order_by=[state["orderByKey"]])
        assert {run.info.run_id for run in found} == set(report.children.values())
        for column in state["selectedColumns"]:
            kind, name = column.rstrip("`").split(".`")
            assert name in {"params": settings, "metrics": measured}[kind]
        sections = {section["uuid"] for section in state.get("compareRunSections", [])}
        for chart in state.get("compareRunCharts", []):
            assert chart["metricSectionId"] in sections
            used = {chart.get("metricKey"), *(chart.get(axis, {}).get("key") for axis in ("xaxis", "yaxis"))} - {None}
            assert used | set(chart.get("selectedMetrics", [])) <= measured
            assert set(chart.get("selectedParams", [])) <= settings


def test_synchronising_everything_includes_studies(root: Path) -> None:
    tracked.write_experiment(root)
    studied.write_whole_study(root)
    report = synchronise(root)
    assert report.created == (f"orbital-kind-{tracked.digest('a')[:8]}",)
    (study,) = report.studies
    assert (study.name, len(study.created)) == (studied.STUDY, 7)
    assert str(study) == "study prototypes: 7 new"
    assert report.changed
    again = synchronise(root)
    assert not again.changed
    assert str(again.studies[0]) == "study prototypes: 7 unchanged"


def test_long_tables_and_questions_are_told_elsewhere(root: Path) -> None:
    folder = studied.write_whole_study(root)
    (folder / "summary.md").write_text("| arm |\n|---|\n" + "| an arm of many |\n" * 400)
    report = sync_study(root, folder)
    note = store.open_client(root).get_run(report.parent_id).data.tags["mlflow.note.content"]
    assert "`table.md` among the artifacts" in note
    assert all(link in note for link in report.links.values())
    assert not sync_study(root, folder).changed


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"reference": "none"}, "reference 'none' be one of them"),
        ({"format": "quintet-study/2"}, "format"),
        ({"arms": []}, "arms"),
        ({"goal": "best"}, "goal"),
        ({"name": "a/b"}, "name"),
    ],
)
def test_malformed_study_is_refused(root: Path, change: dict[str, Any], match: str) -> None:
    content = {**studied.study(), **change}
    with pytest.raises(RecordError, match=match):
        open_study(root, content)
    folder = root / "outputs" / "studies" / studied.STUDY
    write_json(folder / "study.json", content)
    with pytest.raises(RecordError, match=f"study.json: .*{match}"):
        sync_study(root, folder)
    assert not all_runs(root)


def test_result_of_another_run_is_refused(root: Path) -> None:
    folder = studied.write_whole_study(root)
    place = root / "outputs" / "study_runs" / studied.digest("few", 1)
    write_json(place / "result.json", {**read_json(place / "result.json"), "seed": 9})
    with pytest.raises(RecordError, match="holds another run"):
        sync_study(root, folder)
    (place / "result.json").write_text("{")
    with pytest.raises(RecordError, match="is not JSON"):
        sync_study(root, folder)


def test_store_that_does_not_answer(root: Path) -> None:
    (root / "mlflow" / "mlflow.db").write_text("this is no database, and long enough to be looked at as one" * 100)
    with pytest.raises(TrackingError, match="not a readable sqlite database"):
        open_study(root, studied.study())


@given(st.permutations(list(studied.study())), st.permutations((*studied.SEEDS, 10, 3)))
def test_digest_is_of_the_content_not_of_its_order(keys: list[str], seeds: list[int]) -> None:
    content = studied.study()
    by_number = {**content["arms"][0], "runs": {seed: studied.digest("few", seed) for seed in seeds}}
    by_text = {**content["arms"][0], "runs": {str(seed): studied.digest("few", seed) for seed in sorted(seeds)}}
    shuffled = {key: content[key] for key in keys}
    assert study_digest({**shuffled, "arms": [by_number]}) == study_digest({**content, "arms": [by_text]})
    assert study_digest({**content, "arms": [by_text]}) != study_digest({**content, "arms": [by_text, by_text]})


def test_documentation_shows_the_grammar() -> None:
    assert metric_table() in (REPOSITORY / "docs" / "tracking.md").read_text(encoding="utf-8")
