"""The first run on a fresh clone and the second: what they leave behind, what they tell, and whom they call."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from components.files import sha256_path
from tests.endtoend import store
from tests.endtoend.copies import Copy, make_copy
from tests.endtoend.undisturbed import First

pytestmark = pytest.mark.endtoend

DATASETS = ("orbital-sample", "orbital-tle-sample", "fashion-mnist-sample", "rotten-tomatoes-sample")
FEATURES = ("rotten-tomatoes-sample-minilm",)
EXPERIMENTS = ("orbital-regime", "orbital-kind", "reviews-sentiment", "fashion-vq")
EXPORTED = ("orbital-regime", "orbital-kind")
STAGES = {
    f"{stage}@{name}"
    for stages, names in (
        (("prepare", "gate_data"), DATASETS),
        (("features", "gate_features"), FEATURES),
        (("train", "gate_model", "evaluate"), EXPERIMENTS),
        (("export", "gate_export"), EXPORTED),
    )
    for stage in stages
    for name in names
}
GATES = {address for address in STAGES if address.startswith("gate_")}
BASELINES = ("majority", "logistic_regression", "kmeans")


def row(text: str, first: str) -> str:
    """The row of a table whose first cell is `first`."""
    return next(line for line in text.splitlines() if re.match(rf"│ {re.escape(first)}\s", line))


def test_every_stage_runs_and_every_gate_passes(by_flow: First) -> None:
    assert by_flow.copy.outcomes() == dict.fromkeys([*STAGES, "sync", "report"], "ran")
    assert set(by_flow.copy.lock()) >= STAGES
    for address in GATES:
        assert row(by_flow.ended.text, address).rstrip(" │").endswith("passed"), address


@pytest.mark.parametrize("experiment", ["orbital-regime", "orbital-kind"])
def test_the_table_sets_the_model_beside_its_baselines(by_flow: First, experiment: str) -> None:
    _, _, table = by_flow.ended.text.partition(f"{experiment}: the model beside its baselines")
    header = re.split(r"\s*┃\s*", next(line for line in table.splitlines() if "metric" in line).strip())[2:-1]
    assert {name.replace(" ", "_") for name in header} >= {"model", *BASELINES}
    for metric in ("accuracy", "macro_f1"):
        cells = [float(cell) for cell in row(table, metric).split("│")[2:-1]]
        shown = dict(zip(header, cells, strict=True))
        assert shown["model"] > shown["majority"]


def test_the_run_says_where_to_look_next(by_flow: First) -> None:
    assert "quintet serve orbital-kind" in by_flow.ended.text
    for name in re.findall(r"run_info/\S+\.html", by_flow.ended.text):
        assert (by_flow.copy.root / name).is_file()
    assert "run_info/report/index.html" in by_flow.ended.text


@pytest.mark.parametrize("runner", [0, 1], ids=["flow", "dvc"])
def test_git_status_shows_the_lock_and_the_configuration_alone(firsts: tuple[First, First], runner: int) -> None:
    copy = firsts[runner].copy
    shown = subprocess.run(
        ["git", "status", "--porcelain"],
        cwd=copy.root,
        env=copy.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert {line[3:] for line in shown.stdout.splitlines()} <= {"dvc.lock", "params.yaml"}


@pytest.mark.parametrize("runner", [0, 1], ids=["flow", "dvc"])
def test_nothing_is_written_outside_the_checkout(firsts: tuple[First, First], runner: int) -> None:
    copy = firsts[runner].copy
    assert list(copy.home.rglob("*")) == []
    assert list(copy.temporary.rglob("*")) == []
    elsewhere = {note["path"] for note in copy.notes("write") if not is_allowed(note["path"], copy)}
    assert elsewhere == set()


def is_allowed(path: str, copy: Copy) -> bool:
    """Devices, temporary files (which must be gone at the end), and compiled modules beside the installed ones."""
    compiled = path.startswith(sys.prefix) and "__pycache__" in path
    return compiled or path.startswith(("/dev/", f"{copy.temporary}/"))


@pytest.mark.parametrize("runner", [0, 1], ids=["flow", "dvc"])
def test_no_connection_leaves_the_machine(firsts: tuple[First, First], runner: int) -> None:
    copy = firsts[runner].copy
    # the guard was there in every stage, so its silence means something
    assert set(copy.stages_started()) == STAGES
    assert [(note["to"], note["argv"]) for note in copy.notes("connection", "look-up")] == []


def test_the_guard_sees_and_refuses(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    for folder in (copy.root, copy.home, copy.temporary):
        folder.mkdir()
    outside = tmp_path / "outside.txt"
    watch = Path(__file__).parent / "watch"
    code = (
        "import os, socket, urllib.request, http.server, threading\n"
        "def refused(action):\n"
        "    try: action()\n"
        "    except OSError as error: return 'in this test' in str(error)\n"
        "    return False\n"
        "assert refused(lambda: socket.create_connection(('192.0.2.1', 80), 5))\n"
        "assert refused(lambda: urllib.request.urlopen('http://example.org', timeout=5))\n"
        "assert refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53)))\n"
        "with socket.create_server(('127.0.0.1', 0)) as server:\n"
        "    socket.create_connection(server.getsockname()).close()\n"
        f"open({str(outside)!r}, 'w').close()\n"
        "open('inside.txt', 'w').close()\n"
    )
    done = copy.call(sys.executable, "-c", code, PYTHONPATH=str(watch))
    assert done.code == 0, done.text
    assert sorted({note["to"] for note in copy.notes("connection", "look-up")}) == [
        "'example.org'",
        "('192.0.2.1', 53)",
        "('192.0.2.1', 80)",
    ]
    assert [note["path"] for note in copy.notes("write")] == [str(outside)]


def test_a_second_run_starts_no_stage_and_changes_nothing(by_flow: First) -> None:
    copy = by_flow.copy
    kept = ("dvc.lock", "params.yaml")

    def stamps() -> dict[str, tuple[int, int]]:
        paths = [copy.root / name for name in (*kept, *by_flow.outputs)]
        return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}

    before = stamps(), store.dump(copy.root), sha256_path(copy.root / "mlflow" / "artifacts")
    copy.forget_notes()
    again = copy.quintet("run", "--scale", "tiny")
    assert again.code == 0, again.text
    assert {copy.outcomes()[address] for address in STAGES} == {"cached"}
    assert "nothing changed" in row(again.text, "train@orbital-kind")
    assert copy.stages_started() == {}
    assert copy.notes("start"), "the guard was not there"
    assert (stamps(), store.dump(copy.root), sha256_path(copy.root / "mlflow" / "artifacts")) == before
    assert copy.outputs() == by_flow.outputs


def test_a_copy_has_what_git_would_commit_and_nothing_else(tmp_path: Path) -> None:
    copy = make_copy(tmp_path / "copy")
    assert (copy.root / "dvc.yaml").is_file()
    assert not any((copy.root / name).exists() for name in (".venv", ".quintet", "outputs", "run_info"))
