"""What may be imported without what: methods and training without workflow tools, help without anything heavy."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORKFLOW_TOOLS = ("prefect", "mlflow", "dvc", "great_expectations")
HEAVY = ("torch", "lightning", "pandas", "onnx", "onnxruntime", "scipy", "sklearn", "matplotlib", *WORKFLOW_TOOLS)

# Makes the packages named in its first argument unimportable, as if they were not installed.
WITHOUT = """
import importlib, importlib.abc, json, pkgutil, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in json.loads(sys.argv[1]):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def modules_below(package: str) -> list[str]:
    folder = ROOT / package.replace(".", "/")
    found = [path.relative_to(ROOT).with_suffix("") for path in sorted(folder.rglob("*.py"))]
    return [".".join(path.parts).removesuffix(".__init__") for path in found]


def test_the_guard_itself_refuses() -> None:
    assert "No module named 'dvc'" in run(WITHOUT + "import dvc.repo", json.dumps(WORKFLOW_TOOLS)).stderr


@pytest.mark.parametrize("package", ["components.methods", "components.training"])
def test_every_module_can_be_imported_without_workflow_tools(package: str) -> None:
    names = modules_below(package)
    assert len(names) > 5
    program = WITHOUT + "for name in json.loads(sys.argv[2]): importlib.import_module(name)"
    done = run(program, json.dumps(WORKFLOW_TOOLS), json.dumps(names))
    assert done.returncode == 0, done.stderr


def test_methods_need_torch_and_nothing_heavier() -> None:
    others = [name for name in HEAVY if name != "torch"] + ["pydantic", "yaml", "hydra"]
    program = WITHOUT + "for name in json.loads(sys.argv[2]): importlib.import_module(name)"
    done = run(program, json.dumps(others), json.dumps(modules_below("components.methods")))
    assert done.returncode == 0, done.stderr


LOADED = """
import json, sys
sys.argv = ["quintet", *json.loads(sys.argv[1])]
from pipelines.cli import main
try:
    main()
except SystemExit as end:
    code = end.code
print("\\n" + json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "--help"], ["stage", "--help"], ["--version"], ["data", "-h"]]
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    done = run(LOADED, json.dumps(arguments))
    assert done.returncode == 0, done.stderr
    code, loaded = json.loads(done.stdout.splitlines()[-1])
    assert code in (0, None)
    assert "typer" in loaded
    assert sorted(set(HEAVY) & set(loaded)) == []


def test_the_registry_of_methods_is_cheap() -> None:
    """A configuration is checked before any stage starts: that must not wait for torch."""
    program = """
import sys
from components.config import load_config
from components.training.registry import check_methods
from pathlib import Path
check_methods(load_config(Path("params.yaml")))
sys.exit("torch" in sys.modules)
"""
    done = run(program)
    assert done.returncode == 0, done.stderr
