"""Run records: what is not fit for the tracking store is refused where it is written, in one readable line."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import tracked
from hypothesis import given
from hypothesis import strategies as st

from components.errors import NonFiniteError, RecordError
from components.tracking import new_record, read_records, records, short_parameters, write_history, write_record


def fields(**changes: Any) -> dict[str, Any]:
    return {**tracked.identity(), "stage": "evaluate", **changes}


def test_round_trip(tmp_path: Path) -> None:
    tracked.write_experiment(tmp_path)
    (run,) = read_records(tmp_path)
    assert [stage.record.stage for stage in run.stages] == ["train", "evaluate", "export", "gate_export"]
    assert run.name == f"orbital-kind-{tracked.digest('a')[:8]}"
    assert run.merged("metrics")["test/accuracy"] == 0.91
    train = run.train
    assert train is not None
    assert records.read_history(train.folder / "history.jsonl") == tracked.history()


def test_records_have_no_time_in_them(tmp_path: Path) -> None:
    tracked.write_experiment(tmp_path / "one")
    tracked.write_experiment(tmp_path / "two")
    assert tracked.folder_content(tmp_path / "one") == tracked.folder_content(tmp_path / "two")


def test_runs_are_grouped_by_experiment_and_digest(tmp_path: Path) -> None:
    tracked.write_experiment(tmp_path, "a", "kind")
    tracked.write_experiment(tmp_path, "a", "regime")
    tracked.write_train(tmp_path, "b", "kind")
    assert sorted((run.experiment, len(run.stages)) for run in read_records(tmp_path)) == [
        ("kind", 1),
        ("kind", 3),
        ("regime", 4),
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_metric_is_refused(value: float) -> None:
    with pytest.raises(NonFiniteError, match=r"metric test/accuracy is (nan|-?inf)"):
        new_record(**fields(metrics={"test/accuracy": value}))


@pytest.mark.parametrize("name", ["val/acc@1", "Accuracy", "a//b", "/a", "a/", "", "a b", "a/../b", "x" * 251])
def test_metric_outside_the_grammar_is_refused(name: str) -> None:
    with pytest.raises(RecordError, match="metric name"):
        new_record(**fields(metrics={name: 1.0}))


@given(st.text(alphabet="abz09_/", min_size=1, max_size=20))
def test_grammar_is_the_stated_one(name: str) -> None:
    allowed = all(part and re.fullmatch("[a-z0-9_]+", part) for part in name.split("/"))
    try:
        new_record(**fields(metrics={name: 1.0}))
    except RecordError:
        assert not allowed
    else:
        assert allowed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": {"notes": "x" * 251}}, "has 251 characters, at most 250"),
        ({"parameters": {"widths": [1, 2]}}, "parameters.widths"),
        ({"parameters": {"rate": math.nan}}, "parameter rate is nan"),
        ({"parameters": {"a b": 1}}, "parameter name 'a b' is not allowed"),
        ({"tags": {"note": "x" * 5001}}, "tag note has 5001 characters"),
        ({"metrics": {"test/accuracy": "0.9"}}, "metrics.test/accuracy"),
        ({"metrics": {"test/accuracy": True}}, "metrics.test/accuracy"),
        ({"artifacts": ["../secret"]}, "not a path inside"),
        ({"artifacts": ["/etc/passwd"]}, "not a path inside"),
        ({"artifacts": ["a\\b"]}, "not a path inside"),
        ({"history": "../history.jsonl"}, "not a path inside"),
        ({"digest": "abc"}, "digest"),
        ({"stage": "deploy"}, "stage"),
        ({"experiment": "a/b"}, "experiment"),
        ({"surprise": 1}, "surprise"),
        ({"stage": "train"}, "lists no config.json"),
        ({"datasets": [{"name": "x", "digest": "12345678"}]}, "datasets.0.context"),
    ],
)
def test_malformed_record_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordError, match=re.escape(message)) as caught:
        new_record("outputs/evaluate/x/record.json", **fields(**changes))
    assert str(caught.value).startswith("outputs/evaluate/x/record.json: ")
    assert "\n" not in str(caught.value)


def test_record_names_only_files_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"names plots/a\.png, which is not in"):
        write_record(tmp_path, new_record(**fields(artifacts=["plots/a.png"])))
    assert not (tmp_path / "record.json").exists()


def test_record_changed_after_its_checks_is_checked_again(tmp_path: Path) -> None:
    record = new_record(**fields()).model_copy(update={"metrics": {"test/accuracy": math.nan}})
    with pytest.raises(NonFiniteError):
        write_record(tmp_path, record)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("not json", "line 2: 'not json' is not of the form"),
        ('{"step": 1}', "is not of the form"),
        ('{"step": 1, "metrics": {"a": 1}}', "step 1 is not a whole number that rises"),
        ('{"step": 2.5, "metrics": {"a": 1}}', "step 2.5 is not a whole number"),
        ('{"step": true, "metrics": {"a": 1}}', "step True is not a whole number"),
        ('{"step": 2, "metrics": {"A": 1}}', "metric name 'A'"),
    ],
)
def test_malformed_history_names_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"step": 1, "metrics": {"a": 1}}\n' + line + "\n")
    with pytest.raises(RecordError, match=re.escape(message)) as caught:
        records.read_history(path)
    assert str(path) in str(caught.value)


def test_non_finite_history_is_refused_when_written_and_when_read(tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError, match="step 3"):
        write_history(tmp_path, [(3, {"loss": math.nan})])
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "history.jsonl").write_text('{"step": 1, "metrics": {"a": NaN}}\n')
    with pytest.raises(NonFiniteError, match="line 1"):
        records.read_history(tmp_path / "history.jsonl")


VALUES = st.floats(allow_nan=False, allow_infinity=False)
METRICS = st.dictionaries(st.sampled_from(["a", "b/c"]), VALUES, min_size=1)


@given(st.dictionaries(st.integers(0, 10**6), METRICS, max_size=8))
def test_history_keeps_every_bit(
    tmp_path_factory: pytest.TempPathFactory, entries: dict[int, dict[str, float]]
) -> None:
    folder = tmp_path_factory.mktemp("history")
    points = sorted(entries.items())
    name = write_history(folder, points)
    assert records.read_history(folder / name) == points


def test_short_parameters_leaves_nothing_out_silently() -> None:
    config = {"model": {"k": 8, "widths": [1, 2], "name": None}, "text": "x" * 300, "edge": "y" * 250, "on": False}
    kept, left_out = short_parameters(config)
    assert kept == {"model.k": 8, "model.name": None, "edge": "y" * 250, "on": False}
    assert left_out == ["model.widths", "text"]
    new_record(**fields(parameters=kept))


@pytest.mark.parametrize("content", ["", "[1]", '{"format": "quintet-record/2"}', "{"])
def test_foreign_record_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "outputs" / "train" / "x" / "record.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(RecordError, match=re.escape(str(path))):
        read_records(tmp_path)


def test_unfinished_output_is_no_record(tmp_path: Path) -> None:
    tracked.write_experiment(tmp_path)
    half = tmp_path / "outputs" / "train" / ".orbital-kind.new"
    half.mkdir()
    (half / "record.json").write_text(json.dumps({"half": True}))
    assert len(read_records(tmp_path)) == 1
