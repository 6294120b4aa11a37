"""Every variable that we set points into the checkout, and none is lost on the way to a child."""

import os
import sys
from pathlib import Path

import pytest

from components.errors import UsageError
from pipelines.environment import LOOPBACK, find_root, prepare, variables

FOLDERS = (
    "PREFECT_HOME",
    "DVC_SITE_CACHE_DIR",
    "DVC_GLOBAL_CONFIG_DIR",
    "DVC_SYSTEM_CONFIG_DIR",
    "MPLCONFIGDIR",
    "XDG_CACHE_HOME",
    "TORCHINDUCTOR_CACHE_DIR",
)


def test_all_state_lies_inside_the_checkout(tmp_path: Path) -> None:
    values = variables(tmp_path)
    for name in FOLDERS:
        assert Path(values[name]).is_relative_to(tmp_path / ".quintet"), name


def test_what_the_user_has_set_stays_where_it_may() -> None:
    values = variables(
        Path("/checkout"), {"PREFECT_LOGGING_LEVEL": "DEBUG", "NO_PROXY": "example.org", "PATH": "/usr/bin"}
    )
    assert values["PREFECT_LOGGING_LEVEL"] == "DEBUG"
    assert values["NO_PROXY"].split(",") == ["example.org", *LOOPBACK]
    assert values["PATH"] == f"{Path(sys.executable).parent}{os.pathsep}/usr/bin"


def test_setting_twice_changes_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in variables(tmp_path):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    prepare(tmp_path)
    first = dict(os.environ)
    prepare(tmp_path)
    assert dict(os.environ) == first
    assert (tmp_path / ".quintet" / "prefect").is_dir()


def test_the_root_is_found_from_below(tmp_path: Path) -> None:
    for name in ("dvc.yaml", "params.yaml"):
        (tmp_path / name).touch()
    below = tmp_path / "data" / "samples"
    below.mkdir(parents=True)
    # a folder with one of the two files is not a root
    (below / "params.yaml").touch()
    assert find_root(below) == tmp_path


def test_outside_a_checkout_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"not inside a Quintet checkout.*dvc\.yaml and params\.yaml.*change into"):
        find_root(tmp_path)
