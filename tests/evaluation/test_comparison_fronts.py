"""Fronts: ties, twins, one arm, and the definition of dominance itself, arm by arm."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.evaluation.comparison.fronts import pareto_front

# few values, so that ties are frequent
POINTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=9)


@pytest.mark.parametrize(
    ("points", "front"),
    [
        ({"only": (0.5, 3.0)}, ("only",)),
        ({"good": (0.9, 5.0), "cheap": (0.7, 1.0), "bad": (0.6, 5.0)}, ("cheap", "good")),
        # the same metric: the cheaper; the same cost: the better
        ({"dear": (0.9, 5.0), "cheap": (0.9, 1.0)}, ("cheap",)),
        ({"worse": (0.8, 1.0), "better": (0.9, 1.0)}, ("better",)),
        # twins stand or fall together, in order of their names
        ({"b": (0.9, 1.0), "a": (0.9, 1.0)}, ("a", "b")),
        ({"b": (0.5, 2.0), "a": (0.5, 2.0), "c": (0.6, 1.0)}, ("c",)),
        # costs may be zero or below
        ({"free": (0.1, 0.0), "paid": (0.2, -1.0)}, ("paid",)),
    ],
)
def test_fronts_by_hand(points: dict[str, tuple[float, float]], front: tuple[str, ...]) -> None:
    assert pareto_front(points, "maximise") == front
    assert pareto_front({name: (-metric, cost) for name, (metric, cost) in points.items()}, "minimise") == front


@given(POINTS)
def test_a_front_is_what_nothing_dominates_and_dominates_the_rest(raw: list[tuple[int, int]]) -> None:
    points = {f"arm{position}": (float(metric), float(cost)) for position, (metric, cost) in enumerate(raw)}
    front = pareto_front(points, "maximise")
    assert front

    def beats(one: str, other: str) -> bool:
        (metric, cost), (theirs, price) = points[one], points[other]
        return (metric > theirs and cost <= price) or (metric >= theirs and cost < price)

    assert not any(beats(one, other) for one, other in itertools.product(points, front))
    assert all(any(beats(one, name) for one in front) for name in points.keys() - set(front))
    # along the front, what costs more is better
    costs, metrics = [points[name][1] for name in front], [points[name][0] for name in front]
    assert costs == sorted(costs)
    assert metrics == sorted(metrics)


@pytest.mark.parametrize("bad", [(float("nan"), 1.0), (0.5, float("inf")), (0.5, float("nan"))])
def test_numbers_that_cannot_be_compared_are_refused(bad: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="odd has metric"):
        pareto_front({"fine": (0.5, 1.0), "odd": bad}, "maximise")


def test_no_arms_are_refused() -> None:
    with pytest.raises(ValueError, match="points are empty"):
        pareto_front({}, "maximise")
