"""A project of one stage, `prepare@toy`, for DVC to read and for the stage runner to run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from components.files import read_json, write_text
from components.stages import execution
from components.stages.execution import Context
from tests.stages import toy_stage

ADDRESS = "prepare@toy"
DVC_YAML = """
stages:
  prepare:
    foreach: ${datasets}
    do:
      cmd: quintet stage prepare@${key}
      deps:
      - code
      - source.txt
      params:
      - scale
      - datasets.${key}.split
      - datasets.${key}.entry
      - extra.yaml:
        - limit
      outs:
      - outputs/prepare/${key}:
          persist: true
"""
PARAMS = "scale: tiny\nseed: 9\ndatasets:\n  toy:\n    entry: some-entry\n    split:\n      seed: 3\n"


@dataclass
class ToyProject:
    """`root` of the project; `runs(function)` runs its stage with that function and returns what it said of itself."""

    root: Path
    output: Path

    def run(self, function: Callable[[Context], None]) -> dict[str, Any]:
        toy_stage.functions.append(function)
        execution.run_stage(self.root, ADDRESS)
        return self.run_info()

    def run_info(self) -> dict[str, Any]:
        said: dict[str, Any] = read_json(self.root / "run_info" / "stages" / f"{ADDRESS}.json")
        return said

    def files(self) -> dict[str, bytes]:
        """Every file of the output by its path in it."""
        return {
            path.relative_to(self.output).as_posix(): path.read_bytes()
            for path in sorted(self.output.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def toy_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ToyProject]:
    root = tmp_path / "project"
    for name, text in {
        ".dvc/config": "[core]\n    no_scm = true\n    analytics = false\n",
        "dvc.yaml": DVC_YAML,
        "params.yaml": PARAMS,
        "extra.yaml": "limit: 5\nother: 6\n",
        "source.txt": "one\n",
        "code/part.py": "x = 1\n",
        "code/__pycache__/part.pyc": "compiled",
        "undeclared.txt": "secret\n",
    }.items():
        write_text(root / name, text)
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "site"))
    monkeypatch.setitem(execution.STAGES, "prepare", "tests.stages.toy_stage")
    yield ToyProject(root, root / "outputs" / "prepare" / "toy")
    toy_stage.functions.clear()
