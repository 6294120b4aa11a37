"""A scale is composed as DVC composes it; what cannot be composed leaves params.yaml alone."""

import re
import shutil
from pathlib import Path

import pytest
import yaml
from toy import Toy

from components.errors import ConfigError, UsageError
from pipelines.scales import available_scales, compose


def parameters(toy: Toy) -> dict[str, object]:
    content = yaml.safe_load((toy.root / "params.yaml").read_text())
    assert isinstance(content, dict)
    return content


def test_a_scale_is_written_once(toy: Toy) -> None:
    assert available_scales(toy.root) == ("quick", "tiny")
    assert compose(toy.root, "quick")
    assert parameters(toy) == {"scale": "quick", "size": 2}
    written = (toy.root / "params.yaml").stat().st_mtime_ns
    assert not compose(toy.root, "quick")
    assert (toy.root / "params.yaml").stat().st_mtime_ns == written


def test_overrides(toy: Toy) -> None:
    assert compose(toy.root, "quick", ["size=7", "+note=long"])
    assert parameters(toy) == {"scale": "quick", "size": 7, "note": "long"}
    # without a scale they apply to the one that conf/config.yaml names
    assert compose(toy.root, None, ["size=8"])
    assert parameters(toy) == {"scale": "tiny", "size": 8}


def test_without_a_scale_params_stand(toy: Toy) -> None:
    (toy.root / "params.yaml").write_text("scale: by hand\n")
    assert not compose(toy.root, None)
    assert parameters(toy) == {"scale": "by hand"}


def test_the_same_bytes_as_dvc_writes(toy: Toy) -> None:
    from dvc.utils.hydra import compose_and_dump

    compose(toy.root, "quick", ["size=9"])
    other = toy.root / "run_info" / "params.yaml"
    other.parent.mkdir()
    compose_and_dump(other, str(toy.root / "conf"), None, "config", str(toy.root), ["scale=quick", "size=9"])
    assert (toy.root / "params.yaml").read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("scale", "overrides", "message"),
    [
        ("huge", [], r"no scale 'huge' in conf/scale/; there are: quick, tiny"),
        ("tiny", ["sise=3"], r"cannot be composed with sise=3: .*sise"),
        ("tiny", ["size=["], r"cannot be composed with size=\["),
        ("tiny", ["size"], r"cannot be composed with size"),
    ],
)
def test_wrong_usage(toy: Toy, scale: str, overrides: list[str], message: str) -> None:
    before = (toy.root / "params.yaml").read_text()
    with pytest.raises(UsageError, match=message) as caught:
        compose(toy.root, scale, overrides)
    assert "\n" not in str(caught.value)
    assert (toy.root / "params.yaml").read_text() == before


def test_a_broken_conf_is_a_fault_of_the_configuration(toy: Toy) -> None:
    (toy.root / "conf" / "scale" / "quick.yaml").write_text("# @package _global_\nsize: ${nowhere}\n")
    with pytest.raises(ConfigError, match=r"conf/ cannot be composed: .*nowhere"):
        compose(toy.root, "quick")
    assert parameters(toy) == {"scale": "tiny", "size": 1}


REAL = Path(__file__).parents[2]


def real_configuration(root: Path) -> None:
    """The project's own conf/, and the catalogue that it speaks of."""
    shutil.copytree(REAL / "conf", root / "conf")
    (root / "data").mkdir()
    shutil.copy(REAL / "data" / "catalogue.yaml", root / "data")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("experiments.orbital-kind.training.epochs=-3", "training.epochs: Input should be greater than or equal to 1"),
        ("experiments.orbital-kind.model.dim=1", "dim: Input should be greater than or equal to 2"),
        ("experiments.orbital-kind.seed=null", "seed: Input should be a valid integer"),
        ("+experiments.orbital-kind.model.depth=3", "depth: Extra inputs are not permitted"),
        ("experiments.orbital-kind.dataset=moon", "reads dataset 'moon', but this scale has"),
        ("experiments.orbital-kind.method=magic", "there is no method 'magic'; the methods are: ddcl-readout"),
    ],
)
def test_a_value_that_no_stage_would_take_is_refused_before_anything_is_written(
    tmp_path: Path, override: str, message: str
) -> None:
    real_configuration(tmp_path)
    (tmp_path / "params.yaml").write_text("scale: before\n")
    with pytest.raises(ConfigError, match=re.escape(message)):
        compose(tmp_path, "tiny", [override])
    assert (tmp_path / "params.yaml").read_text() == "scale: before\n"
    assert compose(tmp_path, "tiny", [])


def test_a_params_file_edited_by_hand_is_checked_too(tmp_path: Path) -> None:
    real_configuration(tmp_path)
    compose(tmp_path, "tiny", [])
    edited = (tmp_path / "params.yaml").read_text().replace("batch_size: 128", "batch_size: none", 1)
    (tmp_path / "params.yaml").write_text(edited)
    with pytest.raises(ConfigError, match="batch_size: Input should be a valid integer"):
        compose(tmp_path, None, [])
