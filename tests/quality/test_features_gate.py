"""The gate of features: good ones pass, and every check has an input that it refuses."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from components.arrays import open_array, save_array
from components.datasets.features.computing import Texts
from components.datasets.features.config import FeatureGateOptions
from components.files import read_json, write_json
from components.quality.core.report import GateReport
from components.quality.features.gate import gate_features

ROWS, WIDTH = 12, 5
OPTIONS = FeatureGateOptions(tolerance=0.01)


def vectors(row: int) -> np.ndarray:
    """What the encoder gives for a row: as many tokens as its number asks, all different."""
    return np.random.default_rng(row).normal(size=(2 + row % 4, WIDTH)).astype(np.float32)


ENCODER = {"encoder": "some-encoder", "dim": WIDTH, "files": {"model.safetensors": "a" * 64}}
TEXTS = Texts(
    [f"id {i}" for i in range(ROWS)],
    [f"text {i}" for i in range(ROWS)],
    None,
    [float(i % 2) for i in range(ROWS)],
    [("train", "validation", "test")[i % 3] for i in range(ROWS)],
    False,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [vectors(i).astype(np.float16) for i in range(ROWS)]
    save_array(tmp_path / "features.npy", np.concatenate(rows))
    save_array(tmp_path / "offsets.npy", np.cumsum([0, *map(len, rows)]).astype(np.int64))
    save_array(tmp_path / "labels.npy", np.arange(ROWS, dtype=np.int64) % 2)
    save_array(tmp_path / "splits.npy", np.arange(ROWS, dtype=np.uint8) % 3)
    write_json(tmp_path / "ids.json", TEXTS.ids)
    tokens = sum(map(len, rows))
    save_array(tmp_path / "tokens.npy", np.arange(tokens, dtype=np.uint32) % 30)
    write_json(
        tmp_path / "summary.json",
        {**ENCODER, "tokens": tokens, "vocabulary": 30, "compute": {"dtype": "float16", "max_tokens": 5}},
    )
    return tmp_path


def judge(folder: Path, options: FeatureGateOptions = OPTIONS) -> GateReport:
    return gate_features(folder, TEXTS, ENCODER, options, vectors, subject="it", docs_folder=None)


def refused(report: GateReport) -> set[str]:
    return {check.name for check in report.refused}


def test_good_features_pass(folder: Path) -> None:
    report = judge(folder)
    assert report.findings == ()
    assert len(report.checks) > 20


def edit(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    return lambda folder: save_array(folder / f"{name}.npy", change(np.array(open_array(folder / f"{name}.npy"))))


def at(place: int | tuple[int, int], value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array[place] = value
        return array

    return change


def unwritten(array: np.ndarray) -> np.ndarray:
    array[-2:] = 0
    return array


def heedless(folder: Path) -> None:
    """Every row of four tokens has the same vectors."""
    offsets = open_array(folder / "offsets.npy").tolist()
    features = np.array(open_array(folder / "features.npy"))
    for row in range(2, ROWS, 4):
        features[offsets[row] : offsets[row + 1]] = features[offsets[2] : offsets[3]]
    save_array(folder / "features.npy", features)


def constant(array: np.ndarray) -> np.ndarray:
    array[:, 2] = 7
    return array


def shorter(folder: Path) -> None:
    write_json(folder / "ids.json", read_json(folder / "ids.json")[:-1])


def other_order(folder: Path) -> None:
    ids = read_json(folder / "ids.json")
    write_json(folder / "ids.json", [ids[1], ids[0], *ids[2:]])


def told(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        summary = read_json(folder / "summary.json")
        write_json(folder / "summary.json", {**summary, **changes})

    return change


CONTROLS: list[tuple[str, Callable[[Path], None], str]] = [
    ("NaN", edit("features", at((3, 1), np.nan)), "values/finite"),
    ("infinite", edit("features", at((3, 1), np.inf)), "values/finite"),
    ("constant dimension", edit("features", constant), "values/constant"),
    ("not written", edit("features", unwritten), "values/length"),
    ("all zeros", edit("features", np.zeros_like), "values/norms"),
    ("one far too long", edit("features", at((3, 1), 3e4)), "values/norms"),
    ("an encoder that does not heed its input", heedless, "same/share"),
    ("other weights", told(files={"model.safetensors": "b" * 64}), "encoder/same"),
    ("another encoder", told(encoder="another"), "encoder/same"),
    ("no tokens", edit("features", lambda array: array[:0]), "tokens/some"),
    ("single precision", edit("features", lambda array: array.astype(np.float32)), "tokens/form"),
    ("another width", edit("features", lambda array: array[:, :4]), "tokens/form"),
    ("tokens too many", edit("features", lambda array: np.concatenate([array, array[:1]])), "tokens/end"),
    ("an offset too few", edit("offsets", lambda array: array[:-1]), "tokens/offsets"),
    ("an identifier of a token too few", edit("tokens", lambda array: array[1:]), "tokens/identifiers"),
    ("a word that is none", edit("tokens", at(3, 30)), "tokens/vocabulary"),
    ("begins late", edit("offsets", at(0, 1)), "tokens/begin"),
    ("falling offsets", edit("offsets", at(1, 40)), "tokens/shortest"),
    ("over-long row", told(compute={"dtype": "float16", "max_tokens": 4}), "tokens/longest"),
    ("another label", edit("labels", at(4, 1)), "rows/labels"),
    ("another split", edit("splits", at(4, 2)), "rows/splits"),
    ("rows too few", edit("labels", lambda array: array[:-1]), "arrays/same_rows"),
    ("labels of another type", edit("labels", lambda array: array.astype(np.int32)), "arrays/form"),
    ("an identifier too few", shorter, "rows/identifiers"),
    ("another order", other_order, "rows/identifiers"),
    ("rows of other texts", edit("features", lambda array: np.roll(array, 1, axis=0)), "recomputed/equal"),
    ("no summary", lambda folder: (folder / "summary.json").unlink(), "files/summary"),
    ("no features", lambda folder: (folder / "features.npy").unlink(), "files/readable"),
    ("no array", lambda folder: (folder / "offsets.npy").write_text("no"), "files/readable"),
]


@pytest.mark.parametrize(("spoil", "name"), [case[1:] for case in CONTROLS], ids=[case[0] for case in CONTROLS])
def test_every_check_refuses_its_control(folder: Path, spoil: Callable[[Path], None], name: str) -> None:
    spoil(folder)
    report = judge(folder)
    assert name in refused(report)
    assert report.verdict == "refused"


def test_rows_of_equal_texts_may_have_equal_features(folder: Path) -> None:
    heedless(folder)
    first = ["  The   SAME words" if row % 4 == 2 else text for row, text in enumerate(TEXTS.first)]
    alike = replace(TEXTS, first=[text.upper() if row == 6 else text for row, text in enumerate(first)])
    report = gate_features(folder, alike, ENCODER, OPTIONS, vectors, subject="it", docs_folder=None)
    assert "same/share" not in refused(report)
    # of twelve rows two have the vectors of another text
    assert judge(folder, FeatureGateOptions(tolerance=50, max_same=2 / 12)).verdict == "passed"
    assert "same/share" in refused(judge(folder, FeatureGateOptions(tolerance=50, max_same=1.9 / 12)))


def test_thresholds_are_the_configurations(folder: Path) -> None:
    edit("features", constant)(folder)
    allowed = FeatureGateOptions(tolerance=50, max_constant_dimensions=0.2)
    assert judge(folder, allowed).verdict == "passed"
    # half precision keeps three digits: a tolerance below that refuses even good features
    assert "recomputed/equal" in refused(judge(folder, FeatureGateOptions(tolerance=1e-6, recomputed_rows=12)))
