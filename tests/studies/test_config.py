"""What a study may say, and what is refused with a sentence that a reader can act on."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.errors import ConfigError, UsageError
from components.studies.config import SeedRange, grid_name, load_studies, study_named
from tests.studies.conftest import study

ROOT = Path(__file__).resolve().parents[2]
ARMS = {"arms": {"a": {"model.dim": 8}, "b": {"model.dim": 16}}, "varies": ["model.dim"], "grid": {}, "reference": "a"}


def test_a_grid_is_every_combination_the_first_knob_slowest() -> None:
    config = study(
        grid={"model.dim": [8, 16], "training.timescale_ratio": [0.1, 1.0]}, reference="dim=8,timescale_ratio=0.1"
    )
    assert list(config.arm_settings) == [
        "dim=8,timescale_ratio=0.1",
        "dim=8,timescale_ratio=1.0",
        "dim=16,timescale_ratio=0.1",
        "dim=16,timescale_ratio=1.0",
    ]
    assert config.arm_settings["dim=16,timescale_ratio=0.1"] == {"model.dim": 16, "training.timescale_ratio": 0.1}
    assert config.knobs == ("model.dim", "training.timescale_ratio")


def test_arms_keep_their_names_and_say_what_they_vary() -> None:
    config = study(**ARMS)
    assert config.arm_settings == ARMS["arms"]
    assert config.knobs == ("model.dim",)


def test_seeds_are_a_list_or_a_range() -> None:
    assert study(seeds=[3, 1]).seed_list == (3, 1)
    assert study(seeds={"first": 5, "count": 3}).seed_list == (5, 6, 7)
    assert study(seeds={"count": 2}).seed_list == (SeedRange(count=2).first, SeedRange(count=2).first + 1)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"grid": {}}, "either a grid or arms"),
        ({"arms": {"a": {}}, "varies": ["model.dim"]}, "either a grid or arms"),
        ({**ARMS, "varies": []}, "arms need `varies`"),
        ({"varies": ["model.dim"]}, "leave `varies` out"),
        ({"reference": "nobody"}, "reference 'nobody' is no arm; the arms are: timescale_ratio=0.1, "),
        ({"seeds": []}, "one or more, each named once"),
        ({"seeds": [1, 1]}, "one or more, each named once"),
        ({"seeds": [True]}, "seeds"),
        ({"grid": {"training.timescale_ratio": [0.1, 0.1]}}, "each once"),
        ({"grid": {"training.timescale_ratio": []}}, "one or more values"),
        ({"grid": {"seed": [1, 2]}, "reference": "seed=1"}, "seed is no knob"),
        ({"base": {"method": "other"}}, "method is no knob"),
        ({"budget": {"epochs": 3}}, "set by the budget already"),
        ({"seeds": {"count": 1000}, "grid": {"model.dim": list(range(8, 20))}, "reference": "dim=8"}, "than 5000 runs"),
        ({"metric": "Test Accuracy"}, "metric"),
        ({"surprise": 1}, "surprise"),
        ({"comparison": {"confidence": 1.0}}, "confidence"),
        ({"also": {"test/accuracy": "minimise"}}, "own metric already"),
        ({"base": {"training.timescale_ratio": 0.2}}, "set by `base` for all arms, and varied as well"),
        ({"seeds": {"first": 2**32 - 1, "count": 2}}, "seeds are below 2"),
        ({"grid": {"training.timescale_ratio": [0.1, "0.1"]}}, "the same name"),
        ({"grid": {"model.x": ["it's"]}, "reference": "x"}, "cannot name an arm"),
        ({"arms": {"a\"b": {}}, "grid": {}, "varies": ["model.dim"], "reference": "a"}, "arms"),
    ],
)  # fmt: skip
def test_refusals(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("[", r"\[").replace(".", r"\.")):
        study(**changes)


@given(
    st.lists(st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans(), st.none()), min_size=1, unique_by=repr)
)
def test_names_of_a_grid_tell_its_arms_apart(values: list[Any]) -> None:
    assert len({grid_name({"model.x": value}) for value in values}) == len(values)


def test_the_shipped_studies_are_whole_and_a_wrong_name_lists_them() -> None:
    studies = load_studies(ROOT)
    assert {"readout-timescale", "readout-temperature", "readout-prototypes", "readout-initialisation"} <= set(studies)
    with pytest.raises(UsageError, match=r"no study 'readout' in ablations.yaml; there are: readout-timescale, "):
        study_named(ROOT, "readout")


def test_faults_of_the_file_are_named_with_their_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ablations.yaml does not exist; .*docs/studies.md"):
        load_studies(tmp_path)
    shutil.copy(ROOT / "ablations.yaml", tmp_path)
    text = (tmp_path / "ablations.yaml").read_text(encoding="utf-8")
    (tmp_path / "ablations.yaml").write_text(text.replace("scale: tiny", "scale: huge"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"studies.readout-tiny.scale: .*'huge'.*; mend it in ablations.yaml"):
        load_studies(tmp_path)
    (tmp_path / "ablations.yaml").write_text(text + "\n  readout-tiny: {}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"is not YAML: 'readout-tiny' stands twice"):
        load_studies(tmp_path)
    (tmp_path / "ablations.yaml").write_text("studies: [", encoding="utf-8")
    with pytest.raises(ConfigError, match="is not YAML"):
        load_studies(tmp_path)
    (tmp_path / "ablations.yaml").write_bytes(b"studies: \xff")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load_studies(tmp_path)
