"""The command line: quick, and exact about whose fault it is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from toy import Toy

from pipelines.cli import app

HEAVY = ("torch", "prefect", "mlflow", "dvc", "pandas", "numpy", "lightning", "great_expectations", "pydantic", "onnx")
COMMANDS = ("run", "stage", "sync", "data", "serve", "bundle", "up", "down", "doctor")


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import json, sys\nfrom pipelines.cli import main\nsys.argv = ['quintet', '--help']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code in (0, None)\n"
        "print('\\n' + json.dumps(sorted(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    loaded = set(json.loads(shown.splitlines()[-1]))
    assert not loaded.intersection(HEAVY)
    assert all(command in shown for command in COMMANDS)


@pytest.mark.parametrize("command", [*COMMANDS, "data list", "data fetch", "data check"])
def test_each_command_explains_itself(toy: Toy, command: str) -> None:
    import typer.testing

    shown = typer.testing.CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert "Usage" in shown.output


def test_examples_keep_their_lines() -> None:
    import typer.testing

    shown = typer.testing.CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).output
    lines = [line.strip(" │") for line in shown.splitlines() if "quintet run" in line]
    assert len([line for line in lines if line.startswith("quintet run")]) == 4


def test_version(toy: Toy) -> None:
    from importlib.metadata import version

    shown = toy.quintet("--version")
    assert (shown.returncode, shown.stdout) == (0, f"quintet {version('quintet')}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--scale", "huge"],
        ["run", "--set", "nothing=1"],
        ["run", "--max-parallel", "0"],
        ["bundle", "orbital-kind", "--out", "x"],
        ["bundle", "orbital-kind@champion"],
        ["serve", "orbital-kind", "--port", "0"],
        ["nonsense"],
        ["stage"],
    ],
)
def test_wrong_usage_is_2(toy: Toy, arguments: list[str]) -> None:
    shown = toy.quintet(*arguments)
    assert shown.returncode == 2, shown.stdout
    assert "Traceback" not in shown.stdout


def test_outside_a_checkout_is_2_in_one_line(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "doctor"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 2
    assert shown.stderr.startswith("error: ")
    assert len(shown.stderr.strip().splitlines()) == 1


def run_main(toy: Toy, error: str) -> "subprocess.CompletedProcess[str]":
    """`quintet down` with a service module that raises `error`."""
    script = toy.root / "raising.py"
    script.write_text(
        "import sys\nimport components.errors, pipelines.services\nfrom pipelines.cli import main\n"
        f"def down(root, say):\n    raise {error}\n"
        "pipelines.services.down = down\nsys.argv = ['quintet', 'down']\nmain()\n"
    )
    return toy.call("raising", PYTHONPATH=f"{toy.environment['PYTHONPATH']}:{toy.root}")


def test_a_fault_of_the_input_is_1_in_one_line(toy: Toy) -> None:
    shown = run_main(toy, "components.errors.DataError('row 7 of [table.csv] has no period')")
    assert (shown.returncode, shown.stdout) == (1, "error: row 7 of [table.csv] has no period\n")


def test_a_defect_is_1_with_its_traceback(toy: Toy) -> None:
    shown = run_main(toy, "KeyError('x')")
    assert shown.returncode == 1
    assert "Traceback (most recent call last)" in shown.stdout
    assert "in down" in shown.stdout


def test_the_root_is_found_from_a_folder_below(toy: Toy) -> None:
    (toy.root / "notes").mkdir()
    shown = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "down"], cwd=toy.root / "notes", env=toy.environment, check=False
    )
    assert shown.returncode == 0
    assert not (toy.root / "notes" / ".quintet").exists()
