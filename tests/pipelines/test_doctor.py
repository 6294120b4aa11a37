"""Each check of the doctor has an input that it must complain about."""

import io
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from rich.console import Console
from toy import REPOSITORY, Toy

from pipelines import doctor, versions
from pipelines.locking import hold_run_lock, owner_path
from pipelines.verdicts import Level, ok


def test_every_check_has_a_verdict_with_a_fix_when_it_needs_one(done: Toy) -> None:
    for name in ("pyproject.toml", "constraints.txt"):
        (done.root / name).write_text((REPOSITORY / name).read_text())
    verdicts = doctor.examine(done.root)
    assert [verdict.name for verdict in verdicts] == list(doctor.CHECKS)
    for verdict in verdicts:
        assert bool(verdict.fix) == (verdict.level is not Level.OK), verdict
    assert not [verdict for verdict in verdicts if verdict.is_problem]
    console = Console(width=200, record=True, file=io.StringIO())
    doctor.print_verdicts(verdicts, console)
    text = console.export_text()
    assert all(name in text for name in doctor.CHECKS)


def test_a_check_that_cannot_be_made_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(root: Path) -> object:
        raise OSError("no such device")

    monkeypatch.setattr(doctor, "CHECKS", {"broken": broken, "sound": lambda root: ok("sound", "as it should be")})
    first, second = doctor.examine(tmp_path)
    assert first.is_problem
    assert "OSError: no such device" in first.found
    assert second.level is Level.OK


def project(root: Path, *, python: str = ">=3.11", dependencies: str = "[]", constraints: str = "") -> Path:
    (root / "pyproject.toml").write_text(f'[project]\nrequires-python = "{python}"\ndependencies = {dependencies}\n')
    (root / "constraints.txt").write_text(constraints)
    return root


def test_another_python(tmp_path: Path) -> None:
    assert versions.check_python(project(tmp_path)).level is Level.OK
    assert versions.check_python(project(tmp_path, python=">=4")).is_problem


def test_packages_that_differ_or_are_missing(tmp_path: Path) -> None:
    psutil = metadata.version("psutil")
    same = f"# a comment\npsutil=={psutil}\nabsent==1.0\nother==1 ; sys_platform == 'nowhere'\n"
    assert versions.check_packages(project(tmp_path, constraints=same)).level is Level.OK
    verdict = versions.check_packages(project(tmp_path, constraints="psutil==1.2.3\n"))
    assert verdict.level is Level.WARNING
    assert f"psutil {psutil} (locked: ==1.2.3)" in verdict.found
    verdict = versions.check_packages(project(tmp_path, dependencies='["not-there-at-all>=1"]'))
    assert verdict.is_problem
    assert "not-there-at-all" in verdict.found


def test_the_local_part_of_a_version_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "version", lambda name: "2.13.0+cpu")
    assert versions.check_packages(project(tmp_path, constraints="torch==2.13.0\n")).level is Level.OK


@pytest.mark.parametrize(
    ("installed", "level"),
    [
        ({"onnxruntime-gpu": "1.31.1"}, Level.OK),
        ({"onnxruntime": "1.31.1"}, Level.OK),
        ({}, Level.PROBLEM),
        ({"onnxruntime": "1.32.0", "onnxruntime-gpu": "1.31.1"}, Level.PROBLEM),
    ],
)
def test_one_onnxruntime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], level: Level
) -> None:
    def version(name: str) -> str:
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(versions, "version", version)
    assert versions.check_onnxruntime(tmp_path).level is level


def test_a_gpu_that_inference_does_not_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU, so the fall-back cannot be shown here")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    verdict = doctor.check_inference(tmp_path)
    assert verdict.level is Level.WARNING
    assert verdict.found.startswith("CPUExecutionProvider")


def test_a_refused_tracking_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert doctor.check_tracking(tmp_path).level is Level.OK
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "file:///tmp/runs")
    assert doctor.check_tracking(tmp_path).is_problem
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    (tmp_path / "mlflow").mkdir()
    (tmp_path / "mlflow" / "mlflow.db").write_text("this is no database, and long enough to be seen as none")
    assert doctor.check_tracking(tmp_path).is_problem


def test_what_a_killed_dvc_left(done: Toy) -> None:
    assert "6 stages in dvc.lock" in doctor.check_dvc(done.root).found
    table = done.root / ".dvc" / "tmp" / "rwlock"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    table.write_text(json.dumps({"write": {"/x": {"pid": dead.pid, "cmd": "dvc repro"}}, "read": {}}))
    verdict = doctor.check_dvc(done.root)
    assert verdict.level is Level.WARNING
    assert str(dead.pid) in verdict.found
    table.write_text('{"write"')
    assert doctor.check_dvc(done.root).level is Level.WARNING
    (done.root / "dvc.lock").write_text("stages: [")
    assert doctor.check_dvc(done.root).is_problem


def test_the_run_lock(tmp_path: Path) -> None:
    assert doctor.check_run_lock(tmp_path).found == "free"
    with hold_run_lock(tmp_path, command="quintet run"):
        assert "held by `quintet run`" in doctor.check_run_lock(tmp_path).found
        left = owner_path(tmp_path).read_text()
    owner_path(tmp_path).write_text(left)
    assert doctor.check_run_lock(tmp_path).level is Level.WARNING


@pytest.mark.parametrize(("free", "level"), [(1e8, Level.PROBLEM), (2e9, Level.WARNING), (1e11, Level.OK)])
def test_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: float, level: Level) -> None:
    usage = doctor.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda root: usage._replace(free=int(free)))
    assert doctor.check_disk(tmp_path).level is level


def test_telemetry_and_mirror(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.check_telemetry(toy.root).level is Level.OK
    monkeypatch.delenv("DO_NOT_TRACK")
    assert "DO_NOT_TRACK" in doctor.check_telemetry(toy.root).found
    monkeypatch.delenv("QUINTET_DATA_MIRROR", raising=False)
    assert doctor.check_mirror(toy.root).level is Level.OK
    monkeypatch.setenv("QUINTET_DATA_MIRROR", str(toy.root / "nowhere"))
    assert doctor.check_mirror(toy.root).is_problem
