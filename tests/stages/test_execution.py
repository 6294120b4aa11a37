"""How a stage runs: it reads what is declared, replaces its output as a whole, and says what it did in one place."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from components.config import Seed, Strict
from components.errors import ConfigError, NonFiniteError, QuintetError, UsageError
from components.files import digest_of, read_json, sha256_bytes, sha256_path, write_text
from components.stages.execution import (
    RECORDED_PACKAGES,
    STAGES,
    Context,
    git_commit,
    package_versions,
    read_declaration,
)
from tests.stages.conftest import ADDRESS, DVC_YAML, PARAMS, ToyProject


def writes(text: str) -> Callable[[Context], None]:
    def function(context: Context) -> None:
        write_text(context.folder / "deep" / "result.txt", text)

    return function


def test_the_declaration_is_what_dvc_yaml_and_its_parameters_say(toy_project: ToyProject) -> None:
    declaration = read_declaration(toy_project.root, ADDRESS)
    assert declaration.inputs == ("code", "source.txt")
    assert declaration.output == "outputs/prepare/toy"
    assert declaration.parameters == {
        "scale": "tiny",
        "datasets.toy.split": {"seed": 3},
        "datasets.toy.entry": "some-entry",
        "limit": 5,
    }


@pytest.mark.parametrize("address", ["prepare@moon", "prepare", "train@toy", "", "@", "prepare@toy@more"])
def test_an_address_that_does_not_exist_is_wrong_usage(toy_project: ToyProject, address: str) -> None:
    with pytest.raises(UsageError, match=rf"no stage {re.escape(repr(address))}; the graph has: {ADDRESS}"):
        read_declaration(toy_project.root, address)


def test_a_stage_of_the_graph_that_no_code_runs_is_wrong_usage(toy_project: ToyProject) -> None:
    write_text(toy_project.root / "dvc.yaml", DVC_YAML.replace("  prepare:", "  paint:"))
    with pytest.raises(UsageError, match="there is no stage 'paint@toy'"):
        read_declaration(toy_project.root, "paint@toy")


def test_a_parameter_that_is_absent_is_named(toy_project: ToyProject) -> None:
    write_text(toy_project.root / "params.yaml", PARAMS.replace("entry: some-entry", "entrance: 1"))
    with pytest.raises(UsageError, match=r"params.yaml has no datasets.toy.entry, which stage prepare@toy needs"):
        read_declaration(toy_project.root, ADDRESS)


@pytest.mark.parametrize("lock", ["", "schema: '2.0'\nstages:\n  prepare@toy:\n    cmd: qui", "{", "schema: '9'\n"])
def test_a_half_written_lock_file_disturbs_nothing(toy_project: ToyProject, lock: str) -> None:
    before = read_declaration(toy_project.root, ADDRESS)
    write_text(toy_project.root / "dvc.lock", lock)
    assert read_declaration(toy_project.root, ADDRESS) == before
    assert toy_project.run(writes("1"))["state"] == "succeeded"
    assert (toy_project.root / "dvc.lock").read_text() == lock


def test_an_undeclared_input_is_refused(toy_project: ToyProject) -> None:
    def function(context: Context) -> None:
        context.input("undeclared.txt")

    with pytest.raises(RuntimeError, match=r"prepare@toy reads undeclared.txt, which dvc.yaml does not list"):
        toy_project.run(function)
    assert not toy_project.output.exists()


@pytest.mark.parametrize("path", ["source.txt.more", "cod", "", ".", "params.yaml", "code/../undeclared.txt"])
def test_a_name_that_looks_like_a_declared_one_is_refused(toy_project: ToyProject, path: str) -> None:
    def function(context: Context) -> None:
        context.input(path)

    with pytest.raises(RuntimeError, match="does not list among its deps"):
        toy_project.run(function)


def test_a_declared_file_and_what_lies_in_a_declared_folder_are_given(toy_project: ToyProject) -> None:
    seen = []

    def function(context: Context) -> None:
        seen.extend([context.input("source.txt").read_text(), context.input("code/part.py").read_text()])

    toy_project.run(function)
    assert seen == ["one\n", "x = 1\n"]


@pytest.mark.parametrize("prefix", ["seed", "datasets.toy.max_rows", "datasets.to", "other", "lim"])
def test_an_undeclared_parameter_is_refused(toy_project: ToyProject, prefix: str) -> None:
    def function(context: Context) -> None:
        context.values(prefix)

    with pytest.raises(RuntimeError, match=rf"reads {prefix}, which dvc.yaml does not list among its params"):
        toy_project.run(function)


class ToyOptions(Strict):
    seed: Seed


def test_declared_parameters_come_nested_and_checked(toy_project: ToyProject) -> None:
    seen = []

    def function(context: Context) -> None:
        seen.append(context.values("scale"))
        seen.append(context.values("datasets.toy"))
        seen.append(context.section(ToyOptions, "datasets.toy.split"))

    toy_project.run(function)
    assert seen == ["tiny", {"split": {"seed": 3}, "entry": "some-entry"}, ToyOptions(seed=3)]


def test_a_parameter_out_of_range_is_refused_by_place(toy_project: ToyProject) -> None:
    write_text(toy_project.root / "params.yaml", PARAMS.replace("seed: 3", "seed: -3"))

    def function(context: Context) -> None:
        context.section(ToyOptions, "datasets.toy.split")

    with pytest.raises(ConfigError, match=r"datasets.toy.split in params.yaml is refused: seed: .*got -3"):
        toy_project.run(function)


def test_an_input_that_is_absent_is_named_with_the_mending(toy_project: ToyProject) -> None:
    (toy_project.root / "source.txt").unlink()
    with pytest.raises(QuintetError, match=r"source.txt does not exist; run `quintet run`"):
        toy_project.run(writes("1"))
    assert toy_project.run_info()["state"] == "failed"


@pytest.mark.parametrize("path", ["source.txt", "code/part.py", "code/new.py"])
def test_an_input_that_changes_while_the_stage_runs_is_refused(toy_project: ToyProject, path: str) -> None:
    toy_project.run(writes("old"))
    before = toy_project.files()

    def function(context: Context) -> None:
        writes("new")(context)
        write_text(context.root / path, "two\n")

    with pytest.raises(QuintetError, match=rf"{path.partition('/')[0]} changed while the stage ran.*run again"):
        toy_project.run(function)
    assert toy_project.files() == before


def test_compiling_while_the_stage_runs_changes_no_input(toy_project: ToyProject) -> None:
    def function(context: Context) -> None:
        write_text(context.root / "code" / "__pycache__" / "part.pyc", "compiled anew")

    assert toy_project.run(function)["state"] == "succeeded"


def test_the_manifest_names_all_that_determines_the_output(toy_project: ToyProject) -> None:
    said = toy_project.run(writes("result\n"))
    manifest = read_json(toy_project.output / "manifest.json")
    assert manifest == {
        "format": "quintet-manifest/1",
        "stage": "prepare",
        "name": "toy",
        "inputs": {
            "code": sha256_path(toy_project.root / "code"),
            "source.txt": sha256_bytes(b"one\n"),
        },
        "parameters": {
            "scale": "tiny",
            "datasets.toy.split": {"seed": 3},
            "datasets.toy.entry": "some-entry",
            "limit": 5,
        },
        "versions": package_versions(),
        "outputs": {"deep/result.txt": sha256_bytes(b"result\n")},
    }
    assert said["digest"] == digest_of(manifest)


def test_versions_are_of_installed_packages_and_name_no_build() -> None:
    versions = package_versions()
    assert re.fullmatch(r"3\.\d+", versions["python"])
    assert {"torch", "numpy", "onnx", "pandas"} <= set(versions) <= {"python", *RECORDED_PACKAGES}
    assert not any("+" in version for version in versions.values())


def test_a_stage_run_twice_gives_the_same_bytes(toy_project: ToyProject) -> None:
    first, started = toy_project.run(writes("1")), toy_project.files()
    assert toy_project.run(writes("1"))["digest"] == first["digest"]
    assert toy_project.files() == started


@pytest.mark.parametrize(
    "change",
    [("source.txt", "two\n"), ("code/part.py", "x = 2\n"), ("params.yaml", PARAMS.replace("seed: 3", "seed: 4"))],
    ids=["source", "code", "parameter"],
)
def test_another_input_or_parameter_gives_another_digest(toy_project: ToyProject, change: tuple[str, str]) -> None:
    before = toy_project.run(writes("1"))["digest"]
    write_text(toy_project.root / change[0], change[1])
    assert toy_project.run(writes("1"))["digest"] != before


def test_what_is_undeclared_changes_nothing(toy_project: ToyProject) -> None:
    before = toy_project.run(writes("1"))["digest"]
    write_text(toy_project.root / "undeclared.txt", "other\n")
    write_text(toy_project.root / "extra.yaml", "limit: 5\nother: 7\n")
    write_text(toy_project.root / "params.yaml", PARAMS.replace("seed: 9", "seed: 10"))
    assert toy_project.run(writes("1"))["digest"] == before


def test_what_depends_on_the_moment_goes_to_run_info_alone(toy_project: ToyProject) -> None:
    during = []

    def function(context: Context) -> None:
        during.append(toy_project.run_info())
        context.note(device="cpu", device_reason="asked for")
        writes("1")(context)

    said = toy_project.run(function)
    assert during[0]["state"] == "running"
    assert during[0]["pid"] == said["pid"] == os.getpid()
    assert said["state"] == "succeeded"
    assert (said["device"], said["device_reason"], said["error"]) == ("cpu", "asked for", None)
    assert said["seconds"] >= 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", said["started"])
    assert set(toy_project.files()) == {"deep/result.txt", "manifest.json"}
    manifest = toy_project.files()["manifest.json"].decode()
    assert not any(
        text in manifest for text in ("device", "pid", "started", str(toy_project.root), os.uname().nodename)
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NonFiniteError("the loss is nan\n at step 3"), "the loss is nan at step 3"),
        (NonFiniteError("got '     NaN'\n\n  in line 6"), "got '     NaN' in line 6"),
        (ZeroDivisionError("division\nby zero"), "ZeroDivisionError: division by zero"),
        (KeyboardInterrupt(), "KeyboardInterrupt:"),
    ],
)
def test_a_failing_stage_leaves_the_old_output_and_says_why_in_one_line(
    toy_project: ToyProject, error: BaseException, said: str
) -> None:
    toy_project.run(writes("old"))
    before = toy_project.files()

    def function(context: Context) -> None:
        writes("half")(context)
        context.note(device="cpu")
        raise error

    with pytest.raises(type(error)):
        toy_project.run(function)
    assert toy_project.files() == before
    assert [path.name for path in toy_project.output.parent.iterdir()] == ["toy"]
    info = toy_project.run_info()
    assert (info["state"], info["error"], info["digest"], info["device"]) == ("failed", said, None, "cpu")


def test_files_of_an_older_output_do_not_stay(toy_project: ToyProject) -> None:
    toy_project.run(lambda context: write_text(context.folder / "old.txt", "1"))
    toy_project.run(writes("1"))
    assert set(toy_project.files()) == {"deep/result.txt", "manifest.json"}


def test_without_git_there_is_no_commit(tmp_path: Path) -> None:
    assert git_commit(tmp_path) is None


def test_every_kind_of_stage_is_in_the_graph_and_the_other_way_round() -> None:
    import importlib

    import yaml

    graph = yaml.safe_load((Path(__file__).parents[2] / "dvc.yaml").read_text())
    assert set(graph["stages"]) == set(STAGES)
    assert all(callable(importlib.import_module(module).run) for module in STAGES.values())
