"""The model gate: finite, better than no model at all, and in good health.

It judges numbers that the caller measured, under the names below; a number that is absent is refused, never skipped.
Collapse is asked last, and its checks raise an error class of their own when they are the first to refuse.
"""

import math
from collections.abc import Callable, Mapping

from components.config import ModelGateConfig
from components.quality.core.report import COLLAPSE, Check, GateReport

WEIGHTS = "weights/values"
NONFINITE_WEIGHTS = "weights/nonfinite"
ACCURACY = "validation/accuracy"
MAJORITY_ACCURACY = "validation/majority_accuracy"
LOSS = "validation/quantisation_loss"
RECONSTRUCTION = "validation/reconstruction"
DIVERSITY = "validation/diversity"
UTILISATION = "prototypes/utilisation"
PERPLEXITY = "prototypes/perplexity"
SEPARATION = "prototypes/separation_min"
EXPLAINED = "validation/explained"
# of every model, and besides of one that is measured against the rival of the key
REQUIRED = (
    WEIGHTS,
    NONFINITE_WEIGHTS,
    LOSS,
    RECONSTRUCTION,
    DIVERSITY,
    UTILISATION,
    PERPLEXITY,
    SEPARATION,
)
REQUIRED_FOR: Mapping[str, tuple[str, ...]] = {
    "min_margin_over_majority": (ACCURACY, MAJORITY_ACCURACY),
    "min_explained": (EXPLAINED,),
}

_TRAIN_AGAIN = "train longer, with another learning rate, or look at the training curves"
_SPREAD = "lower the timescale_ratio or the final temperature, or use fewer prototypes"

Metrics = Mapping[str, float]


def gate_model(metrics: Metrics, options: ModelGateConfig, *, subject: str = "model") -> GateReport:
    """Report on `metrics`, a mapping with at least `required(options)`; every further value must be finite too."""
    present = _present(metrics, required(options))
    checks = [present]
    # what cannot be read must not be compared: NaN compares false both ways
    if present.passed:
        checks.append(_finite(metrics))
    if all(check.passed for check in checks):
        checks += [check(metrics, options) for check in CHECKS]
    return GateReport("model", subject, tuple(checks))


def required(options: ModelGateConfig) -> tuple[str, ...]:
    """The names without which nothing is judged."""
    rivals = (names for rival, names in REQUIRED_FOR.items() if getattr(options, rival) is not None)
    return (*REQUIRED, *(name for names in rivals for name in names))


def _present(metrics: Metrics, names: tuple[str, ...]) -> Check:
    absent = [name for name in names if name not in metrics]
    observed = f"no {', '.join(absent)}" if absent else f"{len(metrics)} metrics"
    mend = "run the training stage again; its record must hold these names" if absent else ""
    return Check("metrics/present", not absent, observed, f"a value for each of {', '.join(names)}", "", mend)


def _finite(metrics: Metrics) -> Check:
    wrong = {name: value for name, value in metrics.items() if not math.isfinite(value)}
    expected = "finite numbers only"
    if not wrong:
        return Check("metrics/finite", True, f"{len(metrics)} finite values", expected)
    observed = ", ".join(f"{name} {value}" for name, value in sorted(wrong.items()))
    return Check("metrics/finite", False, observed, expected, "", "lower the learning rate or clip the gradient")


def _weights_exist(metrics: Metrics, _: ModelGateConfig) -> Check:
    count = metrics[WEIGHTS]
    return _judged("weights/present", count >= 1, count, "at least 1 weight", "the weights' file is empty: train again")


def _weights_finite(metrics: Metrics, _: ModelGateConfig) -> Check:
    count = metrics[NONFINITE_WEIGHTS]
    return _judged(
        "weights/finite",
        count == 0,
        count,
        "0 weights that are not finite",
        "lower the learning rate or clip gradients",
    )


def _beats_rival(metrics: Metrics, options: ModelGateConfig) -> Check:
    if options.min_margin_over_majority is not None:
        return _beats_majority(metrics, options.min_margin_over_majority)
    # the configuration asks for one of the two
    return _explains(metrics, float(options.min_explained or 0.0))


def _beats_majority(metrics: Metrics, margin: float) -> Check:
    score, trivial = metrics[ACCURACY], metrics[MAJORITY_ACCURACY]
    expected = (
        f"at least {trivial + margin:.4f}: always answering the most frequent class, {trivial:.4f}, and {margin:g}"
    )
    # with a margin of zero an equal score would pass, and a model that learnt nothing has exactly that
    passed = score > trivial and score - trivial >= margin
    return _judged("learning/beats_majority", passed, score, expected, _TRAIN_AGAIN)


def _explains(metrics: Metrics, least: float) -> Check:
    explained = metrics[EXPLAINED]
    expected = f"at least {least:g} of the variance of the images; always answering the mean image explains nothing"
    return _judged("learning/explains", least <= explained <= 1, explained, expected, _TRAIN_AGAIN)


def _identity(metrics: Metrics, options: ModelGateConfig) -> Check:
    loss = metrics[LOSS]
    residual = abs(loss - metrics[RECONSTRUCTION] - metrics[DIVERSITY]) / max(1.0, abs(loss))
    expected = f"at most {options.max_identity_residual:g} for |loss - reconstruction - diversity| / max(1, |loss|)"
    mend = "the loss is not what it is said to be: check the layer against its float64 reference"
    return _judged("loss/identity", residual <= options.max_identity_residual, residual, expected, mend)


def _terms_signed(metrics: Metrics, _: ModelGateConfig) -> Check:
    least = min(metrics[RECONSTRUCTION], metrics[DIVERSITY])
    mend = "a mean of squares came out negative: check the layer against its float64 reference"
    return _judged("loss/terms", least >= 0.0, least, "reconstruction and diversity of at least 0", mend)


def _utilisation(metrics: Metrics, options: ModelGateConfig) -> Check:
    used = metrics[UTILISATION]
    expected = f"a share of used prototypes from {options.min_utilisation:g} to 1"
    return _judged(f"{COLLAPSE}utilisation", options.min_utilisation <= used <= 1, used, expected, _SPREAD)


def _perplexity(metrics: Metrics, options: ModelGateConfig) -> Check:
    perplexity = metrics[PERPLEXITY]
    expected = f"at least {options.min_perplexity:g} prototypes in effective use"
    return _judged(f"{COLLAPSE}perplexity", perplexity >= options.min_perplexity, perplexity, expected, _SPREAD)


def _separation(metrics: Metrics, options: ModelGateConfig) -> Check:
    separation = metrics[SEPARATION]
    expected = f"a least distance between two prototypes of {options.min_separation:g} or more"
    return _judged(f"{COLLAPSE}separation", separation >= options.min_separation, separation, expected, _SPREAD)


def _judged(name: str, passed: bool, observed: float, expected: str, mend: str) -> Check:
    return Check(name, passed, float(observed), expected, "", "" if passed else mend)


# A further question is a function and a line here.
CHECKS: tuple[Callable[[Metrics, ModelGateConfig], Check], ...] = (
    _weights_exist,
    _weights_finite,
    _beats_rival,
    _identity,
    _terms_signed,
    _utilisation,
    _perplexity,
    _separation,
)
