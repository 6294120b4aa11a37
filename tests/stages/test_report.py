"""The report is made of what outputs/ holds: it says what a reader must know, and what is missing."""

import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.files import read_json, write_bytes, write_json, write_text
from components.quality.core.report import Check, GateReport
from components.quality.core.report import write_report as write_gate_report
from components.stages.report import REPORT, write_report

CLASSES = ["PAYLOAD", "DEBRIS"]
TASK = {"target": "kind", "classes": CLASSES, "features": ["x"], "note": "A note that a reader needs."}
READS = {"form": "table", "folder": "prepared/sample", "gate": "gate_data/sample"}
TRAIN = {
    "method": "ddcl-readout",
    "source": "ddcl",
    "dataset": "sample",
    "reads": READS,
    "seed": 5,
    "task": TASK,
    "model": {"dim": 2},
    "training": {"epochs": 1, "batch_size": 2, "learning_rate": 0.1},
}
PARAMS = {
    "scale": "quick",
    "datasets": {
        "sample": {
            "kind": "orbital",
            "source": "orbital",
            "entry": "some-entry",
            "note": "What a reader must know of these data.",
            "prepare": {"seed": 1},
            "gate": {"min_rows": 1, "min_rows_per_class": 1, "required_regimes": [], "required_kinds": []},
        }
    },
    "experiments": {
        "kinds": {**TRAIN, "gate": {"min_margin_over_majority": 0, "min_separation": 0.1}},
    },
    "exports": {"kinds": {"source": "ddcl", "reads": READS}},
}
SUMMARY = {
    "title": "Some objects",
    "rows": 12,
    "rows_of_entry": 40,
    "splits": {"train": 8, "validation": 3, "test": 1},
    "licence": "public",
    "citation": "somebody 2016",
    "files": {"objects.csv": {"sha256": "12" * 32}},
    "subset_of": "all objects",
    "variant": "Some objects, turned round",
    "stand_in_for": "the objects of today",
}


def passed(gate: Any) -> GateReport:
    return GateReport(gate, "it", (Check("one", True, 1, "one"), Check("two", True, 2, "two")))


def configure(root: Path, change: Callable[[dict[str, Any]], object] = lambda _: None) -> None:
    content = yaml.safe_load(yaml.safe_dump(PARAMS))
    change(content)
    write_text(root / "params.yaml", yaml.safe_dump(content))


def train_dump(root: Path) -> dict[str, Any]:
    from components.config import TrainConfig, load_config

    experiment = load_config(root / "params.yaml").experiment("kinds")
    return experiment.model_dump(mode="json", include=set(TrainConfig.model_fields))


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """One data set and one experiment, from preparing to the export gate."""
    configure(tmp_path)
    write_json(tmp_path / "data/prepared/sample/summary.json", SUMMARY)
    out = tmp_path / "outputs"
    write_gate_report(out / "gate_data/sample", passed("data"))
    write_gate_report(out / "gate_model/kinds", passed("model"))
    write_gate_report(out / "gate_export/kinds", passed("export"))
    write_json(out / "train/kinds/record.json", {"digest": "ab" * 32})
    write_json(out / "train/kinds/config.json", {"experiment": train_dump(tmp_path), "scale": "quick"})
    write_json(out / "train/kinds/manifest.json", {"versions": {"torch": "2.13.0", "numpy": "2.4.6"}})
    metrics = {
        "model": {"accuracy": 0.912345, "recall/debris": 0.5},
        "baselines": {"kmeans": {"accuracy": 0.73, "recall/debris": 0.25}, "odd": {"accuracy": 0.5}},
        "notes": {"kmeans": "as many clusters as prototypes"},
    }
    write_json(out / "evaluate/kinds/metrics.json", metrics)
    write_bytes(out / "evaluate/kinds/plots/confusion.png", b"\x89PNG: a picture is taken as it is")
    prototypes = [
        {
            "prototype": index,
            "share": share,
            "classes": {"PAYLOAD": 0.25, "DEBRIS": 0.75},
            "nearest": [{"x": 1.5, "kind": "DEBRIS"}],
        }
        for index, share in enumerate((0.6, 0.4))
    ]
    write_json(out / "evaluate/kinds/prototypes.json", prototypes)
    return tmp_path


class Page(HTMLParser):
    """The text of a page, its tags, and the addresses it loads or links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.open: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data.split()

    @property
    def text(self) -> str:
        return " ".join(self.words)


def page(root: Path) -> Page:
    return Page(write_report(root).read_text(encoding="utf-8"))


def test_the_report_is_one_file_in_its_place(outputs: Path) -> None:
    assert write_report(outputs) == outputs / REPORT
    found = page(outputs)
    # pictures are inside, so that the file can be sent to somebody
    assert [address[:22] for address in found.addresses] == ["data:image/png;base64,"]


def test_it_says_what_was_measured_beside_the_baselines(outputs: Path) -> None:
    text = page(outputs).text
    assert "model 0.9123 0.5000" in text
    assert "kmeans 0.7300 0.2500" in text
    assert "odd 0.5000" in text
    assert "kmeans: as many clusters as prototypes" in text
    assert "One seed and one split" in text
    assert "seed 5" in text
    assert "0 0.6000 0.2500 0.7500 kind DEBRIS, x 1.5" in text
    assert f"Run digest {'ab' * 32} ; versions: numpy 2.4.6, torch 2.13.0." in text


def test_it_says_what_a_reader_must_know_of_task_and_data(outputs: Path) -> None:
    text = page(outputs).text
    assert TASK["note"] in text
    assert "A subset of all objects." in text
    assert "Some objects, turned round." in text
    assert "A stand-in for the objects of today." in text
    assert "What a reader must know of these data. Of the entry's 40 rows, 12 are used:" in text
    assert "8 train, 3 validation, 1 test. Cite: somebody 2016." in text
    assert "Licence: public" in text
    assert f"objects.csv, sha256 {'12' * 32}" in text


def test_data_that_is_no_subset_is_not_called_one(outputs: Path) -> None:
    write_json(
        outputs / "data/prepared/sample/summary.json",
        {key: value for key, value in SUMMARY.items() if key not in ("subset_of", "stand_in_for")},
    )
    text = page(outputs).text
    assert "subset" not in text
    assert "stand-in" not in text


def test_verdicts_of_all_gates_are_shown(outputs: Path) -> None:
    text = page(outputs).text
    assert "Data gate: passed , 2 checks" in text
    assert "gate_model: passed , 2 checks" in text
    assert "gate_export: passed , 2 checks" in text
    report = GateReport("model", "it", (Check("one", False, 0, "one"),))
    write_gate_report(outputs / "outputs/gate_model/kinds", report)
    assert "gate_model: refused , 1 checks" in page(outputs).text


def test_data_docs_are_linked_when_they_are_there(outputs: Path) -> None:
    write_text(outputs / "run_info/data_docs/sample/index.html", "docs")
    (link,) = [address for address in page(outputs).addresses if not address.startswith("data:")]
    assert ((outputs / REPORT).parent / link).resolve() == outputs / "run_info/data_docs/sample/index.html"


def test_the_same_outputs_give_the_same_bytes_and_no_write(outputs: Path, tmp_path: Path) -> None:
    first = write_report(outputs)
    content, written = first.read_bytes(), first.stat().st_mtime_ns
    assert write_report(outputs).stat().st_mtime_ns == written
    copied = tmp_path / "another" / "place"
    shutil.copytree(outputs / "outputs", copied / "outputs")
    shutil.copytree(outputs / "data", copied / "data")
    shutil.copy(outputs / "params.yaml", copied)
    assert write_report(copied).read_bytes() == content
    assert str(outputs).encode() not in content


def test_another_output_gives_another_report(outputs: Path) -> None:
    before = write_report(outputs).read_text()
    path = outputs / "outputs/evaluate/kinds/metrics.json"
    metrics = read_json(path)
    metrics["model"]["accuracy"] = 0.5
    write_json(path, metrics)
    assert write_report(outputs).read_text() != before


def test_nothing_run_yet_is_said(tmp_path: Path) -> None:
    configure(tmp_path)
    text = page(tmp_path).text
    assert "Not prepared." in text
    assert "Not evaluated." in text


@pytest.mark.parametrize(
    "missing",
    [
        "data/prepared/sample/summary.json",
        "outputs/gate_data",
        "outputs/gate_model",
        "outputs/gate_export",
        "outputs/train",
        "outputs/train/kinds/record.json",
        "outputs/train/kinds/manifest.json",
        "outputs/train/kinds/config.json",
        "outputs/evaluate",
        "outputs/evaluate/kinds/plots",
        "outputs/evaluate/kinds/prototypes.json",
        "outputs",
    ],
)
def test_what_is_missing_leaves_the_rest(outputs: Path, missing: str) -> None:
    whole = page(outputs).text
    path = outputs / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    text = page(outputs).text
    assert "kinds" in text
    assert len(text) <= len(whole) + len("Not evaluated.")


def test_outputs_of_an_earlier_configuration_are_called_so(outputs: Path) -> None:
    said = "The outputs below are of an earlier configuration"
    assert said not in page(outputs).text

    def gate_only(content: dict[str, Any]) -> None:
        content["experiments"]["kinds"]["gate"]["min_separation"] = 0.2

    configure(outputs, gate_only)
    assert said not in page(outputs).text, "a gate's threshold is no part of what was trained"

    def other_classes(content: dict[str, Any]) -> None:
        content["experiments"]["kinds"]["task"]["classes"] = ["A", "B", "C"]

    configure(outputs, other_classes)
    text = page(outputs).text
    assert said in text
    # the old prototypes are still told in the classes they have
    assert "share DEBRIS PAYLOAD nearest object 0 0.6000 0.7500 0.2500" in text
    configure(outputs, lambda content: content.update(scale="tiny"))
    assert said in page(outputs).text


def test_scale_tiny_is_said_to_mean_little(outputs: Path) -> None:
    assert "its figures mean little" not in page(outputs).text
    configure(outputs, lambda content: content.update(scale="tiny"))
    assert "its figures mean little" in page(outputs).text


def test_text_from_data_and_configuration_is_no_markup(outputs: Path) -> None:
    evil = "<script>alert('x')</script>&amp;"
    write_json(
        outputs / "data/prepared/sample/summary.json", {**SUMMARY, "title": evil, "files": {evil: {"sha256": evil}}}
    )
    metrics = read_json(outputs / "outputs/evaluate/kinds/metrics.json")
    metrics["baselines"][evil] = {"accuracy": evil}
    metrics["notes"][evil] = evil
    write_json(outputs / "outputs/evaluate/kinds/metrics.json", metrics)
    write_json(outputs / "outputs/train/kinds/manifest.json", {"versions": {evil: evil}})
    prototypes = read_json(outputs / "outputs/evaluate/kinds/prototypes.json")
    prototypes[0]["nearest"] = [{evil: evil}]
    write_json(outputs / "outputs/evaluate/kinds/prototypes.json", prototypes)
    configure(outputs, lambda content: content["experiments"]["kinds"]["task"].update(note=evil, target=evil))
    found = page(outputs)
    assert "script" not in found.tags
    assert found.text.count(evil) >= 10


def test_a_refusal_is_said_beside_the_verdict_that_it_did_not_replace(outputs: Path) -> None:
    account = outputs / "run_info" / "stages" / "gate_data@sample.json"
    write_json(account, {"state": "failed", "error": "table.csv line 7: got nan"})
    text = write_report(outputs).read_text()
    assert "gate_data@sample failed: table.csv line 7: got nan" in text
    write_json(account, {"state": "succeeded", "error": None})
    assert "failed" not in write_report(outputs).read_text()


STUDY = {
    "name": "widths",
    "question": "Does width matter?",
    "experiment": "kinds",
    "scale": "tiny",
    "metric": "test/accuracy",
    "reference": "dim=8",
    "seeds": [1, 2],
    "confidence": 0.95,
    "arms": [{"name": "dim=8"}, {"name": "dim=16"}],
}


def test_a_study_is_shown_with_its_verdicts_or_with_what_to_do(outputs: Path) -> None:
    folder = outputs / "outputs" / "studies" / "widths"
    write_json(folder / "study.json", STUDY)
    assert "Not compared: run quintet ablate widths ." in page(outputs).text
    arms = [
        {"name": "dim=8", "mean": 0.5, "t_interval": [0.25, 0.75]},
        {"name": "dim=16", "mean": 0.75, "t_interval": None},
    ]
    difference = {
        "arm": "dim=16", "mean": 0.25, "t_interval": [0.125, 0.375], "p_holm": 0.03125, "smallest_shown": 0.0625,
        "verdict": "better",
    }  # fmt: skip
    compared = {"arms": arms, "differences": [difference]}
    notes = ["training.threads is dead: in all 2 pairs"]
    write_json(folder / "comparison.json", {"metrics": {"test/accuracy": compared}, "notes": notes})
    write_bytes(folder / "plots" / "test_accuracy_arms.png", b"\x89PNG: a picture of arms")
    text = page(outputs).text
    assert "Does width matter? 2 arms by 2 seeds of kinds at scale tiny." in text
    assert "dim=8 0.5000 0.2500 to 0.7500 reference" in text
    assert "dim=16 0.7500 - 0.2500 0.1250 to 0.3750 0.0312 0.0625 better" in text
    assert "intervals of 95 %" in text
    assert "training.threads is dead: in all 2 pairs" in text
    assert page(outputs).tags.count("img") == 2
