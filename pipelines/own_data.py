"""`quintet data add`: a user's own file or folder becomes a catalogue entry, gated before anything is written."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from components.errors import QuintetError, UsageError
from components.files import sha256_file, write_text
from pipelines.data import print_inspection, require_name

SCRATCH = Path(".quintet/adding")
SEED = 20260404


def add_own(
    root: Path,
    path: Path,
    name: str,
    text: str | None,
    label: str | None,
    confirm: Callable[[str], bool],
    console: Console,
) -> bool:
    """Infer, show, ask, judge, then write: raw file under DVC, catalogue entry, configuration, accepted profile.

    False where the user declined. Raises UsageError, DataError or DataGateError with nothing written.
    """
    from components.config import DatasetConfig, validated
    from components.datasets.core.catalogue import CATALOGUE_PATH, Entry, load_catalogue
    from components.datasets.own.infer import propose
    from components.datasets.own.proposal import Wishes
    from components.quality.core.profile import profile_path, write_profile
    from components.quality.core.report import require_passed
    from components.stages.inspecting import inspect

    require_name(name)
    configuration = root / "conf" / "dataset" / f"{name}.yaml"
    if name in load_catalogue(root).entries or configuration.exists():
        raise UsageError(f"there is already a data set {name!r}; choose another --name")
    scratch = root / SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        proposal = propose(path.resolve(), Wishes(text, label), scratch)
        console.print(f"{name}: kind {proposal.kind}, read by {proposal.reader}", markup=False)
        for line in proposal.shown:
            console.print(f"  {line}", markup=False, soft_wrap=True)
        if not confirm("Add it so?"):
            return False
        target = root / "data" / "raw" / name / f"{name}{proposal.file.suffix}"
        entry = _entry(name, proposal, target.name)
        config = validated(DatasetConfig, _dataset(name, proposal), f"conf/dataset/{name}.yaml")
        inspection = inspect(root, name, config, Entry.model_validate({**entry, "name": name}), [proposal.file])
        print_inspection(inspection, console)
        if inspection.profile is None:
            require_passed(inspection.report)
            raise QuintetError(f"{name} has no profile, though its gate passed")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(proposal.file, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _under_dvc(root, target.parent)
    # the catalogue last: an entry that stands there has its file
    write_text(configuration, f"# Own data: {path.name}\n" + _yaml(_dataset(name, proposal)))
    write_profile(root / profile_path(name), inspection.profile)
    catalogue = (root / CATALOGUE_PATH).read_text(encoding="utf-8").rstrip("\n")
    write_text(root / CATALOGUE_PATH, f"{catalogue}\n\n" + _indented(_yaml({name: entry})))
    load_catalogue(root)
    return True


def _entry(name: str, proposal: Any, file_name: str) -> dict[str, Any]:
    return {
        "title": f"Own data, {proposal.rows} {'words' if proposal.kind == 'language' else 'rows'}",
        "description": "; ".join(proposal.shown),
        "reader": proposal.reader,
        "licence": "Own data, not to be passed on unless their owner says so",
        "citation": "none",
        "options": proposal.options,
        "files": [
            {
                "name": file_name,
                **({"split": proposal.split} if proposal.split else {}),
                "sha256": sha256_file(proposal.file),
                "bytes": proposal.file.stat().st_size,
                "sources": [{"own": f"data/raw/{name}/{file_name}"}],
            }
        ],
    }


def _dataset(name: str, proposal: Any) -> dict[str, Any]:
    from components.datasets.registry import kind_named

    prepare = {"seed": SEED, "validation": 0.1, "test": 0.2, "drop_duplicates": ["within", "across"]}
    known = kind_named(proposal.kind).PrepareOptions.model_fields
    prepare = {**{key: value for key, value in prepare.items() if key in known}, **proposal.prepare}
    gate = {"min_rows": 10, "max_share_drift": 0.3, **proposal.gate}
    asked = kind_named(proposal.kind).GateOptions.model_fields
    gate = {key: value for key, value in gate.items() if key in asked}
    # what comes first is what later versions are compared with
    gate["drift"] = {"require_reference": False}
    return {"kind": proposal.kind, "source": proposal.source, "entry": name, "prepare": prepare, "gate": gate}


def _under_dvc(root: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "dvc", "add", "--quiet", folder.relative_to(root).as_posix()]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        raise QuintetError(f"dvc add {folder.relative_to(root).as_posix()} failed: {' '.join(answer.stderr.split())}")


def _yaml(value: Any) -> str:
    # through JSON, so that a list that stands twice is written twice and not as an alias
    return yaml.safe_dump(json.loads(json.dumps(value)), sort_keys=False, allow_unicode=True, width=110)


def _indented(text: str) -> str:
    return "".join(f"  {line}" if line.strip() else line for line in text.splitlines(keepends=True))
