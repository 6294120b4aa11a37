"""The gate of token streams: a good set passes, and every check has an input that it refuses."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from components.arrays import open_array, save_array
from components.datasets.core.options import DriftOptions
from components.datasets.language.config import GateOptions
from components.files import read_json, write_json
from components.quality.core.drift import Drift
from components.quality.core.profile import profile_of
from components.quality.core.report import GateReport
from components.quality.language.gate import LONG_LINES, gate, long_lines, observations

# the end of a line is token 0, <unk> token 1
WORDS = ["<eos>", "<unk>", *(f"word{i}" for i in range(48))]
SIZES = {"train": 6000, "validation": 900, "test": 901}
OPTIONS = GateOptions(min_rows=7000, max_most_frequent=0.2, expected_tokens=SIZES, expected_vocabulary=50)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    for split, size in SIZES.items():
        stream = generator.integers(2, 50, size).astype(np.uint16)
        stream[30::31] = 0
        stream[7::200] = 1
        stream[-1] = 0
        save_array(tmp_path / f"{split}.npy", stream)
    write_json(tmp_path / "vocabulary.json", {"unit": "word", "tokens": WORDS})
    return tmp_path


def judge(folder: Path, options: GateOptions = OPTIONS, drift: Drift | None = None) -> GateReport:
    none = Drift(None, DriftOptions(require_reference=False))
    return gate(folder, options, subject="it", docs_folder=None, drift=drift or none)


def refused(report: GateReport) -> set[str]:
    return {check.name for check in report.refused}


def test_a_good_set_passes(folder: Path) -> None:
    report = judge(folder)
    assert report.findings == ()
    assert len(report.checks) > 15


def edit(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    return lambda folder: save_array(folder / f"{name}.npy", change(np.array(open_array(folder / f"{name}.npy"))))


def put(value: int, places: slice) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array[places] = value
        return array

    return change


def other_words(folder: Path) -> None:
    write_json(folder / "vocabulary.json", {"unit": "word", "tokens": [*WORDS, *(f"unused{i}" for i in range(9))]})


def copied(folder: Path) -> None:
    lines = np.array(open_array(folder / "train.npy"))[:400]
    save_array(folder / "test.npy", np.concatenate([lines, open_array(folder / "test.npy")[400:]]))


CONTROLS: list[tuple[str, Callable[[Path], None], str]] = [
    ("empty split", edit("test", lambda array: array[:0]), "streams/tokens"),
    ("too few tokens", edit("train", lambda array: array[:5000]), "streams/min_rows"),
    ("another type", edit("test", lambda array: array.astype(np.uint32)), "streams/form"),
    ("another rank", edit("test", lambda array: array.reshape(1, -1)), "streams/form"),
    ("token out of range", edit("test", put(50, slice(3, 4))), "streams/vocabulary"),
    ("a token too many", edit("test", lambda array: np.append(array, array[-1:])), "counts/published"),
    ("words too many", other_words, "vocabulary/published"),
    ("unknown tokens", edit("test", put(1, slice(0, None, 3))), "tokens/unknown_in_test"),
    ("one token throughout", edit("validation", put(7, slice(0, None, 4))), "tokens/most_frequent_in_validation"),
    ("no line ends", edit("test", lambda array: np.maximum(array, 2)), "tokens/without_line_ends_in_test"),
    ("unused words", other_words, "tokens/unused_vocabulary_in_train"),
    ("lines of train in test", copied, "lines/long_lines_of_test_in_train"),
    ("no stream", lambda folder: (folder / "test.npy").unlink(), "files/readable"),
    ("no vocabulary", lambda folder: (folder / "vocabulary.json").unlink(), "files/vocabulary"),
]


@pytest.mark.parametrize(("spoil", "name"), [case[1:] for case in CONTROLS], ids=[case[0] for case in CONTROLS])
def test_every_check_refuses_its_control(folder: Path, spoil: Callable[[Path], None], name: str) -> None:
    spoil(folder)
    report = judge(folder)
    assert name in refused(report)
    assert report.verdict == "refused"


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"unit": "word", "tokens": ["a", "a", "<unk>", "<eos>"]},
        {"unit": "word", "tokens": ["a"]},
        {"unit": "letter"},
    ],
)
def test_what_is_no_vocabulary_is_refused(folder: Path, content: object) -> None:
    write_json(folder / "vocabulary.json", content)
    assert refused(judge(folder)) == {"files/vocabulary"}


def test_lines_are_the_same_wherever_a_piece_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from components.quality.language import gate as module

    stream = open_array(folder / "train.npy")
    least = LONG_LINES["word"]
    whole = list(long_lines(stream, 0, least))
    assert len(whole) > 100
    assert all(length >= least for _, length in whole)
    monkeypatch.setattr(module, "TOKENS_AT_ONCE", 17)
    assert list(long_lines(stream, 0, least)) == whole


def test_unknown_tokens_that_train_has_none_of_are_not_unused(folder: Path) -> None:
    edit("train", put(2, slice(7, None, 200)))(folder)
    assert 1 not in open_array(folder / "train.npy")
    options = OPTIONS.model_copy(update={"max_unused": 0.0})
    assert judge(folder, options).findings == ()
    edit("train", lambda array: np.where(array == 49, 48, array).astype(np.uint16))(folder)
    assert refused(judge(folder, options)) == {"tokens/unused_vocabulary_in_train"}


@pytest.mark.parametrize(("length", "verdict"), [(99, "passed"), (100, "refused")])
def test_lines_of_bytes_are_long_from_a_hundred(tmp_path: Path, length: int, verdict: str) -> None:
    generator = np.random.default_rng(1)

    def lines(count: int) -> list[int]:
        drawn = (generator.integers(97, 123, 150).tolist() for _ in range(count))
        return [byte for line in drawn for byte in [*line, 10]]

    same = [*generator.integers(97, 123, length).tolist(), 10]
    for split, count in (("train", 80), ("validation", 10), ("test", 10)):
        stream = np.array(lines(count) + (same if split != "validation" else []), dtype=np.uint16)
        save_array(tmp_path / f"{split}.npy", stream)
    write_json(tmp_path / "vocabulary.json", {"unit": "byte", "tokens": [chr(number) for number in range(256)]})
    report = judge(tmp_path, GateOptions(min_rows=100))
    assert report.verdict == verdict
    assert refused(report) <= {"lines/long_lines_of_test_in_train"}


def test_drift_from_the_accepted_version_is_refused(folder: Path) -> None:
    drift = Drift(profile_of(observations(folder)), DriftOptions())
    assert judge(folder, drift=drift).verdict == "passed"
    edit("train", lambda array: np.where(array > 25, array - 24, array).astype(np.uint16))(folder)
    vocabulary = read_json(folder / "vocabulary.json")
    assert len(vocabulary["tokens"]) == 50
    assert "drift/index" in refused(judge(folder, drift=drift))
