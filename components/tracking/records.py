"""The run record: what a stage says about itself, as a file, so that MLflow can be rebuilt from outputs alone.

A record is checked when it is written: a metric that is not finite, a misspelt name or a parameter too long for
MLflow stops the stage that made it, not the synchronisation hours later.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from components.errors import NonFiniteError, RecordError
from components.files import sha256_file, write_json, write_text

RECORD_NAME = "record.json"
HISTORY_NAME = "history.jsonl"
CONFIG_NAME = "config.json"
# MLflow cuts a longer parameter without a word (6000 characters); a value of this length is no longer "short".
MAX_PARAMETER_LENGTH = 250
MAX_TAG_LENGTH = 5000
# the tag by which an export gate names the very bundle it passed.
BUNDLE_TAG = "bundle_sha256"

STAGE_ORDER = ("train", "gate_model", "evaluate", "export", "gate_export")

METRIC_NAME = re.compile(r"[a-z0-9_]+(/[a-z0-9_]+)*")
_KEY = re.compile(r"[A-Za-z0-9_\-]+([./][A-Za-z0-9_\-]+)*")

Scalar = str | int | float | bool | None
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]*$", max_length=100)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def check_metrics(metrics: Mapping[str, float], where: str) -> None:
    """Raise RecordError for a name outside the grammar, NonFiniteError for NaN or infinity."""
    for name, value in metrics.items():
        if not METRIC_NAME.fullmatch(name) or len(name) > MAX_PARAMETER_LENGTH:
            raise RecordError(
                f"{where}: metric name {name!r} is not allowed; use lower-case letters, digits and underscores, "
                f"in parts separated by '/', for example test/accuracy"
            )
        if not math.isfinite(value):
            raise NonFiniteError(
                f"{where}: metric {name} is {value}, only finite numbers are recorded; "
                f"find the step where it first stopped being finite, or leave the metric out if it is undefined"
            )


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class DatasetUse(_Frozen):
    """A data set that a stage read, with the digest of the content it read."""

    name: Name
    digest: Annotated[str, Field(min_length=8, max_length=128)]
    context: Name


class RunRecord(_Frozen):
    """One stage's contribution to a run; `experiment` and `digest` together name the run."""

    format: Literal["quintet-record/1"] = "quintet-record/1"
    stage: Literal["train", "gate_model", "evaluate", "export", "gate_export"]
    experiment: Name
    method: Name
    dataset: Name
    scale: Name
    digest: Digest
    parameters: dict[str, Scalar] = Field(default_factory=dict)
    tags: dict[str, str] = Field(default_factory=dict)
    metrics: dict[str, float] = Field(default_factory=dict)
    history: str | None = None
    artifacts: list[str] = Field(default_factory=list)
    datasets: list[DatasetUse] = Field(default_factory=list)

    @field_validator("parameters")
    @classmethod
    def _short_scalars(cls, parameters: dict[str, Scalar]) -> dict[str, Scalar]:
        for key, value in parameters.items():
            _check_key("parameter", key)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"parameter {key} is {value}; only finite numbers are recorded")
            if len(parameter_text(value)) > MAX_PARAMETER_LENGTH:
                raise ValueError(
                    f"parameter {key} has {len(parameter_text(value))} characters, at most {MAX_PARAMETER_LENGTH} are "
                    f"recorded; leave it to {CONFIG_NAME} (short_parameters() does so)"
                )
        return parameters

    @field_validator("tags")
    @classmethod
    def _short_tags(cls, tags: dict[str, str]) -> dict[str, str]:
        for key, value in tags.items():
            _check_key("tag", key)
            if len(value) > MAX_TAG_LENGTH:
                raise ValueError(
                    f"tag {key} has {len(value)} characters, at most {MAX_TAG_LENGTH} are recorded; "
                    f"write it to a file and list that under artifacts"
                )
        return tags

    @field_validator("artifacts")
    @classmethod
    def _inside_folder(cls, artifacts: list[str]) -> list[str]:
        for name in artifacts:
            _check_inside(name)
        return artifacts

    @field_validator("history")
    @classmethod
    def _history_inside_folder(cls, history: str | None) -> str | None:
        if history is not None:
            _check_inside(history)
        return history

    @model_validator(mode="after")
    def _configuration_is_kept(self) -> RunRecord:
        if self.stage == "train" and CONFIG_NAME not in self.artifacts:
            raise ValueError(
                f"a training record lists no {CONFIG_NAME} among its artifacts; write the whole resolved "
                f"configuration to that file and list it"
            )
        return self


def _check_key(kind: str, key: str) -> None:
    if not _KEY.fullmatch(key) or len(key) > MAX_PARAMETER_LENGTH:
        raise ValueError(
            f"{kind} name {key!r} is not allowed; use letters, digits, '_' and '-', in parts separated by '.' or '/'"
        )


def _check_inside(name: str) -> None:
    path = PurePosixPath(name)
    if not name or "\\" in name or path.is_absolute() or ".." in path.parts or path.as_posix() != name or name == ".":
        raise ValueError(f"{name!r} is not a path inside the output folder; give it relative, with '/', without '..'")


def parameter_text(value: Scalar) -> str:
    """The text under which a parameter is kept: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def short_parameters(config: Mapping[str, Any], prefix: str = "") -> tuple[dict[str, Scalar], list[str]]:
    """Flatten a configuration to dotted names; returns the short scalars, and the names that were left out.

    What is left out (lists, long text) is not lost: the whole configuration is an artifact of the run.
    """
    kept: dict[str, Scalar] = {}
    left_out: list[str] = []
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            below, omitted = short_parameters(value, f"{name}.")
            kept.update(below)
            left_out.extend(omitted)
        elif isinstance(value, Scalar) and len(parameter_text(value)) <= MAX_PARAMETER_LENGTH:
            kept[name] = value
        else:
            left_out.append(name)
    return kept, left_out


def new_record(where: str | Path = "run record", **fields: Any) -> RunRecord:
    """A checked record. Raises RecordError or NonFiniteError, which say which field is wrong and what is allowed."""
    metrics = fields.get("metrics")
    # values of another type are told of by the model, which knows the field.
    if isinstance(metrics, Mapping) and all(type(value) in (int, float) for value in metrics.values()):
        check_metrics(metrics, str(where))
    try:
        return RunRecord.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the record"
        raise RecordError(f"{where}: {field}: {first['msg'].removeprefix('Value error, ')}") from error


def write_history(folder: Path, points: Iterable[tuple[int, Mapping[str, float]]]) -> str:
    """Write the metrics of each step, one line a step in rising order; returns the file's name for the record."""
    lines = []
    last = -1
    for step, metrics in points:
        check_metrics(metrics, f"step {step}")
        if step <= last:
            raise RecordError(f"history: step {step} follows step {last}; steps are whole numbers >= 0 that rise")
        last = step
        lines.append(json.dumps({"step": step, "metrics": dict(sorted(metrics.items()))}, allow_nan=False) + "\n")
    write_text(folder / HISTORY_NAME, "".join(lines))
    return HISTORY_NAME


def read_history(path: Path) -> list[tuple[int, dict[str, float]]]:
    """The (step, metrics) of each line. Raises RecordError naming the file and the line that is not one."""
    points: list[tuple[int, dict[str, float]]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        where = f"{path}, line {number}"
        try:
            entry = json.loads(line)
            step, metrics = entry["step"], {name: float(value) for name, value in entry["metrics"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RecordError(
                f'{where}: {line[:80]!r} is not of the form {{"step": 1, "metrics": {{"name": 0.5}}}}; '
                f"run the stage again"
            ) from error
        if not isinstance(step, int) or isinstance(step, bool) or step < 0 or (points and step <= points[-1][0]):
            raise RecordError(f"{where}: step {step!r} is not a whole number that rises; run the stage again")
        check_metrics(metrics, where)
        points.append((step, metrics))
    return points


def write_record(folder: Path, record: RunRecord) -> Path:
    """Write `record` into the stage's output folder, after the files it names. Returns the record's path.

    Raises RecordError when a named file is missing or the history is malformed, NonFiniteError for a bad metric.
    """
    # a record made by model_construct or copied with an update has not been through the checks.
    checked = new_record(folder / RECORD_NAME, **record.model_dump())
    for name in [*checked.artifacts, *([checked.history] if checked.history else [])]:
        if not (folder / name).exists():
            raise RecordError(
                f"{folder / RECORD_NAME}: names {name}, which is not in {folder}; write files before the record"
            )
    if checked.history:
        read_history(folder / checked.history)
    write_json(folder / RECORD_NAME, checked.model_dump())
    return folder / RECORD_NAME


def read_record(path: Path) -> RunRecord:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RecordError(f"{path}: is not JSON ({error}); run the stage again") from error
    if not isinstance(fields, dict):
        raise RecordError(f"{path}: holds a {type(fields).__name__}, not a record; run the stage again")
    return new_record(path, **fields)


@dataclass(frozen=True)
class StageRecord:
    """A record and the output folder it describes."""

    record: RunRecord
    folder: Path

    @property
    def address(self) -> str:
        return f"{self.record.stage}@{self.record.experiment}"


@dataclass(frozen=True)
class LogicalRun:
    """All that the stages of one experiment say about one digest; becomes one MLflow run."""

    experiment: str
    digest: str
    stages: tuple[StageRecord, ...]

    @property
    def name(self) -> str:
        return run_name(self.experiment, self.digest)

    @property
    def train(self) -> StageRecord | None:
        return self.stage("train")

    def stage(self, name: str) -> StageRecord | None:
        return next((stage for stage in self.stages if stage.record.stage == name), None)

    def merged(self, field: Literal["metrics", "parameters", "tags"]) -> dict[str, Any]:
        """The union of a field over the stages. Raises RecordError when two stages give one name two values."""
        union: dict[str, Any] = {}
        owner: dict[str, str] = {}
        for stage in self.stages:
            for key, value in getattr(stage.record, field).items():
                if key in union and union[key] != value:
                    raise RecordError(
                        f"{self.name}: {field} {key} is {union[key]!r} in the record of {owner[key]} and {value!r} in "
                        f"that of {stage.address}; give the two different names"
                    )
                union[key] = value
                owner.setdefault(key, stage.address)
        return union


def run_name(experiment: str, digest: str) -> str:
    return f"{experiment}-{digest[:8]}"


def read_records(root: Path) -> list[LogicalRun]:
    """All records of stages below outputs/, grouped into runs by (experiment, digest), stages in the graph's order.

    Raises RecordError when a record is malformed or names another stage or experiment than its folder.
    """
    groups: dict[tuple[str, str], list[StageRecord]] = defaultdict(list)
    # other folders of outputs/ are no stage's; the runs of studies lie there, with records of the same form
    paths = [path for stage in STAGE_ORDER for path in (root / "outputs" / stage).glob(f"[!.]*/{RECORD_NAME}")]
    for path in sorted(paths):
        record = read_record(path)
        if (record.stage, record.experiment) != (path.parent.parent.name, path.parent.name):
            raise RecordError(
                f"{path}: is the record of {record.stage}@{record.experiment}, in the folder of another stage; "
                f"delete the folder and run the stage again"
            )
        groups[record.experiment, record.digest].append(StageRecord(record, path.parent))
    return [
        LogicalRun(experiment, digest, tuple(sorted(stages, key=lambda s: STAGE_ORDER.index(s.record.stage))))
        for (experiment, digest), stages in sorted(groups.items())
    ]


def bundle_digest(bundle: Path) -> str:
    """Identity of a bundle: sha256 of its manifest, which in turn holds the sha256 of every file."""
    return sha256_file(bundle / "manifest.json")
