"""A small study for the tests, and how far it is in a copy."""

from typing import Any

import yaml

from components.files import files_below, read_json, sha256_file
from tests.endtoend.copies import Copy

NAME = "small"
STUDY: dict[str, Any] = {
    "question": "Does the ratio matter?",
    "experiment": "orbital-kind",
    "scale": "tiny",
    "base": {"training.epochs": 3},
    "grid": {"training.timescale_ratio": [0.1, 1.0], "training.checkpoint_every_epochs": [1, 2]},
    "reference": "timescale_ratio=0.1,checkpoint_every_epochs=1",
    "seeds": [1, 2, 3],
    "metric": "test/accuracy",
}
OF_THE_MOMENT = {"times.md", "front_seconds.png"}


def write_studies(copy: Copy, **studies: Any) -> None:
    """Let the copy's ablations.yaml hold these studies and no other."""
    text = yaml.safe_dump({"studies": studies}, sort_keys=False)
    (copy.root / "ablations.yaml").write_text(text, encoding="utf-8")


def results(copy: Copy) -> dict[str, str]:
    """sha256 of every file of every finished run."""
    folder = copy.root / "outputs" / "study_runs"
    whole = [path.parent for path in folder.glob("[!.]*/result.json")]
    return {path.relative_to(folder).as_posix(): sha256_file(path) for run in whole for path in files_below(run)}


def finished(copy: Copy) -> set[str]:
    return {name.partition("/")[0] for name in results(copy)}


def comparison(copy: Copy, name: str = NAME) -> dict[str, str]:
    """sha256 of all that the comparison wrote, but for what the clock says."""
    folder = copy.root / "outputs" / "studies" / name
    return {
        path.relative_to(folder).as_posix(): sha256_file(path)
        for path in files_below(folder)
        if path.name not in OF_THE_MOMENT
    }


def accounts(copy: Copy) -> dict[str, dict[str, Any]]:
    folder = copy.root / "run_info" / "study_runs"
    return {path.stem: read_json(path) for path in folder.glob("*.json")}
