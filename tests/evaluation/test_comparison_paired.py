"""Paired comparisons: the figures of scipy and statsmodels, invariance, degenerate samples, error rates and power."""

import gc
import json
import math
from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from components.evaluation.comparison.intervals import bootstrap_interval
from components.evaluation.comparison.paired import (
    Comparison,
    Goal,
    PairedDifference,
    compare,
    hedges_factor,
    holm,
    smallest_effect_shown,
)
from components.files import canonical_json

Values = dict[str, dict[int, float]]


@pytest.fixture(autouse=True)
def _few_objects_to_collect() -> Iterator[None]:
    """statsmodels collects garbage at every correction, which is slow in a process with as many objects as a test's."""
    gc.freeze()
    yield
    gc.unfreeze()


def study(seeds: int, shifts: Mapping[str, float], noise: float = 0.01, draw: int = 0) -> Values:
    """Arms of mean 0.7 + shift, with noise that the arms of a seed share and noise of their own."""
    draws = np.random.default_rng([seeds, draw])
    shared = draws.normal(0, 2 * noise, size=seeds)
    own = draws.normal(0, noise, size=(len(shifts), seeds))
    return {
        name: {seed + 1: float(0.7 + shift + shared[seed] + own[row, seed]) for seed in range(seeds)}
        for row, (name, shift) in enumerate(shifts.items())
    }


def made(values: Mapping[str, Mapping[int, float]], goal: Goal = "maximise", **options: object) -> Comparison:
    return compare(values, reference="base", goal=goal, **({"resamples": 199} | options))  # type: ignore[arg-type]


def column(values: Values, arm: str) -> np.ndarray:
    return np.array([values[arm][seed] for seed in sorted(values[arm])])


@pytest.mark.parametrize("seeds", [2, 3, 5, 30])
def test_figures_are_those_of_scipy_and_statsmodels(seeds: int) -> None:
    values = study(seeds, {"base": 0.0, "up": 0.012, "down": -0.02, "level": 0.001})
    comparison = made(values, resamples=9999, seed=3)
    tests = {arm: stats.ttest_rel(column(values, arm), column(values, "base")) for arm in ("up", "down", "level")}
    _, corrected, _, _ = multipletests([test.pvalue for test in tests.values()], method="holm")
    for (arm, test), p_holm, difference in zip(tests.items(), corrected, comparison.differences, strict=True):
        differences = column(values, arm) - column(values, "base")
        assert difference.arm == arm
        assert difference.n == seeds
        assert difference.mean == pytest.approx(differences.mean())
        assert difference.sd == pytest.approx(differences.std(ddof=1))
        assert difference.p == pytest.approx(test.pvalue)
        assert difference.p_holm == pytest.approx(p_holm)
        interval = test.confidence_interval(0.95)
        assert difference.t_interval is not None
        assert difference.t_interval.to_json() == pytest.approx([interval.low, interval.high])
        assert difference.bootstrap_interval == bootstrap_interval(differences, 0.95, 9999, 3)
        # every choice of signs, one by one
        if seeds <= 5:
            signs = np.array(np.meshgrid(*[[-1, 1]] * seeds)).reshape(seeds, -1)
            flipped = np.abs(differences @ signs)
            share = np.mean(flipped >= abs(differences.sum()) * (1 - 1e-12))
            assert difference.p_sign_flip == pytest.approx(share)
    for arm in comparison.arms:
        assert arm.mean == pytest.approx(column(values, arm.name).mean())
        assert arm.sd == pytest.approx(column(values, arm.name).std(ddof=1))
        assert (arm.bootstrap_interval is None) == (seeds < 5)


def test_pairing_takes_out_what_seeds_share() -> None:
    values = study(10, {"base": 0.0, "up": 0.002}, noise=0.001)
    shared = {seed: 0.2 * seed for seed in range(1, 11)}
    values = {arm: {seed: value + shared[seed] for seed, value in of_arm.items()} for arm, of_arm in values.items()}
    (up,) = made(values).differences
    unpaired = stats.ttest_ind(column(values, "up"), column(values, "base")).pvalue
    assert up.verdict == "better"
    assert up.p is not None
    assert up.p < 0.01 < 0.9 < unpaired


@pytest.mark.parametrize("seeds", [2, 3, 5, 12, 30])
def test_effect_is_unbiased(seeds: int) -> None:
    factor = hedges_factor(seeds - 1)
    if seeds == 2:
        assert factor is None
        assert made(study(2, {"base": 0.0, "up": 0.01})).differences[0].effect is None
        return
    assert factor is not None
    # the usual approximation to the exact factor
    assert factor == pytest.approx(1 - 3 / (4 * (seeds - 1) - 1), rel=0.03)
    samples = np.random.default_rng(seeds).normal(0.8, 1.0, size=(200_000, seeds))
    effects = factor * samples.mean(axis=1) / samples.std(axis=1, ddof=1)
    # five standard errors, or that of a heavy tail
    assert effects.mean() == pytest.approx(0.8, abs=5 * effects.std() / math.sqrt(len(effects)))
    (up,) = made({"base": dict.fromkeys(range(seeds), 0.0), "up": dict(enumerate(samples[0].tolist()))}).differences
    assert up.effect == pytest.approx(effects[0])


@given(st.permutations(range(1, 7)), st.permutations(["base", "up", "down"]), st.floats(-9, 9), st.floats(0.01, 90))
@settings(max_examples=12, deadline=None)
def test_order_shift_and_scale(seeds: list[int], arms: list[str], shift: float, scale: float) -> None:
    values = study(6, {"base": 0.0, "up": 0.02, "down": -0.01})
    first = made(values)
    again = made({arm: {seed: values[arm][seed] for seed in seeds} for arm in arms})
    assert {arm.name: arm for arm in again.arms} == {arm.name: arm for arm in first.arms}
    assert {one.arm: one for one in again.differences} == {one.arm: one for one in first.differences}
    # renaming seeds renames pairs
    renamed = made({arm: {seeds[seed - 1]: value for seed, value in of.items()} for arm, of in values.items()})
    moved = made({arm: {seed: shift + scale * value for seed, value in of.items()} for arm, of in values.items()})
    for old, other, new in zip(first.differences, renamed.differences, moved.differences, strict=True):
        assert other.p == pytest.approx(old.p)
        assert other.bootstrap_interval == old.bootstrap_interval
        assert new.verdict == other.verdict == old.verdict
        assert new.mean == pytest.approx(scale * old.mean, rel=1e-6)
        assert new.p_holm == pytest.approx(old.p_holm, rel=1e-6)
        assert new.effect == pytest.approx(old.effect, rel=1e-6)
        assert old.smallest_shown is not None
        assert new.smallest_shown == pytest.approx(scale * old.smallest_shown, rel=1e-6)


def test_signs() -> None:
    values = study(6, {"base": 0.0, "up": 0.05, "down": -0.05, "level": 0.0})
    mirrored = {arm: {seed: -value for seed, value in of.items()} for arm, of in values.items()}
    first, mirror, lower = made(values), made(mirrored), made(values, goal="minimise")
    assert [one.verdict for one in first.differences] == ["better", "worse", "inconclusive"]
    assert [one.verdict for one in mirror.differences] == ["worse", "better", "inconclusive"]
    assert [one.verdict for one in lower.differences] == ["worse", "better", "inconclusive"]
    for one, other in zip(first.differences, mirror.differences, strict=True):
        assert (other.mean, other.p, other.p_sign_flip) == pytest.approx((-one.mean, one.p, one.p_sign_flip))
        assert one.effect is not None
        assert other.effect == pytest.approx(-one.effect)
    # the goal changes words, no numbers
    assert [one.p_holm for one in lower.differences] == [one.p_holm for one in first.differences]


def test_a_verdict_needs_the_corrected_p() -> None:
    shifts = {"base": 0.0} | {f"arm{number}": 0.0 for number in range(30)}
    values = study(5, shifts)
    # an arm that is significant alone, among thirty that are asked about
    alone = next(
        arm
        for draw in range(100)
        for arm in made(study(5, {"base": 0.0, "up": 0.02}, draw=draw)).differences
        if arm.p is not None and 0.01 < arm.p < 0.04
    )
    assert alone.verdict == "better"
    values["up"] = {seed: values["base"][seed] + difference for seed, difference in alone.differences.items()}
    crowded = next(one for one in made(values).differences if one.arm == "up")
    assert crowded.p == pytest.approx(alone.p)
    assert crowded.verdict == "inconclusive"
    assert crowded.p_holm is not None
    assert crowded.p_holm > 0.05
    # and what could be shown is more, by exactly what the correction asks
    assert crowded.smallest_shown is not None
    assert alone.smallest_shown is not None
    assert crowded.smallest_shown > 1.5 * alone.smallest_shown


def only(values: Mapping[str, Mapping[int, float]]) -> PairedDifference:
    (difference,) = made(values).differences
    return difference


def test_one_seed_allows_no_test() -> None:
    difference = only({"base": {4: 0.5}, "up": {4: 0.75}})
    assert (difference.mean, difference.n, difference.verdict) == (0.25, 1, "one seed")
    nothing = (difference.sd, difference.t_interval, difference.p, difference.p_holm, difference.p_sign_flip)
    assert nothing == (None,) * 5
    assert (difference.effect, difference.smallest_shown, difference.bootstrap_interval) == (None,) * 3


def test_equal_is_equal_to_the_last_bit() -> None:
    values = study(5, {"base": 0.0})
    difference = only(values | {"same": dict(values["base"])})
    assert (difference.verdict, difference.p, difference.effect, difference.smallest_shown) == ("equal", *(None,) * 3)
    assert difference.notes
    nearly = dict(values["base"]) | {3: math.nextafter(values["base"][3], 1.0)}
    assert only(values | {"nearly": nearly}).verdict == "inconclusive"


def test_a_constant_difference_allows_no_test_even_if_it_is_constant_but_for_rounding() -> None:
    values = {"base": {seed: seed / 10 for seed in range(1, 9)}}
    shifted = {seed: value + 0.1 for seed, value in values["base"].items()}
    differences = [shifted[seed] - values["base"][seed] for seed in shifted]
    # the trap: a t test of what rounding has left is as sure as can be
    assert np.ptp(differences) > 0
    difference = only(values | {"shifted": shifted})
    assert (difference.verdict, difference.p, difference.sd, difference.effect) == ("inconclusive", None, 0.0, None)
    assert difference.mean == pytest.approx(0.1)
    assert any("same for all 8 seeds" in note for note in difference.notes)


def test_an_arm_without_spread_says_so_and_is_compared() -> None:
    values = study(5, {"base": 0.0}) | {"constant": dict.fromkeys(range(1, 6), 0.9)}
    comparison = made(values)
    assert "all 5 seeds give the same value" in comparison.arm("constant").notes
    assert comparison.differences[0].verdict == "better"


def test_arms_without_p_count_in_the_correction() -> None:
    values = study(5, {"base": 0.0, "up": 0.015})
    alone = only(values)
    beside = made(values | {"same": dict(values["base"]), "other": dict(values["base"])}).differences[0]
    assert alone.p_holm == alone.p
    assert alone.p is not None
    assert beside.p_holm == pytest.approx(3 * alone.p)


def test_missing_seeds_are_refused_or_left_out_aloud() -> None:
    values = study(6, {"base": 0.0, "up": 0.01})
    del values["up"][2], values["base"][5]
    with pytest.raises(ValueError, match=r"up has no value for seed 2; base has no value for seed 5\. Run them"):
        made(values)
    (difference,) = made(values, common_seeds=True).differences
    assert list(difference.differences) == [1, 3, 4, 6]
    assert len(difference.notes) == 2
    with pytest.raises(ValueError, match="seeds 1, 2"):
        made({"base": {1: 0.1, 2: 0.2}, "up": {3: 0.1}}, common_seeds=True)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_finite_are_refused(bad: float) -> None:
    values = study(3, {"base": 0.0, "up": 0.0})
    values["up"][2] = bad
    with pytest.raises(ValueError, match=r"up has the value \S+ for seed 2"):
        made(values)


def test_what_else_is_refused() -> None:
    with pytest.raises(ValueError, match="the reference 'base' is not among the arms; there are up"):
        made({"up": {1: 0.5}})
    with pytest.raises(ValueError, match="up has no value for any seed"):
        made({"base": {1: 0.5}, "up": {}})
    with pytest.raises(ValueError, match="goal is 'maximize'"):
        made({"base": {1: 0.5}}, goal="maximize")  # type: ignore[arg-type]


def test_the_reference_alone_is_a_summary() -> None:
    comparison = made({"base": {1: 0.5, 2: 0.6}})
    assert [arm.name for arm in comparison.arms] == ["base"]
    assert comparison.differences == ()


def test_json_is_plain_and_the_same_twice() -> None:
    values = study(20, {"base": 0.0, "up": 0.01}) | {"same": study(20, {"base": 0.0, "up": 0.01})["base"]}
    text = canonical_json(made(values).to_json())
    assert canonical_json(made(values).to_json()) == text
    read = json.loads(text)
    assert read["arms"][1]["values"]["7"] == values["up"][7]
    assert read["differences"][0]["n"] == 20
    assert len(read["differences"][0]["bootstrap_interval"]) == 2
    assert read["differences"][1]["verdict"] == "equal"


@pytest.mark.parametrize("seeds", [5, 10])
def test_holm_keeps_the_familywise_error(seeds: int) -> None:
    studies, arms = 4000, 4
    draws = np.random.default_rng(seeds)
    # the arms of a study share their reference, as they do in use
    reference = draws.normal(size=(studies, 1, seeds))
    probabilities = stats.ttest_rel(draws.normal(size=(studies, arms, seeds)), reference, axis=2).pvalue
    # a corrected p is not below p, so the other studies show nothing
    wrong = sum(any(holm(list(p), 0.05)[1]) for p in probabilities if p.min() <= 0.05) / studies
    uncorrected = np.mean((probabilities <= 0.05).any(axis=1))
    assert wrong <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / studies)
    # not by refusing everything, and not without need
    assert wrong > 0.02
    assert uncorrected > 0.1


def test_holm_at_its_edges() -> None:
    assert holm([], 0.05) == ([], [])
    # 1 - 0.95 is a little above 0.05
    assert holm([0.05], 1 - 0.95) == ([0.05], [True])
    assert holm([None, 0.02, 0.9], 0.05) == ([None, pytest.approx(0.06), 1.0], [False, False, False])


@pytest.mark.parametrize(("seeds", "comparisons"), [(5, 1), (10, 1), (10, 40), (30, 3), (200, 1)])
def test_smallest_effect_is_that_of_statsmodels(seeds: int, comparisons: int) -> None:
    expected = TTestPower().solve_power(nobs=seeds, alpha=0.05 / comparisons, power=0.8, alternative="two-sided")
    assert smallest_effect_shown(seeds, comparisons, 0.95) == pytest.approx(float(np.squeeze(expected)), rel=1e-4)


@pytest.mark.parametrize(("seeds", "comparisons"), [(2, 1), (2, 3), (2, 40), (3, 3), (3, 40), (5, 3), (5, 40), (30, 8)])
def test_at_the_smallest_effect_the_power_is_as_said(seeds: int, comparisons: int) -> None:
    effect = smallest_effect_shown(seeds, comparisons, 0.95)
    assert effect is not None
    draws = np.random.default_rng([seeds, comparisons]).normal(effect, 1.0, size=(20_000, seeds))
    shown = np.mean(stats.ttest_1samp(draws, 0.0, axis=1).pvalue <= 0.05 / comparisons)
    # four standard errors
    assert shown == pytest.approx(0.8, abs=0.012)


def test_smallest_difference_is_in_the_unit_of_the_metric() -> None:
    assert smallest_effect_shown(1, 3, 0.95) is None
    difference = only(study(7, {"base": 0.0, "up": 0.0}))
    effect = smallest_effect_shown(7, 1, 0.95)
    assert effect is not None
    assert difference.sd is not None
    assert difference.smallest_shown == pytest.approx(effect * difference.sd)
