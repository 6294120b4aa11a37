"""Which arms are worth their cost: those that no other arm beats in metric and cost together."""

import math
from collections.abc import Mapping

from components.evaluation.comparison.paired import Goal


def pareto_front(points: Mapping[str, tuple[float, float]], goal: Goal) -> tuple[str, ...]:
    """The arms of `points` (arm -> (metric, cost)) that no other dominates, by rising cost, then by name.

    One arm dominates another if it is at least as good in the metric (by `goal`) and at most as costly, and better in
    one of both. Arms at the same point do not dominate each other, so all of them are on the front or none. The
    metrics are taken as they are: what lies between two arms on the front may be noise, which `paired.compare` judges.
    Raises ValueError for no arms, and for numbers that are not finite (naming the arm).
    """
    if not points:
        raise ValueError("points are empty; allowed are one or more arms with (metric, cost)")
    for name, (metric, cost) in points.items():
        if not math.isfinite(metric) or not math.isfinite(cost):
            raise ValueError(f"{name} has metric {metric} and cost {cost}; only finite numbers can be compared")
    sign = 1 if goal == "maximise" else -1

    def dominated(metric: float, cost: float) -> bool:
        return any(
            sign * other >= sign * metric and price <= cost and (other != metric or price != cost)
            for other, price in points.values()
        )

    front = [name for name, point in points.items() if not dominated(*point)]
    return tuple(sorted(front, key=lambda name: (points[name][1], name)))
