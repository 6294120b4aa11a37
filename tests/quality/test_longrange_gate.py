"""The gate of long sequences: accepts good folders of every task, and for every check refuses what only it refuses."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from components.arrays import save_array
from components.datasets.longrange.config import GateOptions
from components.datasets.longrange.kind import prepare
from components.datasets.longrange.planned import Candidate, planned
from components.datasets.longrange.source import byte_tokens, level_vocabulary
from components.datasets.longrange.writing import write_sequences
from components.errors import DataError
from components.files import canonical_json, read_json, write_json
from components.quality.core.drift import Drift
from components.quality.core.profile import profile_of
from components.quality.core.report import GateReport
from components.quality.longrange.gate import gate, observations
from tests.datasets.sequences import generated_entry, ragged, rows_options, silent

ROWS = (120, 40, 40)
FORMS: dict[str, dict[str, Any]] = {
    "listops": {"listops": {"min_length": 20, "max_length": 90}},
    "pathfinder": {"pathfinder": {"contour_length": 5, "distractor_length": 2, "distractors": 2}},
}
LENGTHS = {"listops": (21, 89), "pathfinder": (1024, 1024), "bytes": (1, 60), "pixels": (30, 30), "retrieval": (1, 60)}


def made_by_a_generator(task: str, folder: Path) -> dict[str, Any]:
    entry = generated_entry(f"{task}-generator")
    # ten classes need more rows to have alike shares in the splits
    rows = (500, 250, 250) if task == "listops" else ROWS
    return prepare(entry, (), rows_options(task, rows, **FORMS[task]), folder, silent)


def made_of_values(task: str, folder: Path) -> dict[str, Any]:
    """Rows that the readers need no files for."""
    rng = np.random.default_rng(5)

    def text(number: int) -> NDArray[np.uint8]:
        return byte_tokens(f"text {number} é {rng.integers(10**6)} " + "ö" * int(rng.integers(1, 20)), 60)

    def row(number: int) -> Candidate:
        split = "train" if number < ROWS[0] else "validation" if number < ROWS[0] + ROWS[1] else "test"
        if task == "pixels":
            return Candidate(split, number % 2, rng.integers(1, 257, 30).astype(np.uint16))
        return Candidate(split, number % 2, text(number), text(number) if task == "retrieval" else None)

    rows = [row(number) for number in range(sum(ROWS))]
    options = rows_options("bytes", ROWS)
    kind = np.uint16 if task == "pixels" else np.uint8
    facts = {"task": task, **({"shape": [5, 6]} if task == "pixels" else {})}
    sequences = planned(
        lambda: iter(rows), options, ("no", "yes"), level_vocabulary("byte"), kind, task == "retrieval", facts, silent
    )
    return write_sequences(folder, sequences, silent)


MADE: dict[str, Callable[[str, Path], dict[str, Any]]] = {
    "listops": made_by_a_generator,
    "pathfinder": made_by_a_generator,
    "bytes": made_of_values,
    "pixels": made_of_values,
    "retrieval": made_of_values,
}


def good_folder(task: str, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    write_json(folder / "summary.json", MADE[task](task, folder))
    return folder


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The good folder of a task, made once."""
    made: dict[str, Path] = {}

    def folder_of(task: str) -> Path:
        if task not in made:
            made[task] = good_folder(task, tmp_path_factory.mktemp(task))
        return made[task]

    return folder_of


def options(task: str, **changes: Any) -> GateOptions:
    low, high = LENGTHS[task]
    return GateOptions(**({"min_rows": 150, "min_length": low, "max_length": high, "max_share_drift": 0.15} | changes))


def judged(folder: Path, task: str, accepted: Path, **changes: Any) -> GateReport:
    wanted = options(task, **changes)
    drift = Drift(profile_of(observations(accepted)), wanted.drift)
    return gate(folder, wanted, subject=f"data/prepared/{task}", docs_folder=None, drift=drift)


def refused(report: GateReport) -> set[str]:
    return {check.name for check in report.refused}


# Refused in tests of their own below, or where they are defined.
SHARED_CHECKS = {
    "arrays/rows",
    "classes/in_every_split",
    "drift/features",
    "reworked/examined",
    "splits/min_rows",
    "splits/rows",
}


@pytest.mark.parametrize("task", list(MADE))
def test_a_good_folder_passes_with_every_check_asked(task: str, good: Callable[[str], Path]) -> None:
    report = judged(good(task), task, good(task))
    assert report.findings == ()
    assert report.verdict == "passed"
    names = {check.name for check in report.checks}
    assert len(names) == len(report.checks)
    # every check has a folder below that it refuses
    assert names - SHARED_CHECKS <= {check for _, _, check in CONTROLS}
    again = judged(good(task), task, good(task))
    assert canonical_json(report.to_json()) == canonical_json(again.to_json())


class Spoilt:
    """A copy of a good folder, to be spoilt and written."""

    def __init__(self, source: Path):
        self.arrays: dict[str, Any] = {path.stem: np.load(path) for path in sorted(source.glob("*.npy"))}
        self.summary: Any = read_json(source / "summary.json")
        self.vocabulary: Any = read_json(source / "vocabulary.json")

    def write(self, folder: Path) -> Path:
        for name, values in self.arrays.items():
            save_array(folder / f"{name}.npy", values)
        write_json(folder / "summary.json", self.summary)
        write_json(folder / "vocabulary.json", self.vocabulary)
        return folder

    def set_rows(self, rows: Sequence[NDArray[Any]], prefix: str = "") -> None:
        self.arrays[f"{prefix}tokens"] = np.concatenate(rows)
        self.arrays[f"{prefix}offsets"] = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)

    def rows(self, prefix: str = "") -> list[NDArray[Any]]:
        offsets = self.arrays[f"{prefix}offsets"]
        return [self.arrays[f"{prefix}tokens"][a:b] for a, b in pairwise(offsets)]


Spoil = Callable[[Spoilt], object]


def replaced(number: int, change: Callable[[NDArray[Any]], NDArray[Any]], prefix: str = "") -> Spoil:
    def spoil(folder: Spoilt) -> None:
        rows = folder.rows(prefix)
        rows[number] = change(rows[number])
        folder.set_rows(rows, prefix)

    return spoil


def array(name: str, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Spoil:
    return lambda folder: folder.arrays.update({name: change(folder.arrays[name])})


def told(**changes: Any) -> Spoil:
    return lambda folder: folder.summary.update(changes)


def copied(number: int, onto: int) -> Spoil:
    def spoil(folder: Spoilt) -> None:
        for prefix in ("", "second_") if folder.summary["pairs"] else ("",):
            rows = folder.rows(prefix)
            rows[onto] = rows[number]
            folder.set_rows(rows, prefix)

    return spoil


def put(values: NDArray[Any], where: Any, what: Any) -> NDArray[Any]:
    changed = values.copy()
    changed[where] = what
    return changed


def turned_label(folder: Spoilt) -> None:
    labels = folder.arrays["labels"]
    labels[3] = (labels[3] + 1) % len(folder.summary["classes"])


def other_geometry(folder: Spoilt) -> None:
    # true of another image with the same label
    labels = folder.arrays["labels"]
    twin = int(np.flatnonzero(labels[10:] == labels[5])[0]) + 10
    for name in ("dashes", "dots"):
        folder.arrays[name][5] = folder.arrays[name][twin]


def moved_dot(folder: Spoilt) -> None:
    folder.arrays["dots"][4, 0] += 60


def dash_that_bridges(folder: Spoilt) -> None:
    """The gap that is said to join two dashes is so large that all are joined."""
    folder.summary["gap"] = 64.0


def a_class_grows_in_a_split(folder: Spoilt) -> None:
    chosen = np.flatnonzero((folder.arrays["splits"] == 2) & (folder.arrays["labels"] == 0))
    folder.arrays["labels"][chosen[:-4]] = 1


def a_class_is_missing_in_a_split(folder: Spoilt) -> None:
    chosen = np.flatnonzero((folder.arrays["splits"] == 2) & (folder.arrays["labels"] == 0))
    folder.arrays["labels"][chosen] = 1


def no_test_split(folder: Spoilt) -> None:
    folder.arrays["splits"][folder.arrays["splits"] == 2] = 1


def equal_pair(folder: Spoilt) -> None:
    rows = folder.rows("second_")
    rows[8] = folder.rows()[8]
    folder.set_rows(rows, "second_")


def a_short_list(folder: Spoilt) -> None:
    """Four tokens that are worth what the row is labelled."""
    digit = int(folder.arrays["labels"][3]) + 1
    replaced(3, lambda row: np.asarray([11, digit, digit, 15], np.uint8))(folder)


def twice_as_long(folder: Spoilt) -> None:
    # all texts at their longest, which is still allowed
    folder.set_rows([np.resize(row, 60) for row in folder.rows()])


BAD_BYTE = 0xFF - 0x0A
# task, what is done to its good folder, the check that refuses it
CONTROLS: list[tuple[str, Spoil, str]] = [
    ("bytes", told(task="poems"), "files/summary"),
    ("bytes", told(classes=[]), "files/summary"),
    ("pathfinder", told(gap="wide"), "files/summary"),
    ("bytes", lambda folder: folder.vocabulary.update({"0": "nothing"}), "files/vocabulary"),
    ("bytes", lambda folder: folder.vocabulary.update({"a": "no token"}), "files/vocabulary"),
    ("pathfinder", lambda folder: folder.arrays.pop("dots"), "files/readable"),
    ("retrieval", lambda folder: folder.arrays.pop("second_offsets"), "files/readable"),
    ("bytes", array("labels", lambda values: values.astype(np.int32)), "arrays/form"),
    ("pathfinder", array("dots", lambda values: values.reshape(len(values), 4)), "arrays/form"),
    ("pathfinder", array("dashes", lambda values: values[:-1]), "arrays/same_rows"),
    ("bytes", array("splits", lambda values: values[:-1]), "arrays/same_rows"),
    ("bytes", array("tokens", lambda values: values.astype(np.uint16)), "offsets/part_the_tokens"),
    ("bytes", array("tokens", lambda values: values[:-1]), "offsets/part_the_tokens"),
    ("bytes", array("offsets", lambda values: put(values, 0, 1)), "offsets/part_the_tokens"),
    ("bytes", array("offsets", lambda values: put(values, 5, values[7])), "offsets/part_the_tokens"),
    ("retrieval", array("second_offsets", lambda values: values[:-1]), "offsets/part_the_tokens"),
    ("bytes", array("splits", lambda values: put(values, 3, 7)), "splits/known"),
    ("bytes", replaced(3, lambda row: np.resize(row, 61)), "lengths/longest"),
    ("listops", a_short_list, "lengths/shortest"),
    ("retrieval", replaced(3, lambda row: np.resize(row, 61), "second_"), "lengths/longest"),
    ("pixels", replaced(-1, lambda row: put(row, 3, 300)), "tokens/known"),
    ("pixels", replaced(-1, lambda row: put(row, 3, 0)), "tokens/no_padding"),
    ("bytes", array("labels", lambda values: put(values, 3, 2)), "classes/known"),
    ("bytes", array("labels", lambda values: put(values, 3, -1)), "classes/known"),
    ("bytes", a_class_grows_in_a_split, "classes/drift"),
    ("bytes", copied(3, 7), "flaws/copies_within_a_split"),
    ("retrieval", copied(3, 180), "flaws/copies_across_splits"),
    ("retrieval", equal_pair, "flaws/pairs_of_equal_sequences"),
    ("listops", turned_label, "reworked/agree"),
    ("listops", replaced(3, lambda row: put(row, -1, 4)), "reworked/agree"),
    ("listops", replaced(3, lambda row: row[::-1]), "reworked/agree"),
    ("pathfinder", turned_label, "reworked/agree"),
    ("pathfinder", other_geometry, "reworked/agree"),
    ("pathfinder", array("dashes", lambda values: values[:, :, :3]), "reworked/agree"),
    ("pathfinder", array("dashes", lambda values: np.full_like(values, -1)), "reworked/agree"),
    ("pathfinder", moved_dot, "reworked/agree"),
    ("pathfinder", dash_that_bridges, "reworked/agree"),
    ("pathfinder", replaced(3, lambda row: row[::-1].copy()), "reworked/agree"),
    ("bytes", replaced(3, lambda row: put(row, 2, BAD_BYTE)), "reworked/agree"),
    ("retrieval", replaced(3, lambda row: put(row, 2, BAD_BYTE), "second_"), "reworked/agree"),
    ("pixels", told(shape=[5, 7]), "reworked/agree"),
    ("bytes", twice_as_long, "drift/index"),
]


@pytest.mark.parametrize(
    ("task", "spoil", "check"), CONTROLS, ids=[f"{c}-{t}-{n}" for n, (t, _, c) in enumerate(CONTROLS)]
)
def test_each_check_refuses_what_only_it_refuses(
    task: str, spoil: Spoil, check: str, tmp_path: Path, good: Callable[[str], Path]
) -> None:
    folder = Spoilt(good(task))
    spoil(folder)
    report = judged(folder.write(tmp_path), task, good(task), sample=10_000)
    assert refused(report) == {check}
    assert all(len(finding.splitlines()) == 1 for finding in report.findings)


@pytest.mark.parametrize(
    ("task", "spoil", "checks"),
    [
        ("bytes", no_test_split, {"splits/rows", "classes/in_every_split"}),
        ("bytes", a_class_is_missing_in_a_split, {"classes/in_every_split", "classes/drift"}),
        ("bytes", replaced(3, lambda row: put(row, 1, 0)), {"tokens/no_padding", "reworked/agree"}),
        ("bytes", replaced(3, lambda row: row[:0]), {"lengths/shortest"}),
    ],
)
def test_faults_that_several_checks_see(
    task: str, spoil: Spoil, checks: set[str], tmp_path: Path, good: Callable[[str], Path]
) -> None:
    folder = Spoilt(good(task))
    spoil(folder)
    assert checks <= refused(judged(folder.write(tmp_path), task, good(task), sample=10_000))


def test_an_empty_set_is_refused(tmp_path: Path, good: Callable[[str], Path]) -> None:
    folder = Spoilt(good("bytes"))
    folder.arrays = {name: values[:1] if name == "offsets" else values[:0] for name, values in folder.arrays.items()}
    report = judged(folder.write(tmp_path), "bytes", good("bytes"))
    assert refused(report) == {"arrays/rows", "arrays/same_rows", "offsets/part_the_tokens"}
    folder.summary["rows"] = 0
    assert refused(judged(folder.write(tmp_path), "bytes", good("bytes"))) == {"files/summary"}


def test_too_few_rows_and_no_reference_are_refused(good: Callable[[str], Path]) -> None:
    assert refused(judged(good("bytes"), "bytes", good("bytes"), min_rows=201)) == {"splits/min_rows"}
    wanted = options("bytes")
    report = gate(good("bytes"), wanted, subject="it", docs_folder=None, drift=Drift(None, wanted.drift))
    assert refused(report) == {"drift/reference"}


def test_missing_and_broken_files_are_refused_and_old_pages_go(tmp_path: Path, good: Callable[[str], Path]) -> None:
    docs = tmp_path / "docs"
    wanted = options("bytes")
    drift = Drift(None, wanted.drift)
    gate(good("bytes"), wanted, subject="it", docs_folder=docs, drift=drift)
    assert list(docs.rglob("*.html"))
    empty = tmp_path / "empty"
    empty.mkdir()
    report = gate(empty, wanted, subject="it", docs_folder=docs, drift=drift)
    assert refused(report) == {"files/summary", "files/vocabulary"}
    assert not docs.exists()
    folder = Spoilt(good("bytes")).write(empty)
    (folder / "tokens.npy").write_bytes(b"\x93NUMPY")
    assert refused(gate(folder, wanted, subject="it", docs_folder=None, drift=drift)) == {"files/readable"}
    (folder / "summary.json").write_text("{", encoding="utf-8")
    assert refused(gate(folder, wanted, subject="it", docs_folder=None, drift=drift)) == {"files/summary"}
    with pytest.raises(DataError, match=r"summary\.json: JSONDecodeError"):
        observations(folder)


def test_observations_of_what_does_not_fit_together_are_refused(tmp_path: Path, good: Callable[[str], Path]) -> None:
    folder = Spoilt(good("bytes"))
    folder.arrays["offsets"] = folder.arrays["offsets"][:-1]
    with pytest.raises(DataError, match=r"offsets\.npy: 200 offsets of 200 rows"):
        observations(folder.write(tmp_path))


def test_what_is_observed(good: Callable[[str], Path]) -> None:
    texts = observations(good("bytes"))
    assert set(texts) == {"length", "class"}
    assert list(texts["length"]) == [len(row) for row in ragged(good("bytes"))]
    assert set(texts["class"]) == {"no", "yes"}
    assert set(observations(good("retrieval"))) == {"length", "second length", "class"}
    images = observations(good("pixels"))
    assert np.allclose(images["mean token"], [row.mean() for row in ragged(good("pixels"))])
    assert set(images) == {"length", "mean token", "class"}


def test_a_sample_reaches_from_the_first_row_to_the_last(tmp_path: Path, good: Callable[[str], Path]) -> None:
    for number in (0, -1):
        folder = Spoilt(good("bytes"))
        replaced(number, lambda row: put(row, 2, BAD_BYTE))(folder)
        place = tmp_path / str(number)
        place.mkdir()
        report = judged(folder.write(place), "bytes", good("bytes"), sample=2)
        assert refused(report) == {"reworked/agree"}
        assert f"row {number % 200}: byte 0xf4" in report.findings[0]
