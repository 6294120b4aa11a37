"""The measuring rule: one run, one thread, warm-ups, interleaved rounds; a ratio with its spread, accuracy beside it.

A contest has a yardstick, which is ours, and peers. Each round times every contestant once, so a slow moment of the
machine falls into all ratios of that round alike; who comes first rotates. A contest in which one side gives a wrong
answer is not timed at all: a fast wrong answer is no result.
"""

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from components.errors import ParityError

WARM_UPS = 3
# A single call shorter than this is repeated until a reading is at least so long, well above the clock's grain.
SHORTEST_READING = 2e-3


@dataclass(frozen=True)
class Contestant:
    """`step` is what is timed. `accuracy` holds one text for each of the contest's measures.

    `fault` says why the answer cannot be trusted; empty when it can.
    """

    name: str
    step: Callable[[], object]
    accuracy: Mapping[str, str]
    fault: str = ""


@dataclass(frozen=True)
class Contest:
    """Contestants on the same input, the yardstick first; `measures` are the names of the accuracy columns."""

    title: str
    measures: tuple[str, ...]
    contestants: tuple[Contestant, ...]

    @property
    def yardstick(self) -> Contestant:
        return self.contestants[0]


@dataclass(frozen=True)
class Timing:
    """Seconds of one call in each round, and their ratios to the yardstick's of the same round."""

    seconds: tuple[float, ...]
    ratios: tuple[float, ...]

    @property
    def quartiles(self) -> tuple[float, float, float]:
        low, middle, high = statistics.quantiles(self.ratios, n=4)
        return low, middle, high


def require_parity(contest: Contest) -> None:
    """Raise ParityError, which names everyone at fault and why, unless every answer can be trusted."""
    faults = tuple(f"{one.name}: {one.fault}" for one in contest.contestants if one.fault)
    if faults:
        raise ParityError(
            f"{contest.title} is not reported, since {faults[0]}; a time is of use for a right answer alone", faults
        )


def measure(contest: Contest, rounds: int, clock: Callable[[], float] = time.perf_counter) -> dict[str, Timing]:
    """Time every contestant in `rounds` interleaved rounds. Raises ParityError, ValueError for fewer than 2 rounds."""
    if rounds < 2:
        raise ValueError(f"{rounds} rounds show no spread; give 2 or more")
    require_parity(contest)
    repeats = {one.name: _warm_up(one.step, clock) for one in contest.contestants}
    seconds: dict[str, list[float]] = {one.name: [] for one in contest.contestants}
    collecting = gc.isenabled()
    try:
        for position in range(rounds):
            gc.collect()
            gc.disable()
            for one in _rotated(contest.contestants, position):
                seconds[one.name].append(_reading(one.step, repeats[one.name], clock))
            gc.enable()
    finally:
        (gc.enable if collecting else gc.disable)()
    base = seconds[contest.yardstick.name]
    return {
        name: Timing(tuple(times), tuple(mine / ours for mine, ours in zip(times, base, strict=True)))
        for name, times in seconds.items()
    }


def table(contest: Contest, timings: Mapping[str, Timing]) -> list[str]:
    """The contest as lines of a Markdown table."""
    lines = [
        f"| | time / {contest.yardstick.name} | quartiles | ms | {' | '.join(contest.measures)} |",
        "|---" * (4 + len(contest.measures)) + "|",
    ]
    for one in contest.contestants:
        timing = timings[one.name]
        low, middle, high = timing.quartiles
        cells = [
            one.name,
            f"{middle:.2f}",
            f"{low:.2f} to {high:.2f}",
            f"{1000 * statistics.median(timing.seconds):.3g}",
            *(one.accuracy.get(name, "-") for name in contest.measures),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _rotated(contestants: Sequence[Contestant], by: int) -> list[Contestant]:
    start = by % len(contestants)
    return [*contestants[start:], *contestants[:start]]


def _warm_up(step: Callable[[], object], clock: Callable[[], float]) -> int:
    """Call `step` until it is warm; returns how many calls one reading takes."""
    fastest = min(_reading(step, 1, clock) for _ in range(WARM_UPS))
    return max(1, round(SHORTEST_READING / max(fastest, 1e-7)))


def _reading(step: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(repeats):
        step()
    return (clock() - start) / repeats
