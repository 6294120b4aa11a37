"""What params.yaml may say: every fault is refused by place, value and rule, and every scale that ships is fine."""

import copy
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from components.config import Config, ExperimentConfig, TrainConfig, load_config, validated
from components.datasets.core.catalogue import load_catalogue
from components.datasets.registry import check_datasets
from components.errors import ConfigError, UsageError
from components.training.registry import METHODS, check_methods, method

ROOT = Path(__file__).parents[1]
CATALOGUE = load_catalogue(ROOT)
SCALES = sorted(path.stem for path in (ROOT / "conf" / "scale").glob("*.yaml"))
Content = dict[str, Any]


READS = {"form": "table", "folder": "prepared/orbits", "gate": "gate_data/orbits"}


def small() -> Content:
    """A whole configuration with one data set and one experiment, every field that has no default filled in."""
    return {
        "scale": "tiny",
        "datasets": {
            "orbits": {
                "kind": "orbital",
                "source": "orbital",
                "entry": "orbital-sample",
                "prepare": {"seed": 1},
                "gate": {
                    "min_rows": 10,
                    "min_rows_per_class": 1,
                    "required_regimes": ["LEO"],
                    "required_kinds": ["DEBRIS"],
                },
            }
        },
        "experiments": {
            "kinds": {
                "method": "ddcl-readout",
                "source": "ddcl",
                "dataset": "orbits",
                "reads": dict(READS),
                "seed": 2,
                "task": {"target": "kind", "classes": ["A", "B"], "features": ["x", "y"]},
                "model": {
                    "dim": 2,
                    "hidden": 3,
                    "num_prototypes": 4,
                    "loss_weight": 0.1,
                    "temperature_start": 1.0,
                    "temperature_end": 0.5,
                },
                "training": {"epochs": 1, "batch_size": 2, "learning_rate": 0.1},
                "gate": {"min_margin_over_majority": 0.0, "min_separation": 0.1},
            }
        },
        "exports": {"kinds": {"source": "ddcl", "reads": dict(READS)}},
    }


def changed(place: str, value: Any) -> Content:
    content = small()
    *folders, last = place.split(".")
    section = content
    for key in folders:
        section = section[key]
    section[last] = value
    return content


def load(content: Any, tmp_path: Path) -> Config:
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(content))
    return load_config(tmp_path / "params.yaml")


def refusal(content: Any, tmp_path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(content, tmp_path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_whole_configuration_is_read(tmp_path: Path) -> None:
    config = load(small(), tmp_path)
    check_methods(config)
    assert config.experiment("kinds").training.timescale_ratio == 0.1
    check_datasets(config, CATALOGUE)


@pytest.mark.parametrize(
    "section",
    [
        "",
        "datasets.orbits",
        "experiments.kinds",
        "experiments.kinds.task",
        "experiments.kinds.training",
        "experiments.kinds.gate",
        "experiments.kinds.reads",
        "exports.kinds",
    ],
)
def test_a_key_that_does_not_exist_is_refused_everywhere(section: str, tmp_path: Path) -> None:
    place = f"{section}.epocs".lstrip(".")
    assert f"{place}: Extra inputs are not permitted (got 3)" in refusal(changed(place, 3), tmp_path)


def test_a_key_that_does_not_exist_in_a_model_is_refused_before_any_stage_starts(tmp_path: Path) -> None:
    config = load(changed("experiments.kinds.model.heads", 3), tmp_path)
    with pytest.raises(ConfigError, match=r"model of a ddcl-readout experiment is refused: heads: Extra .*got 3"):
        check_methods(config)


KIND_FAULTS = [
    ("kind", "spectra", "there is no kind of data 'spectra'; the kinds are: images, "),
    (
        "kind",
        "images",
        "entry 'orbital-sample' is read by 'orbital-facts', but kind 'images' takes the readers images-",
    ),
    (
        "source",
        "text",
        "the reader of entry 'orbital-sample' lies in components/datasets/orbital; write `source: orbital`",
    ),
    ("entry", "orbital-sampel", "did you mean 'orbital-sample'?"),
    ("prepare.epocs", 3, "datasets.orbits.prepare is refused: epocs: Extra inputs are not permitted (got 3)"),
    ("gate.epocs", 3, "datasets.orbits.gate is refused: epocs: Extra inputs are not permitted (got 3)"),
    ("prepare.seed", None, "valid integer"),
    ("prepare.test", 0.0, "greater than 0"),
    ("prepare.test", 1.0, "less than 1"),
    ("prepare.max_rows", 0, "greater than or equal to 1"),
    ("prepare", {"seed": 1, "test": 0.6, "validation": 0.4}, "leave no rows to train on"),
    ("gate.min_rows", 0, "greater than or equal to 1"),
    ("gate.drift", {"max_index": 0}, "greater than 0"),
]


@pytest.mark.parametrize(("place", "value", "said"), KIND_FAULTS)
def test_what_does_not_fit_the_kind_of_data_is_refused_before_any_stage_starts(
    place: str, value: Any, said: str, tmp_path: Path
) -> None:
    config = load(changed(f"datasets.orbits.{place}", value), tmp_path)
    with pytest.raises(UsageError) as caught:
        check_datasets(config, CATALOGUE)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


FEATURES = {
    "dataset": "texts",
    "compute": {"encoder": {"entry": "minilm-l6"}, "max_tokens": 32},
}
TEXTS = {"kind": "text", "source": "text", "entry": "rotten-tomatoes", "prepare": {"seed": 1}, "gate": {"min_rows": 1}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"dataset": "orbits"}, "'orbits' is of kind 'orbital', allowed is 'text'"),
        ({"dataset": "nowhere"}, "there is no dataset 'nowhere' in params.yaml"),
        ({"compute": {"encoder": {"entry": "mnist"}, "max_tokens": 32}}, "entry 'mnist' is read by 'images-idx'"),
        ({"compute": {"encoder": {"entry": "minilm"}, "max_tokens": 32}}, "there is no data set 'minilm'"),
        ({"compute": {"encoder": {"entry": "minilm-l6"}, "max_tokens": 1}}, "greater than or equal to 2 (got 1)"),
        ({"compute": {"encoder": {}, "max_tokens": 32}}, "either an `entry` of the catalogue or a `huggingface` name"),
    ],
)
def test_features_that_do_not_fit_are_refused_before_any_stage_starts(
    change: Content, said: str, tmp_path: Path
) -> None:
    content = small()
    content["datasets"]["texts"] = TEXTS
    content["features"] = {"some": {**FEATURES, **change}}
    config = load(content, tmp_path)
    if not said:
        check_datasets(config, CATALOGUE)
        return
    with pytest.raises(UsageError) as caught:
        check_datasets(config, CATALOGUE)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


FAULTS = [
    ("experiments.kinds.seed", None, "valid integer"),
    ("experiments.kinds.seed", True, "valid integer"),
    ("experiments.kinds.seed", "7", "valid integer"),
    ("experiments.kinds.seed", -1, "greater than or equal to 0"),
    ("experiments.kinds.seed", 2**32, "less than 4294967296"),
    ("experiments.kinds.training.epochs", 0, "greater than or equal to 1"),
    ("experiments.kinds.training.epochs", 1.5, "valid integer"),
    ("experiments.kinds.training.learning_rate", 0.0, "greater than 0"),
    ("experiments.kinds.training.learning_rate", float("inf"), "finite number"),
    ("experiments.kinds.training.learning_rate", float("nan"), "finite number"),
    ("experiments.kinds.training.schedule", "linear", "'constant' or 'cosine'"),
    ("experiments.kinds.training.accelerator", "tpu", "'auto', 'cpu' or 'gpu'"),
    ("experiments.kinds.gate.min_margin_over_majority", -0.1, "greater than or equal to 0"),
    ("exports.kinds.opset", 12, "greater than or equal to 18"),
    ("exports.kinds.max_batch", 8, "greater than or equal to 32"),
    ("experiments.kinds.task.classes", ["A"], "at least 2 items"),
    ("scale", "huge", "'tiny', 'quick', 'cpu' or 'paper'"),
    ("datasets", {}, "at least 1 item"),
    ("experiments", {}, "at least 1 item"),
]


@pytest.mark.parametrize(("place", "value", "rule"), FAULTS, ids=[f"{place}={value}" for place, value, _ in FAULTS])
def test_a_refusal_names_place_value_rule_and_mending(place: str, value: Any, rule: str, tmp_path: Path) -> None:
    said = refusal(changed(place, value), tmp_path)
    assert said.startswith(f"params.yaml is refused: {place}: ")
    assert rule in said
    assert f"(got {value!r})" in said
    assert said.endswith("mend it in conf/ or by --set KEY=VALUE")


@pytest.mark.parametrize(
    ("place", "value", "rule"),
    [
        ("experiments.kinds.dataset", "moons", "reads dataset 'moons', but this scale has ['orbits']"),
        ("experiments.kinds.task.log_features", ["z"], "log_features names 'z', which is not among the features"),
        ("experiments.kinds.task.classes", ["A", "B", "A"], "classes names 'A' twice"),
        ("experiments.kinds.task.features", ["x", "x"], "features names 'x' twice"),
    ],
)
def test_what_fits_alone_must_fit_together(place: str, value: Any, rule: str, tmp_path: Path) -> None:
    assert rule in refusal(changed(place, value), tmp_path)


def test_all_faults_are_told_at_once_and_long_values_are_cut(tmp_path: Path) -> None:
    content = changed("scale", "x" * 500)
    content["experiments"]["kinds"]["seed"] = None
    said = refusal(content, tmp_path)
    assert "scale: " in said
    assert "experiments.kinds.seed: " in said
    assert len(said) < 700


@pytest.mark.parametrize("name", ["Orbits", "or bits", "orbits_2", "-orbits", "orbits/../up", ""])
def test_a_name_is_one_word_of_a_path(name: str, tmp_path: Path) -> None:
    content = small()
    content["datasets"][name] = content["datasets"]["orbits"]
    assert "String should match pattern" in refusal(content, tmp_path)


@pytest.mark.parametrize("content", [None, [], "text", 3])
def test_another_kind_of_file_is_refused(content: Any, tmp_path: Path) -> None:
    assert "the whole: " in refusal(content, tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"a: [", "is not YAML: "), (b"\xff\xfe\x00", "is not UTF-8 text: "), (None, "does not exist")],
)
def test_a_file_that_cannot_be_read_is_refused(content: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=said) as caught:
        load_config(path)
    assert "\n" not in str(caught.value)


def _deleted(section: Content, keys: list[str]) -> None:
    *folders, last = keys
    for key in folders:
        section = section[key]
    del section[last]


def _leaves(section: Content, above: tuple[str, ...] = ()) -> list[list[str]]:
    found = []
    for key, value in section.items():
        found.append([*above, key])
        if isinstance(value, dict):
            found += _leaves(value, (*above, key))
    return found


# Nothing need be exported, and rows of other forms than a table have neither columns nor a target column.
DEFAULTED = (
    ["exports"],
    ["exports", "kinds"],
    *(["experiments", "kinds", "task", key] for key in ("target", "features")),
)
REQUIRED = [
    keys for keys in _leaves(small()) if not {"model", "prepare", "gate"} & set(keys[:3]) and keys not in DEFAULTED
]


@given(st.sampled_from(REQUIRED))
def test_what_is_missing_is_named_unless_it_has_a_default(keys: list[str]) -> None:
    content = copy.deepcopy(small())
    _deleted(content, keys)
    # deleting the one entry of a section leaves it empty, which is another fault
    place = ".".join(keys)
    expected = place if place not in ("datasets.orbits", "experiments.kinds") else keys[0]
    with pytest.raises(ConfigError) as caught:
        validated(Config, content, "params.yaml")
    assert f"{expected}: " in str(caught.value)


@pytest.mark.parametrize("ask", [lambda config: config.dataset("moons"), lambda config: config.experiment("moons")])
def test_an_entry_that_does_not_exist_is_refused_with_those_that_do(
    ask: Callable[[Config], object], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"'moons' in params.yaml; it has: (orbits|kinds)$"):
        ask(load(small(), tmp_path))


def test_a_method_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no method 'k-means'; the methods are: ddcl-readout, ddcl-vq"):
        check_methods(load(changed("experiments.kinds.method", "k-means"), tmp_path))


def test_sections_cannot_be_changed_once_read(tmp_path: Path) -> None:
    config = load(small(), tmp_path)
    with pytest.raises(ValueError, match="frozen"):
        config.experiment("kinds").seed = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("experiments.kinds.reads.gate", "gate_features/orbits", "the gate of prepared/orbits is gate_data/orbits"),
        ("experiments.kinds.reads.folder", "prepared/moons", "the gate of prepared/moons is gate_data/moons"),
        ("experiments.kinds.reads.folder", "outputs/orbits", "String should match pattern"),
        (
            "experiments.kinds.reads",
            {"form": "table", "folder": "prepared/moons", "gate": "gate_data/moons"},
            "experiment 'kinds' is of dataset 'orbits' and reads 'prepared/moons'; write prepared/orbits",
        ),
        (
            "experiments.kinds.reads",
            {"form": "features", "folder": "features/few", "gate": "gate_features/few"},
            "reads features 'few', and this scale has no such features of 'orbits'; it has: none",
        ),
        ("exports.kinds.source", "recursive", "exports.kinds has another source, or reads other rows"),
        ("exports", {"moons": {"source": "ddcl", "reads": READS}}, "exports name 'moons', which is not among"),
        ("experiments.kinds.gate", {"min_separation": 0.1}, "measured against one trivial rival"),
        (
            "experiments.kinds.gate",
            {"min_separation": 0.1, "min_margin_over_majority": 0.1, "min_explained": 0.1},
            "measured against one trivial rival",
        ),
    ],
)
def test_what_is_read_and_exported_must_fit_the_experiment(
    place: str, value: Any, message: str, tmp_path: Path
) -> None:
    assert message in refusal(changed(place, value), tmp_path)


def test_an_experiment_is_a_training_run_and_more() -> None:
    """The train stage is declared the fields of TrainConfig, so that a gate's threshold does not train anew."""
    assert set(ExperimentConfig.model_fields) - set(TrainConfig.model_fields) == {"gate"}


def composed(scale: str, folder: Path) -> Path:
    from dvc.utils.hydra import compose_and_dump

    output = folder / "params.yaml"
    compose_and_dump(output, str(ROOT / "conf"), None, "config", str(folder), [f"scale={scale}"])
    return output


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_that_ships_composes_and_is_accepted(scale: str, tmp_path: Path) -> None:
    config = load_config(composed(scale, tmp_path))
    check_methods(config)
    assert config.scale == scale
    for experiment in config.experiments.values():
        package = METHODS[experiment.method].split(".")
        # the code that dvc.yaml declares for this experiment is the code it runs
        assert package[2] == experiment.source
        assert (ROOT / "components" / "methods" / experiment.source).is_dir()
        assert method(experiment.method)


def test_there_are_scales() -> None:
    assert {"tiny", "quick"} <= set(SCALES)


def test_params_in_git_are_the_composition_of_scale_quick(tmp_path: Path) -> None:
    """The file as git has it, not the working one, which a run at another scale rewrites."""
    shown = subprocess.run(["git", "-C", str(ROOT), "show", ":params.yaml"], capture_output=True, check=False)
    if shown.returncode != 0:
        pytest.skip("this checkout has no git history")
    assert shown.stdout == composed("quick", tmp_path).read_bytes(), "run `quintet run --scale quick` and commit it"
