"""Prepare and judge a data set outside the graph, in a scratch folder: for looking at it, and before it is added."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from components.config import DatasetConfig, validated
from components.datasets.core.catalogue import Entry
from components.errors import ConfigError, UsageError
from components.files import write_json
from components.progress import progress
from components.quality.core.profile import Profile
from components.quality.core.report import GateReport

CONFIGURATIONS = Path("conf/dataset")
SCRATCH = Path(".quintet/inspected")


@dataclass(frozen=True)
class Inspection:
    """Summary, verdict and profile of a data set; the profile is None where the gate refused it."""

    name: str
    summary: dict[str, Any]
    report: GateReport
    profile: Profile | None


def configured_datasets(root: Path) -> dict[str, DatasetConfig]:
    """The data sets of params.yaml, then those of conf/dataset/ that it does not name."""
    from components.config import load_config

    active = dict(load_config(root / "params.yaml").datasets)
    for path in sorted((root / CONFIGURATIONS).glob("*.yaml")):
        if path.stem not in active:
            active[path.stem] = read_dataset(path)
    return active


def read_dataset(path: Path) -> DatasetConfig:
    """One file of conf/dataset/. Raises ConfigError."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    return validated(DatasetConfig, content, f"conf/dataset/{path.name}")


def dataset_named(root: Path, name: str) -> DatasetConfig:
    known = configured_datasets(root)
    if name not in known:
        raise UsageError(f"no data set {name!r} in params.yaml or conf/dataset/; there are: {', '.join(known)}")
    return known[name]


def inspect(root: Path, name: str, config: DatasetConfig, entry: Entry, paths: Sequence[Path]) -> Inspection:
    """Prepare `entry` from its files as `config` says, judge it, and take its profile. Leaves nothing behind.

    Raises ConfigError and DataError as preparing does; what the gate refuses is in the report.
    """
    from components.datasets.preparing import prepare_dataset
    from components.datasets.registry import kind_named
    from components.quality.core.drift import Drift
    from components.quality.core.profile import accepted_profile, profile_of, profile_path
    from components.quality.registry import gate_named

    folder = root / SCRATCH / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        with progress(f"preparing {name}") as tell:
            summary = prepare_dataset(name, config, entry, paths, folder, tell)
        write_json(folder / "summary.json", summary)
        options: Any = validated(kind_named(config.kind).GateOptions, config.gate, f"datasets.{name}.gate")
        accepted = root / profile_path(name)
        gate = gate_named(config.kind)
        drift = Drift(accepted_profile(accepted) if accepted.is_file() else None, options.drift)
        report = gate.gate(folder, options, subject=name, docs_folder=None, drift=drift)
        # drift is what accepting is about; any other refusal must be mended first
        sound = all(check.name.startswith("drift/") for check in report.refused) and bool(report.checks)
        profile = profile_of(gate.observations(folder)) if sound else None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Inspection(name, summary, report, profile)
