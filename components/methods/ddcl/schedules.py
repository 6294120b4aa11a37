"""Temperature schedules: pure functions of the step, so that a resumed run meets the same temperatures."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from components.methods.ddcl.numerics import Number, checked_count, checked_temperature


@runtime_checkable
class TemperatureSchedule(Protocol):
    """Maps a step, counted from 0, to the temperature of that step."""

    def __call__(self, step: int) -> float: ...


def _checked_step(step: int) -> int:
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise ValueError(f"step is {step!r}; it must be an integer of at least 0")
    return step


@dataclass(frozen=True)
class ConstantTemperature:
    """The same temperature at every step.

    Raises ValueError when it is not positive and finite, or for a negative step.
    """

    temperature: Number

    def __post_init__(self) -> None:
        checked_temperature(self.temperature)

    def __call__(self, step: int) -> float:
        _checked_step(step)
        return float(self.temperature)


@dataclass(frozen=True)
class ExponentialTemperature:
    """From `start` to `end` by a constant factor per step over `steps` steps, and `end` ever after.

    tau(s) = start (end/start)^(s/steps). The base method (arXiv 2604.01740) cools from 2 to 0.5; the law in between is
    our choice. Warming, with an end above the start, is allowed: the Lyapunov function then need not fall.

    Raises ValueError when a temperature is not positive and finite, when `steps` is below 1, or for a negative step.
    """

    start: Number
    end: Number
    steps: int

    def __post_init__(self) -> None:
        checked_temperature(self.start)
        checked_temperature(self.end)
        checked_count("steps", self.steps)

    def __call__(self, step: int) -> float:
        # both ends exactly: a power of a quotient would miss the last by a rounding.
        if _checked_step(step) >= self.steps:
            return float(self.end)
        share = step / self.steps
        return float(math.pow(self.start, 1 - share) * math.pow(self.end, share))


SCHEDULES: Mapping[str, Callable[..., TemperatureSchedule]] = {
    "constant": ConstantTemperature,
    "exponential": ExponentialTemperature,
}


def temperature_schedule(name: str, **settings: Any) -> TemperatureSchedule:
    """The schedule `name` of SCHEDULES with its settings: constant(temperature), exponential(start, end, steps).

    Raises ValueError for an unknown name, or settings that the schedule does not take.
    """
    if name not in SCHEDULES:
        raise ValueError(f"temperature schedule is {name!r}; choose one of {', '.join(sorted(SCHEDULES))}")
    try:
        return SCHEDULES[name](**settings)
    except TypeError as error:
        given = ", ".join(sorted(settings)) or "nothing"
        raise ValueError(f"temperature schedule {name!r} was given {given}: {error}") from error
