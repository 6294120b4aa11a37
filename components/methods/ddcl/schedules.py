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
class _Annealed:
    """From `start` to `end` over `steps` steps, and `end` ever after; `between` says how, by a share from 0 to 1.

    Warming, with an end above the start, is allowed: the Lyapunov function then need not fall.

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
        # both ends exactly: what a formula gives there may be a rounding off
        if _checked_step(step) >= self.steps:
            return float(self.end)
        if step == 0:
            return float(self.start)
        return self.between(step / self.steps)

    def between(self, share: float) -> float:
        raise NotImplementedError(f"{type(self).__name__} has no law")


@dataclass(frozen=True)
class ExponentialTemperature(_Annealed):
    """By a constant factor per step: tau(s) = start (end/start)^(s/steps); see `_Annealed` for arguments and errors.

    The base method (arXiv 2604.01740) cools from 2 to 0.5; the law in between is our choice.
    """

    def between(self, share: float) -> float:
        return float(math.pow(self.start, 1 - share) * math.pow(self.end, share))


@dataclass(frozen=True)
class LinearTemperature(_Annealed):
    """By a constant amount per step: tau(s) = start + (end - start) s/steps; see `_Annealed`."""

    def between(self, share: float) -> float:
        return float(self.start * (1 - share) + self.end * share)


@dataclass(frozen=True)
class CosineTemperature(_Annealed):
    """Along half a cosine: tau(s) = end + (start - end) (1 + cos(pi s/steps))/2; see `_Annealed`."""

    def between(self, share: float) -> float:
        weight = (1 + math.cos(math.pi * share)) / 2
        return float(self.start * weight + self.end * (1 - weight))


SCHEDULES: Mapping[str, Callable[..., TemperatureSchedule]] = {
    "constant": ConstantTemperature,
    "exponential": ExponentialTemperature,
    "linear": LinearTemperature,
    "cosine": CosineTemperature,
}


def temperature_schedule(name: str, **settings: Any) -> TemperatureSchedule:
    """The schedule `name` of SCHEDULES with its settings: constant(temperature); the others (start, end, steps).

    Raises ValueError for an unknown name, or settings that the schedule does not take.
    """
    if name not in SCHEDULES:
        raise ValueError(f"temperature schedule is {name!r}; choose one of {', '.join(sorted(SCHEDULES))}")
    try:
        return SCHEDULES[name](**settings)
    except TypeError as error:
        given = ", ".join(sorted(settings)) or "nothing"
        raise ValueError(f"temperature schedule {name!r} was given {given}: {error}") from error
