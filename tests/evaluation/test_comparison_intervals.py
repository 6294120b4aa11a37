"""Intervals: scipy's own figures, what shifts and scales do to them, where there is none, and how often they hold."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from components.evaluation.comparison import intervals
from components.evaluation.comparison.intervals import Interval, bootstrap_interval, expanded_confidence, t_interval

# name, n, coverage in per cent of t, of the bootstrap, of plain percentiles: what the module says of itself
DOCUMENTED = [
    (name, int(count), *map(float, figures))
    for name, count, *figures in re.findall(
        r"^ +(normal|lognormal) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+)$", intervals.__doc__ or "", re.MULTILINE
    )
]
REPETITIONS = 2000
SAMPLES = st.lists(st.floats(-100, 100, width=32), min_size=5, max_size=12).filter(lambda v: max(v) - min(v) > 0.01)


def ends(interval: Interval | None) -> tuple[float, float]:
    assert interval is not None
    return interval.low, interval.high


@pytest.mark.parametrize("count", [2, 3, 5, 30])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_t_is_scipys(count: int, confidence: float) -> None:
    values = np.random.default_rng(count).normal(0.7, 0.01, size=count)
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(confidence)
    np.testing.assert_allclose(ends(t_interval(values, confidence)), (expected.low, expected.high), rtol=1e-12)


@pytest.mark.parametrize("count", [5, 8, 30])
def test_bootstrap_is_scipys_at_the_expanded_percentiles(count: int) -> None:
    values = np.sort(np.random.default_rng(count).lognormal(size=count))
    # Hesterberg's condition: the normal quantile, shrunk as the bootstrap shrinks, is Student's
    tail = stats.norm.cdf(stats.t.ppf(0.025, count - 1) / math.sqrt((count - 1) / count))
    expected = stats.bootstrap(
        (values,),
        np.mean,
        confidence_level=1 - 2 * tail,
        n_resamples=2500,
        batch=1000,
        method="percentile",
        rng=np.random.default_rng(7),
    ).confidence_interval
    np.testing.assert_allclose(ends(bootstrap_interval(values, 0.95, 2500, 7)), (expected.low, expected.high))


def test_expansion_fades_with_the_number_of_values() -> None:
    confidences = [expanded_confidence(0.95, count) for count in (2, 5, 10, 30, 1000)]
    assert confidences == sorted(confidences, reverse=True)
    # values of Hesterberg's table of adjusted tails for 2.5 %: 0.1 % at 5, 0.9 % at 10, 1.8 % at 30 (rounded)
    assert [round(50 * (1 - confidence), 1) for confidence in confidences[1:4]] == [0.1, 0.9, 1.9]
    assert confidences[-1] == pytest.approx(0.95, abs=1e-3)


@given(SAMPLES, st.permutations(range(5)), st.floats(-50, 50), st.floats(0.01, 50))
@settings(max_examples=40, deadline=None)
def test_order_does_not_matter_and_intervals_move_and_grow_with_the_values(
    values: list[float], order: list[int], shift: float, scale: float
) -> None:
    shuffled = [values[position] for position in order] + values[5:]
    moved = [shift + scale * value for value in values]
    for made in (lambda v: t_interval(v, 0.95), lambda v: bootstrap_interval(v, 0.95, 199, 3)):
        low, high = ends(made(values))
        assert low < np.mean(values) < high
        assert ends(made(shuffled)) == pytest.approx((low, high), rel=1e-9, abs=1e-9)
        assert ends(made(moved)) == pytest.approx((shift + scale * low, shift + scale * high), rel=1e-6, abs=1e-6)
    low, high = ends(t_interval(values, 0.95))
    assert ends(t_interval([-value for value in values], 0.95)) == pytest.approx((-high, -low), rel=1e-9, abs=1e-9)


def test_a_seed_gives_one_bootstrap_and_another_seed_another() -> None:
    values = np.random.default_rng(0).normal(size=9)
    assert bootstrap_interval(values, 0.95, 999, 1) == bootstrap_interval(values, 0.95, 999, 1)
    assert bootstrap_interval(values, 0.95, 999, 1) != bootstrap_interval(values, 0.95, 999, 2)


def test_where_there_is_no_interval() -> None:
    assert t_interval([0.7], 0.95) is None
    assert [bootstrap_interval(range(count), 0.95, 99, 0) is None for count in (1, 2, 3, 4, 5)] == [True] * 4 + [False]


@pytest.mark.parametrize("value", [0.1, -3.0, 0.0])
def test_no_spread_gives_no_width(value: float) -> None:
    assert t_interval([value] * 7, 0.95) == Interval(value, value)
    assert ends(bootstrap_interval([value] * 7, 0.95, 99, 0)) == pytest.approx((value, value))


def test_rounding_is_no_spread() -> None:
    # the same in decimals, but not in binary
    low, high = ends(t_interval([0.1 + 0.2, 0.3, 0.3], 0.95))
    assert high - low < 1e-15


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]], [1.0, float("nan")], [1.0, float("inf")], 3.0])
def test_values_that_are_no_sample_are_refused(values: object) -> None:
    for made in (lambda v: t_interval(v, 0.95), lambda v: bootstrap_interval(v, 0.95, 99, 0)):
        with pytest.raises(ValueError, match="allowed are one or more finite numbers"):
            made(values)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0, float("nan")])
def test_confidence_that_is_none_is_refused(confidence: float) -> None:
    with pytest.raises(ValueError, match="allowed is a number between 0 and 1"):
        t_interval([1.0, 2.0], confidence)
    with pytest.raises(ValueError, match="allowed is a number between 0 and 1"):
        bootstrap_interval(range(9), confidence, 99, 0)


def test_no_resamples_are_refused() -> None:
    with pytest.raises(ValueError, match="resamples is 0"):
        bootstrap_interval(range(9), 0.95, 0, 0)


@pytest.mark.parametrize(
    ("numbers", "count", "of_t", "of_bootstrap", "of_plain"),
    [row for row in DOCUMENTED if row[:2] != ("lognormal", 10)],
)
def test_intervals_hold_as_often_as_documented(
    numbers: str, count: int, of_t: float, of_bootstrap: float, of_plain: float
) -> None:
    draws = np.random.default_rng(5)
    shape = (REPETITIONS, count)
    samples = draws.normal(size=shape) if numbers == "normal" else draws.lognormal(size=shape)
    mean = 0.0 if numbers == "normal" else math.exp(0.5)

    def held(made: list[Interval | None]) -> float:
        return 100 * float(np.mean([low <= mean <= high for low, high in map(ends, made)]))

    t = held([t_interval(sample, 0.95) for sample in samples])
    # one sample's resamples say nothing about another's, so all may have one seed
    bootstrap = held([bootstrap_interval(sample, 0.95, 999, 0) for sample in samples])
    # four standard errors: of the share here, and of the figure, from five times as many samples
    for measured, documented in ((t, of_t), (bootstrap, of_bootstrap)):
        error = math.sqrt(documented * (100 - documented) / REPETITIONS * (1 + 1 / 5))
        assert abs(measured - documented) < 4 * error
    if numbers == "normal":
        assert abs(t - 95) < 2
        assert abs(bootstrap - 95) < (3 if count >= 10 else 5)
    # expanding is worth it, by more than chance
    assert bootstrap > of_plain + (1.0 if count < 30 else 0.0)


def test_the_documentation_has_a_table() -> None:
    assert {(name, count) for name, count, *_ in DOCUMENTED} >= {
        ("normal", 5),
        ("normal", 10),
        ("normal", 30),
        ("lognormal", 30),
    }
