"""The gate of texts: a good set passes, and every check has an input that it refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.datasets.core.options import DriftOptions
from components.datasets.text.config import GateOptions
from components.files import write_json
from components.quality.core.drift import Drift
from components.quality.core.profile import profile_of
from components.quality.core.report import GateReport
from components.quality.text.gate import gate, observations

OPTIONS = GateOptions(min_rows=60, max_characters=400)
WORDS = ("film", "plot", "scene", "actor", "music", "story", "light", "sound", "cut", "set")
Rows = list[dict[str, Any]]


def good_rows(pairs: bool = False, regression: bool = False) -> Rows:
    generator = np.random.default_rng(0)
    rows = []
    for i in range(80):
        words = generator.choice(WORDS, 4 + i % 9)
        row = {"id": f"row {i}", "text": f"{i} {' '.join(words)}", "label": i % 2 if not regression else i / 7}
        if pairs:
            row["second"] = f"other {i}"
        # in the groups of ten: four of one split, so that no group is in two
        rows.append({**row, "group": f"g{i // 10}", "split": ("train", "train", "validation", "test")[i // 10 % 4]})
    return rows


def write(folder: Path, rows: Rows, pairs: bool = False, classes: list[str] | None = ["no", "yes"]) -> Path:  # noqa: B006 - read only
    folder.mkdir(parents=True, exist_ok=True)
    number = pa.int64() if classes is not None else pa.float64()
    fields = {"id": pa.string(), "text": pa.string(), "label": number, "group": pa.string(), "split": pa.string()}
    if pairs:
        fields["second"] = pa.string()
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(list(fields.items()))), folder / "rows.parquet")
    write_json(folder / "summary.json", {"classes": classes, "pairs": pairs})
    return folder


def judge(folder: Path, options: GateOptions = OPTIONS, drift: Drift | None = None) -> GateReport:
    none = Drift(None, DriftOptions(require_reference=False))
    return gate(folder, options, subject="it", docs_folder=None, drift=drift or none)


def refused(report: GateReport) -> set[str]:
    return {check.name for check in report.refused}


def test_a_good_set_passes(tmp_path: Path) -> None:
    for pairs, classes in ((False, ["no", "yes"]), (True, ["no", "yes"]), (False, None)):
        report = judge(write(tmp_path, good_rows(pairs, classes is None), pairs, classes))
        assert report.findings == ()
        assert len({check.name for check in report.checks}) == len(report.checks) > 12


def set_all(key: str, value: Any) -> Callable[[Rows], Rows]:
    return lambda rows: [{**row, key: value} for row in rows]


def change(place: int, **values: Any) -> Callable[[Rows], Rows]:
    return lambda rows: [{**row, **values} if i == place else row for i, row in enumerate(rows)]


def one_class_in_test(rows: Rows) -> Rows:
    return [{**row, "label": 0} if row["split"] == "test" else row for row in rows]


CONTROLS: list[tuple[str, Callable[[Rows], Rows], set[str]]] = [
    ("too few rows", lambda rows: rows[:59], {"splits/min_rows"}),
    ("empty split", lambda rows: [row for row in rows if row["split"] != "test"], {"splits/rows"}),
    ("unknown split", change(3, split="dev"), {"splits/known"}),
    ("empty text", change(3, text="  "), {"texts/empty"}),
    ("NUL", change(3, text="3 a\0b"), {"texts/nul"}),
    ("repeated identifier", change(3, id="row 4"), {"texts/unique"}),
    ("over-long", change(3, text="3" * 401), {"texts/length"}),
    ("label out of range", change(3, label=2), {"classes/known"}),
    ("negative label", change(3, label=-1), {"classes/known"}),
    ("class missing in a split", one_class_in_test, {"classes/in_every_split"}),
    ("group in two splits", change(3, group="g2"), {"flaws/groups_across_splits"}),
    ("wrongly decoded", change(3, text="3 na\x96ve"), {"flaws/wrongly_decoded"}),
    ("replacement character", change(3, text="3 na�ve"), {"flaws/wrongly_decoded"}),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "names"), [case[1:] for case in CONTROLS], ids=[case[0] for case in CONTROLS])
def test_every_check_refuses_its_control(tmp_path: Path, rows: Callable[[Rows], Rows], names: set[str]) -> None:
    report = judge(write(tmp_path, rows(good_rows())))
    assert names <= refused(report)
    if len(names) == 1 and next(iter(names)).split("/")[0] not in ("splits", "classes"):
        assert refused(report) == names


@pytest.mark.parametrize(("other", "name"), [(5, "within_a_split"), (25, "across_splits")])
def test_copies_are_told_whatever_their_white_space(tmp_path: Path, other: int, name: str) -> None:
    rows = good_rows()
    rows[other]["text"] = "  ".join(rows[3]["text"].split()) + "\n"
    assert refused(judge(write(tmp_path, rows))) == {f"flaws/copies_{name}"}
    allowed = OPTIONS.model_copy(update={"max_duplicates_within": 0.05, "max_duplicates_across": 0.05})
    assert judge(write(tmp_path, rows), allowed).verdict == "passed"


def test_classes_must_have_similar_shares(tmp_path: Path) -> None:
    rows = [{**row, "label": int(row["split"] == "train" or i % 3 == 0)} for i, row in enumerate(good_rows())]
    assert "classes/drift" in refused(judge(write(tmp_path, rows)))


def test_pairs_of_equal_texts_and_empty_seconds_are_refused(tmp_path: Path) -> None:
    rows = good_rows(pairs=True)
    rows[3]["second"] = rows[3]["text"]
    assert refused(judge(write(tmp_path, rows, pairs=True))) == {"flaws/pairs_of_equal_texts"}
    rows[3]["second"] = ""
    assert refused(judge(write(tmp_path, rows, pairs=True))) == {"texts/empty"}


def test_words_that_change_sides_make_another_pair(tmp_path: Path) -> None:
    rows = good_rows(pairs=True)
    rows[4] |= {"text": "3 a b", "second": "c"}
    rows[5] |= {"text": "3 a", "second": "b c"}
    assert judge(write(tmp_path, rows, pairs=True)).findings == ()
    rows[5] = {**rows[4], "id": "row 5"}
    assert refused(judge(write(tmp_path, rows, pairs=True))) == {"flaws/copies_within_a_split"}


def test_a_regression_needs_finite_and_different_labels(tmp_path: Path) -> None:
    rows = good_rows(regression=True)
    rows[3]["label"] = float("nan")
    assert "labels/finite" in refused(judge(write(tmp_path, rows, classes=None)))
    constant = [{**row, "label": 1.0} for row in rows]
    assert "labels/different" in refused(judge(write(tmp_path, constant, classes=None)))


@pytest.mark.parametrize("name", ["rows.parquet", "summary.json"])
@pytest.mark.parametrize("content", [None, b"", b"<html></html>", b"{}"])
def test_what_cannot_be_read_is_refused_and_not_raised(tmp_path: Path, name: str, content: bytes | None) -> None:
    write(tmp_path, good_rows())
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    report = judge(tmp_path)
    assert report.verdict == "refused"
    assert refused(report) == {"files/readable"}


def test_drift_from_the_accepted_version_is_refused(tmp_path: Path) -> None:
    accepted = profile_of(observations(write(tmp_path / "old", good_rows())))
    drift = Drift(accepted, DriftOptions())
    assert judge(write(tmp_path / "same", good_rows()), drift=drift).verdict == "passed"
    longer = [{**row, "text": f"{row['text']} and so on and on and on and on"} for row in good_rows()]
    report = judge(write(tmp_path / "new", longer), drift=drift)
    assert refused(report) == {"drift/index"}
    assert "feature characters" in report.findings[0]
