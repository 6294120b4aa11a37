"""What a study left as files: its arms and seeds in `study.json`, and for each run a folder named by its digest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.errors import RecordError
from components.files import canonical_json, digest_of, read_json
from components.tracking.lineage import StageInfo
from components.tracking.records import RECORD_NAME, Digest, LogicalRun, Name, StageRecord, read_record

STUDIES_FOLDER = Path("outputs/studies")
RUNS_FOLDER = Path("outputs/study_runs")
ACCOUNTS_FOLDER = Path("run_info/study_runs")
STUDY_NAME = "study.json"
RESULT_NAME = "result.json"
# the columns a reader looks at first; all of them, and the other tables, are in the second.
SUMMARY_NAME = "summary.md"
TABLE_NAME = "table.md"

# times in the account of a run; the first is of the whole run, which also prepares and scores.
_TIMES = ("seconds", "cpu_seconds", "train_seconds", "train_cpu_seconds")

_Model = TypeVar("_Model", bound=BaseModel)

# the stages whose records a run of a study has, in their order.
_STAGES = ("train", "evaluate")


class _Read(BaseModel):
    # tracking reads these files and does not write them: what it has no use for may be in them.
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class Arm(_Read):
    """Settings of the knobs, and the digest of the run with each seed."""

    # quotes would end a search in MLflow, control characters a line of its description.
    name: str = Field(min_length=1, max_length=200, pattern=r"^[^'\"`\x00-\x1f]+$")
    settings: dict[str, Any]
    runs: dict[str, Digest]


class Study(_Read):
    """`study.json`."""

    format: Literal["quintet-study/1"]
    name: Name
    question: str
    experiment: Name
    method: Name
    scale: Name
    knobs: list[str]
    reference: str
    metric: str
    goal: Literal["maximise", "minimise"]
    # with the goal of each, or without.
    also: list[str] | dict[str, str]
    confidence: float
    seeds: list[int]
    arms: list[Arm] = Field(min_length=1)


class Result(_Read):
    """`result.json` of one run, as far as tracking needs it."""

    format: Literal["quintet-study-run/1"]
    digest: Digest
    seed: int
    metrics: dict[str, float]
    settings: dict[str, Any]
    costs: dict[str, float]
    output: str
    device: str
    code: str
    data: dict[str, dict[str, str]]


@dataclass(frozen=True)
class StudyRun:
    """A finished run of a study; `seconds` are in `account`, which does not belong to the outputs and may be empty."""

    arm: Arm
    seed: int
    folder: Path
    result: Result
    account: Mapping[str, Any]
    logical: LogicalRun

    @property
    def train(self) -> StageRecord:
        return self.logical.stages[0]

    @cached_property
    def info(self) -> StageInfo | None:
        """When the run was made and from which commit, None when it is not known."""
        if self.account.get("state") != "succeeded":
            return None
        try:
            started = int(datetime.fromisoformat(self.account["started"]).timestamp() * 1000)
            seconds = float(self.account["seconds"])
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(
                f"{ACCOUNTS_FOLDER}/{self.result.digest}.json: is not an account of a run ({error!r}); delete it, it "
                f"is a note only"
            ) from error
        return StageInfo(started, seconds, self.account.get("git_commit"), self.result.device)

    @property
    def costs(self) -> dict[str, float]:
        """Metrics `cost/...`: from the outputs, and the times if they are known."""
        costs = dict(self.result.costs)
        if self.info is not None:
            costs |= {key: float(self.account[key]) for key in _TIMES if self.account.get(key) is not None}
        return {f"cost/{key}": value for key, value in costs.items()}


@dataclass(frozen=True)
class StudyFiles:
    """A study as its files tell it: `runs` are finished, `missing` says of each other (arm, seed) what is known."""

    root: Path
    folder: Path
    study: Study
    digest: str
    runs: tuple[StudyRun, ...]
    missing: Mapping[tuple[str, int], str]

    def knobs_of(self, run: StudyRun) -> dict[str, Any]:
        """Each knob of the study as it was in `run`, also where its arm left the base as it is."""
        knobs = dict(run.arm.settings)
        for knob in self.study.knobs:
            below = {name: run.result.settings[name] for name in run.result.settings if name.startswith(f"{knob}.")}
            knobs |= {knob: run.result.settings[knob]} if knob in run.result.settings else below
        return knobs

    def means(self, metric: str) -> dict[str, float]:
        """The mean of a metric over the seeds, by arm; an arm with a seed missing, or without the metric, has none."""
        values: dict[str, list[float]] = {}
        for run in self.runs:
            if metric in run.result.metrics:
                values.setdefault(run.arm.name, []).append(run.result.metrics[metric])
        whole = {arm.name: len(arm.runs) for arm in self.study.arms}
        return {arm: fmean(found) for arm, found in values.items() if len(found) == whole[arm]}

    @property
    def best(self) -> str | None:
        """The arm with the best mean, the first of equals; None while no arm is complete."""
        means = self.means(self.study.metric)
        sign = 1 if self.study.goal == "maximise" else -1
        return max(means, key=lambda arm: sign * means[arm], default=None)


def study_digest(study: Mapping[str, Any]) -> str:
    """Identity of a study: its arms, seeds and metric, and by the digests of its runs also code and data."""
    # as it reads from a file, where every key is text.
    return digest_of(json.loads(canonical_json(study)))


def study_folders(root: Path) -> list[Path]:
    return sorted(path.parent for path in (root / STUDIES_FOLDER).glob(f"[!.]*/{STUDY_NAME}"))


def read_study_files(root: Path, folder: Path) -> StudyFiles:
    """The study in `folder` and its finished runs. Raises RecordError when a file is not what its name says."""
    content = _read(folder / STUDY_NAME)
    study = checked_study(content, folder / STUDY_NAME)
    runs: list[StudyRun] = []
    missing: dict[tuple[str, int], str] = {}
    for arm, seed, digest in _cells(study):
        account = _account(root, digest)
        if digest is None or not (root / RUNS_FOLDER / digest / RESULT_NAME).is_file():
            missing[arm.name, seed] = str(account.get("error") or account.get("state") or "not run")
        else:
            runs.append(_study_run(root, arm, seed, digest, account))
    return StudyFiles(root, folder, study, study_digest(content), tuple(runs), missing)


def checked_study(content: Any, where: Path | str) -> Study:
    """Raises RecordError for what is no study, or names a reference that is no arm."""
    study = _validated(Study, content, where)
    names = [arm.name for arm in study.arms]
    if study.reference not in names or len(set(names)) < len(names):
        raise RecordError(
            f"{where}: arms must be named once each, and the reference {study.reference!r} be one of them; there are "
            f"{', '.join(names)}. Run the study again"
        )
    return study


def _cells(study: Study) -> Iterator[tuple[Arm, int, str | None]]:
    for arm in study.arms:
        for seed in study.seeds:
            yield arm, seed, arm.runs.get(str(seed))


def _study_run(root: Path, arm: Arm, seed: int, digest: str, account: Mapping[str, Any]) -> StudyRun:
    folder = root / RUNS_FOLDER / digest
    result = _validated(Result, _read(folder / RESULT_NAME), folder / RESULT_NAME)
    for stage in _STAGES:
        if not (folder / stage / RECORD_NAME).is_file():
            raise RecordError(f"{folder}: has no record of its stage {stage}; delete it, and run the study again")
    stages = tuple(StageRecord(read_record(folder / stage / RECORD_NAME), folder / stage) for stage in _STAGES)
    told = {(stage.record.stage, stage.record.digest, stage.record.experiment) for stage in stages}
    experiment = stages[0].record.experiment
    if (result.digest, result.seed) != (digest, seed) or told != {(name, digest, experiment) for name in _STAGES}:
        raise RecordError(f"{folder}: holds another run than its name and the study say; delete it, and run it again")
    return StudyRun(arm, seed, folder, result, account, LogicalRun(experiment, digest, stages))


def _account(root: Path, digest: str | None) -> Mapping[str, Any]:
    path = root / ACCOUNTS_FOLDER / f"{digest}.json"
    if digest is None or not path.is_file():
        return {}
    account = _read(path)
    return account if isinstance(account, dict) else {}


def _read(path: Path) -> Any:
    try:
        return read_json(path)
    except ValueError as error:
        raise RecordError(f"{path}: is not JSON ({error}); run the study again") from error


def _validated(model: type[_Model], content: Any, where: Path | str) -> _Model:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the file"
        raise RecordError(f"{where}: {field}: {first['msg']}; run the study again") from error
