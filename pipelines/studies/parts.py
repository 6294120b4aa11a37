"""How the runs of a study are divided among processes, and what such a process is told."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from components.files import read_json, write_json
from components.studies.config import StudyConfig
from components.studies.plan import Plan, Run
from components.studies.running import RunOptions

# Scales whose runs take seconds: starting a process, which imports for some seconds, would cost more than the run.
SHORT_SCALES = frozenset({"tiny", "quick"})


@dataclass(frozen=True)
class Part:
    """The runs of one process, in their order. `parent` is the study's own run in MLflow, None if it has none."""

    study: str
    number: int
    options: RunOptions
    runs: tuple[Run, ...]
    parent: str | None = None

    @property
    def label(self) -> str:
        first = self.runs[0].label
        return f"process {self.number}: {first}" + (f" and {len(self.runs) - 1} more" if len(self.runs) > 1 else "")


def sharing(study: StudyConfig) -> tuple[bool, str]:
    """Whether runs share a process, and why."""
    if study.processes != "auto":
        return study.processes == "shared", "the study says so"
    if study.scale in SHORT_SCALES:
        return True, f"runs of scale {study.scale} are short"
    return False, f"runs of scale {study.scale} are long"


def divided(plan: Plan, runs: Sequence[Run], at_once: int, parent: str | None) -> tuple[Part, ...]:
    """The runs in parts of like size, dealt out in turn so that each part has some of every arm."""
    shared, _ = sharing(plan.config)
    count = min(at_once, len(runs)) if shared else len(runs)
    minutes = plan.config.budget.minutes_per_run
    options = RunOptions(
        plan.config.experiment,
        seconds=None if minutes is None else 60 * minutes,
        at_once=min(at_once, count),
    )
    return tuple(Part(plan.name, number + 1, options, tuple(runs[number::count]), parent) for number in range(count))


def write_part(root: Path, part: Part) -> Path:
    path = root / ".quintet" / "studies" / "parts" / f"{part.study}-{part.number}.json"
    write_json(path, asdict(part))
    return path


def read_part(path: Path) -> Part:
    content: Mapping[str, Any] = read_json(path)
    return Part(
        content["study"],
        content["number"],
        RunOptions(**content["options"]),
        tuple(Run(**run) for run in content["runs"]),
        content["parent"],
    )
