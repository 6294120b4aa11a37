"""What `ablations.yaml` may say: a study is a base experiment, its arms, seeds, a budget, a metric and a comparison."""

import itertools
import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from components.config import Name, Scale, Seed, Strict, read_yaml, validated
from components.errors import UsageError

STUDIES_FILE = "ablations.yaml"
# Quotes would end a search in MLflow, control characters a line of a table.
ARM_NAME = r"^[^'\"`\x00-\x1f]{1,200}$"
ArmName = Annotated[str, Field(pattern=ARM_NAME)]
# A folder, and a part of the name of MLflow's experiment.
StudyName = Annotated[Name, Field(max_length=80)]
# A path in the configuration: of the experiment (training.epochs), or of data (datasets.NAME.prepare.max_rows).
Knob = Annotated[str, Field(pattern=r"^[A-Za-z0-9_\-]+(\.[A-Za-z0-9_\-]+)*$")]
Settings = dict[Knob, Any]

Goal = Literal["maximise", "minimise"]
METRIC = Annotated[str, Field(pattern=r"^[a-z0-9_]+(/[a-z0-9_]+)*$")]
# More runs than this are a mistake in a grid sooner than a plan.
MAX_RUNS = 5000


class SeedRange(Strict):
    """`count` seeds from `first` on."""

    first: Seed = 1
    count: int = Field(ge=1, le=1000)

    @model_validator(mode="after")
    def _all_are_seeds(self) -> "SeedRange":
        if self.first + self.count > 2**32:
            raise ValueError(f"the last seed is {self.first + self.count - 1}; seeds are below 2^32")
        return self


class Budget(Strict):
    """What every arm may spend. `epochs` takes the place of the experiment's own; a run over its minutes fails."""

    epochs: int | None = Field(default=None, ge=1)
    minutes_per_run: float | None = Field(default=None, gt=0)


class ComparisonConfig(Strict):
    """How the arms are compared: `confidence` of intervals and of the corrected tests, resamples of the bootstrap."""

    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    resamples: int = Field(default=9999, ge=999)
    # of the bootstrap alone
    seed: Seed = 0


class StudyConfig(Strict):
    """One study. Either `grid` (every combination) or `arms` (settings by name, with `varies` naming their knobs)."""

    question: str = Field(min_length=1)
    experiment: Name
    scale: Scale
    # changes of the base that all arms share
    base: Settings = Field(default_factory=dict)
    grid: dict[Knob, list[Any]] = Field(default_factory=dict)
    arms: dict[ArmName, Settings] = Field(default_factory=dict)
    varies: list[Knob] = Field(default_factory=list)
    # the arm that all others are compared with
    reference: ArmName
    seeds: list[Seed] | SeedRange
    budget: Budget = Budget()
    metric: METRIC
    goal: Goal = "maximise"
    # further metrics, compared in the same way, each with its goal
    also: dict[METRIC, Goal] = Field(default_factory=dict)
    comparison: ComparisonConfig = ComparisonConfig()
    # shared: arms of one process after another; own: a process for each run; auto: by the scale
    processes: Literal["auto", "shared", "own"] = "auto"

    @field_validator("seeds")
    @classmethod
    def _some_seeds_each_once(cls, seeds: list[int] | SeedRange) -> list[int] | SeedRange:
        if isinstance(seeds, list) and (not seeds or len(set(seeds)) < len(seeds)):
            raise ValueError("seeds must be one or more, each named once")
        return seeds

    @model_validator(mode="after")
    def _grid_or_arms(self) -> "StudyConfig":
        if bool(self.grid) == bool(self.arms):
            raise ValueError("a study has either a grid or arms")
        if self.arms and not self.varies:
            raise ValueError("arms need `varies`: the knobs in which they are meant to differ")
        if self.grid and self.varies:
            raise ValueError("a grid says itself what varies; leave `varies` out")
        for knob, values in self.grid.items():
            if len(values) < 1 or any(values.count(value) > 1 for value in values):
                raise ValueError(f"grid.{knob} must list one or more values, each once")
        for knob in (*self.base, *self.knobs):
            if knob == "seed" or knob in ("method", "source", "scale"):
                raise ValueError(
                    f"{knob} is no knob: seeds are listed under `seeds`, the rest makes another experiment"
                )
        both = sorted(set(self.base) & set(self.knobs))
        if both:
            raise ValueError(f"{both[0]} is set by `base` for all arms, and varied as well; leave one of the two out")
        if self.metric in self.also:
            raise ValueError(f"{self.metric} is the study's own metric already; leave it out of `also`")
        if self.budget.epochs is not None and "training.epochs" in (*self.base, *self.knobs):
            raise ValueError("training.epochs is set by the budget already; leave one of the two out")
        return self

    @model_validator(mode="after")
    def _reference_is_an_arm(self) -> "StudyConfig":
        arms = self.arm_settings
        combined = math.prod(len(values) for values in self.grid.values())
        if self.grid and len(arms) < combined:
            raise ValueError("two values of the grid give the same name; list each once, in one spelling")
        unfit = next((name for name in arms if not re.fullmatch(ARM_NAME, name)), None)
        if unfit is not None:
            raise ValueError(f"{unfit[:60]!r} cannot name an arm; give the arms names of their own under `arms`")
        if len(arms) * len(self.seed_list) > MAX_RUNS:
            raise ValueError(f"{len(arms)} arms with {len(self.seed_list)} seeds are more than {MAX_RUNS} runs")
        if self.reference not in arms:
            raise ValueError(f"reference {self.reference!r} is no arm; the arms are: {', '.join(arms)}")
        return self

    @property
    def knobs(self) -> tuple[str, ...]:
        """The knobs in which arms are declared to differ."""
        return tuple(self.grid or self.varies)

    @property
    def seed_list(self) -> tuple[int, ...]:
        if isinstance(self.seeds, SeedRange):
            return tuple(range(self.seeds.first, self.seeds.first + self.seeds.count))
        return tuple(self.seeds)

    @property
    def arm_settings(self) -> dict[str, Settings]:
        """The settings of each arm by its name, in the order of the file; a grid's first knob moves slowest."""
        if self.arms:
            return dict(self.arms)
        combined = itertools.product(*self.grid.values())
        chosen = [dict(zip(self.grid, values, strict=True)) for values in combined]
        return {grid_name(settings): settings for settings in chosen}


def grid_name(settings: Settings) -> str:
    """The name of an arm of a grid: the last part of each knob with its value, `temperature_end=0.5,dim=16`."""
    return ",".join(f"{knob.rpartition('.')[2]}={_word(value)}" for knob, value in settings.items())


def _word(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(_word(part) for part in value) or "none"
    return str(value).lower() if isinstance(value, bool) or value is None else str(value).replace(" ", "_")


class StudiesFile(Strict):
    """The whole of `ablations.yaml`."""

    studies: dict[StudyName, StudyConfig] = Field(min_length=1)


def load_studies(root: Path) -> dict[str, StudyConfig]:
    """Read and check `ablations.yaml`. Raises ConfigError with each fault's place, value and rule."""
    content = read_yaml(root / STUDIES_FILE, "studies are written there, see docs/studies.md")
    return dict(validated(StudiesFile, content, STUDIES_FILE, mend=f"mend it in {STUDIES_FILE}").studies)


def study_named(root: Path, name: str) -> StudyConfig:
    studies = load_studies(root)
    if name not in studies:
        raise UsageError(f"there is no study {name!r} in {STUDIES_FILE}; there are: {', '.join(studies)}")
    return studies[name]
