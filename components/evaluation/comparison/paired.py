"""Arms of a study compared with a reference, paired by seed: differences, effect sizes, corrected tests, and a verdict.

A seed fixes the order of the data and the start of the training, so that two runs of one seed share what luck they
have. The difference within a seed is therefore the unit, and seeds are the sample. Nothing here knows where the numbers
come from.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np

from components.evaluation.comparison.intervals import (
    Interval,
    Numbers,
    bootstrap_interval,
    is_constant,
    t_interval,
)

Goal = Literal["maximise", "minimise"]
Verdict = Literal["better", "worse", "inconclusive", "equal", "one seed"]

# The chance with which a comparison should find the difference that it says it could have shown.
POWER = 0.8
# All 2^n sign flips up to here; beyond, as many random ones.
MOST_SEEDS_EXACT = 13


@dataclass(frozen=True)
class ArmSummary:
    """One arm by itself, over all its seeds.

    values: seed -> value, by seed. sd: with n - 1, None for one seed. t_interval, bootstrap_interval: of the mean;
    None where too few seeds allow none. notes: what a reader must know beside the numbers.
    """

    name: str
    values: dict[int, float]
    mean: float
    sd: float | None
    t_interval: Interval | None
    bootstrap_interval: Interval | None
    notes: tuple[str, ...]

    @property
    def n(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class PairedDifference:
    """One arm minus the reference, over the seeds of both.

    differences: seed -> value of the arm minus value of the reference. mean, sd, intervals: of the differences.
    effect: Cohen's d_z, mean / sd, with Hedges' correction; None below three seeds.
    p, p_holm: two-sided paired t test, and the same corrected over all arms of the comparison.
    p_sign_flip: two-sided, from flipping signs of differences, not corrected. It assumes symmetry and no shape, and
        stands beside p to show what p owes to the normal distribution. It is at least 2^(1 - n): 0.0625 for 5 seeds.
    smallest_shown: the true mean difference that these seeds would have shown, corrected, in 80 % of studies, if the
        spread of differences is the one seen.
    """

    arm: str
    reference: str
    differences: dict[int, float]
    mean: float
    sd: float | None
    t_interval: Interval | None
    bootstrap_interval: Interval | None
    effect: float | None
    p: float | None
    p_holm: float | None
    p_sign_flip: float | None
    smallest_shown: float | None
    verdict: Verdict
    notes: tuple[str, ...]

    @property
    def n(self) -> int:
        return len(self.differences)


@dataclass(frozen=True)
class Comparison:
    """All arms, the reference first and the others in the order given, and the differences of the others from it."""

    reference: str
    goal: Goal
    confidence: float
    resamples: int
    seed: int
    arms: tuple[ArmSummary, ...]
    differences: tuple[PairedDifference, ...]

    def arm(self, name: str) -> ArmSummary:
        return next(arm for arm in self.arms if arm.name == name)

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers, for `files.canonical_json`; intervals are [low, high]."""
        return {
            "reference": self.reference,
            "goal": self.goal,
            "confidence": self.confidence,
            "resamples": self.resamples,
            "seed": self.seed,
            "power": POWER,
            "arms": [_plain(arm) for arm in self.arms],
            "differences": [_plain(difference) for difference in self.differences],
        }


def compare(
    values: Mapping[str, Mapping[int, float]],
    *,
    reference: str,
    goal: Goal,
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
    common_seeds: bool = False,
) -> Comparison:
    """Summarise every arm of `values` (arm -> seed -> value) and compare each with `reference`, paired by seed.

    The verdict on an arm is "better" or "worse" (by `goal`) where Holm's corrected p is at most 1 - `confidence`, else
    "inconclusive", which is not "equal": `smallest_shown` says how large a difference could have gone unseen. "equal"
    is kept for arms whose values are the reference's to the last bit, "one seed" for a single pair, which allows no
    test. Differences that are all the same and not zero allow no test either, and are inconclusive. Arms without a p
    count in Holm's correction as if theirs were 1: they were asked about as well.

    resamples, seed: of the bootstrap, and of the sign flips where n is above 13. common_seeds: pair on the seeds that
    an arm shares with the reference, and note which are left out, instead of refusing.

    Raises ValueError for an unknown reference or goal, values that are not finite (naming arm and seed), and arms
    whose seeds are not the reference's (naming the seeds).
    """
    _check(values, reference, goal)
    ordered = [reference, *(name for name in values if name != reference)]
    draws = _Draws(confidence, resamples, seed)
    pairs = [_pair(name, values[name], reference, values[reference], common_seeds) for name in ordered[1:]]
    probabilities = [_p(pair) for pair in pairs]
    corrected, shown = holm(probabilities, 1 - confidence)
    return Comparison(
        reference=reference,
        goal=goal,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        arms=tuple(_summary(name, values[name], draws) for name in ordered),
        differences=tuple(
            _difference(pair, p, p_holm, significant, goal, len(pairs), draws)
            for pair, p, p_holm, significant in zip(pairs, probabilities, corrected, shown, strict=True)
        ),
    )


def holm(probabilities: list[float | None], alpha: float) -> tuple[list[float | None], list[bool]]:
    """Holm's step-down correction of p values, and which are at most `alpha` then. None counts as 1 and stays None."""
    from statsmodels.stats.multitest import multipletests

    if not probabilities:
        return [], []
    filled = [1.0 if p is None else p for p in probabilities]
    # a confidence of 0.95 leaves 0.05 and some rounding
    rejected, corrected, _, _ = multipletests(filled, alpha=round(alpha, 12), method="holm")
    return (
        [None if p is None else float(value) for p, value in zip(probabilities, corrected, strict=True)],
        [bool(one) for one in rejected],
    )


def smallest_effect_shown(pairs: int, comparisons: int, confidence: float, power: float = POWER) -> float | None:
    """The true mean difference, in standard deviations of differences, that a study shows with probability `power`.

    For a two-sided paired t test over `pairs` seeds at the level (1 - `confidence`) / `comparisons`, which is what Holm
    asks of the smallest p. None for one pair.

    The square of t has a noncentral F distribution with noncentrality pairs * effect^2, and that is what is solved
    here. TTestPower.solve_power of statsmodels gives the same where it works, but for few seeds and many arms the
    noncentral t that it stands on overflows, and it then returns the last effect that it tried: 10 in place of 34.6
    for two seeds and three arms. scipy's direct inverse, ncfdtrinc, stops at a noncentrality of 10 000.
    """
    from scipy import optimize, stats

    if pairs < 2:
        return None
    critical = stats.t.isf((1 - confidence) / comparisons / 2, pairs - 1) ** 2

    def lacking(effect: float) -> float:
        return power - float(stats.ncf.sf(critical, 1, pairs - 1, pairs * effect**2))

    most = 1.0
    while lacking(most) > 0:
        most *= 2
    return float(optimize.brentq(lacking, 0.0, most))


def hedges_factor(degrees: int) -> float | None:
    """J(m) of L. Hedges, Journal of Educational Statistics 6(2), 1981: unbiases a standardised mean difference.

    Gamma(m / 2) / (sqrt(m / 2) Gamma((m - 1) / 2)) for m degrees of freedom. None for m = 1, where the expectation that
    it corrects does not exist.
    """
    from scipy import special

    if degrees < 2:
        return None
    # poch(z, 1/2) is Gamma(z + 1/2) / Gamma(z)
    return float(special.poch((degrees - 1) / 2, 0.5) / math.sqrt(degrees / 2))


@dataclass(frozen=True)
class _Draws:
    """What all intervals and resamplings of a comparison share."""

    confidence: float
    resamples: int
    seed: int

    def t(self, values: Numbers) -> Interval | None:
        return t_interval(values, self.confidence)

    def bootstrap(self, values: Numbers) -> Interval | None:
        return bootstrap_interval(values, self.confidence, self.resamples, self.seed)


@dataclass(frozen=True)
class _Pair:
    """One arm and the reference on their common seeds, by seed; (n,) each."""

    arm: str
    reference: str
    seeds: tuple[int, ...]
    ours: Numbers
    theirs: Numbers
    left_out: tuple[str, ...]

    @property
    def differences(self) -> Numbers:
        return self.ours - self.theirs

    @property
    def constant(self) -> bool:
        return is_constant(self.differences, max(np.abs(self.ours).max(), np.abs(self.theirs).max()))


def _pair(
    arm: str, ours: Mapping[int, float], reference: str, theirs: Mapping[int, float], common_seeds: bool
) -> _Pair:
    left_out = []
    for name, missing in ((arm, theirs.keys() - ours.keys()), (reference, ours.keys() - theirs.keys())):
        if missing:
            left_out.append(f"{name} has no value for {_seeds(missing)}")
    common = tuple(sorted(ours.keys() & theirs.keys()))
    if left_out and (not common_seeds or not common):
        mend = (
            "run them, or allow pairing on the common seeds" if common else "run both with the same seeds to pair them"
        )
        raise ValueError(f"{arm} cannot be paired with {reference}: {'; '.join(left_out)}. {mend.capitalize()}")
    return _Pair(
        arm,
        reference,
        common,
        np.array([ours[seed] for seed in common], dtype=np.float64),
        np.array([theirs[seed] for seed in common], dtype=np.float64),
        tuple(left_out),
    )


def _p(pair: _Pair) -> float | None:
    from scipy import stats

    if len(pair.seeds) < 2 or pair.constant:
        return None
    return float(stats.ttest_rel(pair.ours, pair.theirs).pvalue)


def _p_sign_flip(pair: _Pair, draws: _Draws) -> float | None:
    from scipy import stats

    if len(pair.seeds) < 2:
        return None
    result = stats.permutation_test(
        # sorted, so that a seed draws the same flips whatever the seeds are called
        (np.sort(pair.differences),),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf if len(pair.seeds) <= MOST_SEEDS_EXACT else draws.resamples,
        rng=np.random.default_rng(draws.seed),
    )
    return float(result.pvalue)


def _difference(
    pair: _Pair,
    p: float | None,
    p_holm: float | None,
    significant: bool,
    goal: Goal,
    comparisons: int,
    draws: _Draws,
) -> PairedDifference:
    differences = pair.differences
    n, mean = len(differences), float(differences.mean())
    notes = [f"left out: {text}" for text in pair.left_out]
    equal = not differences.any()
    if equal and n > 1:
        notes.append(f"the values are the reference's for all {n} seeds")
    elif pair.constant and n > 1:
        notes.append(
            f"the difference is the same for all {n} seeds, so its spread is not known and nothing can be tested"
        )
    # the spread of a constant is rounding, and what is divided by it is noise
    sd = None if n == 1 else 0.0 if pair.constant else float(differences.std(ddof=1))
    factor, smallest = hedges_factor(n - 1), smallest_effect_shown(n, comparisons, draws.confidence)
    verdict: Verdict = "inconclusive"
    if n == 1:
        verdict = "one seed"
    elif equal:
        verdict = "equal"
    elif significant:
        verdict = "better" if (mean > 0) == (goal == "maximise") else "worse"
    return PairedDifference(
        arm=pair.arm,
        reference=pair.reference,
        differences=dict(zip(pair.seeds, differences.tolist(), strict=True)),
        mean=mean,
        sd=sd,
        t_interval=draws.t(np.full(n, mean) if pair.constant else differences),
        bootstrap_interval=draws.bootstrap(differences),
        effect=mean / sd * factor if sd and factor else None,
        p=p,
        p_holm=p_holm,
        p_sign_flip=_p_sign_flip(pair, draws),
        smallest_shown=sd * smallest if sd and smallest else None,
        verdict=verdict,
        notes=tuple(notes),
    )


def _summary(name: str, values: Mapping[int, float], draws: _Draws) -> ArmSummary:
    by_seed = {int(seed): float(values[seed]) for seed in sorted(values)}
    sample = np.array(list(by_seed.values()))
    several = len(sample) > 1
    notes = (f"all {len(sample)} seeds give the same value",) if several and is_constant(sample) else ()
    return ArmSummary(
        name=name,
        values=by_seed,
        mean=float(sample.mean()),
        sd=float(sample.std(ddof=1)) if several else None,
        t_interval=draws.t(sample),
        bootstrap_interval=draws.bootstrap(sample),
        notes=notes,
    )


def _check(values: Mapping[str, Mapping[int, float]], reference: str, goal: str) -> None:
    if goal not in get_args(Goal):
        raise ValueError(f"goal is {goal!r}; allowed are {' and '.join(get_args(Goal))}")
    if reference not in values:
        raise ValueError(f"the reference {reference!r} is not among the arms; there are {', '.join(values) or 'none'}")
    for name, of_arm in values.items():
        if not of_arm:
            raise ValueError(f"{name} has no value for any seed; run it, or leave it out")
        for seed, value in of_arm.items():
            if not math.isfinite(value):
                raise ValueError(f"{name} has the value {value} for seed {seed}; only finite values can be compared")


def _seeds(seeds: set[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(str(seed) for seed in sorted(seeds))}"


def _plain(summary: ArmSummary | PairedDifference) -> dict[str, Any]:
    plain = asdict(summary)
    for key in ("values", "differences"):
        if key in plain:
            plain[key] = {str(seed): value for seed, value in plain[key].items()}
    for key in ("t_interval", "bootstrap_interval"):
        interval: Interval | None = getattr(summary, key)
        plain[key] = None if interval is None else interval.to_json()
    return plain | {"n": summary.n, "notes": list(summary.notes)}
