"""Drift: how far the prepared data are from the last accepted version, feature by feature.

The measure is the population stability index, the sum over bins of (p - q) ln(p / q), with p and q the shares in the
new and the accepted version. Two samples of one population are not at zero: the index is then about
(bins - 1) (1/n + 1/m), which for small samples is more than any threshold. That expectation is taken off before the
index is compared, so that a threshold means the same for a hundred rows and for a million.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from components.datasets.core.options import DriftOptions
from components.quality.core.expectations import Place, Requirement, Suite
from components.quality.core.profile import Observations, Profile, counts_in

# Added to every count, so that a bin that is empty on one side has a finite weight.
SMOOTHING = 0.5


def stability_index(new: Sequence[int], accepted: Sequence[int]) -> float:
    """Population stability index of two histograms over the same bins, both with counts smoothed by one half."""
    n, m = (sum(counts) + SMOOTHING * len(counts) for counts in (new, accepted))
    shares = (((a + SMOOTHING) / n, (b + SMOOTHING) / m) for a, b in zip(new, accepted, strict=True))
    return math.fsum((p - q) * math.log(p / q) for p, q in shares)


def expected_index(new: Sequence[int], accepted: Sequence[int]) -> float:
    """The index that two samples of these sizes from one population have on average, to first order."""
    bins = sum(1 for a, b in zip(new, accepted, strict=True) if a or b)
    return (bins - 1) * (1 / max(sum(new), 1) + 1 / max(sum(accepted), 1))


@dataclass(frozen=True)
class Drift:
    """The last accepted version, if there is one, and how far from it a new one may be."""

    reference: Profile | None
    options: DriftOptions

    def suite(self, observations: Observations) -> Suite:
        """The suite to be checked with those of the gate: one row a feature."""
        if self.reference is None:
            return self._nothing_to_compare()
        names = list(dict.fromkeys((*self.reference.features, *observations)))
        frame = pd.DataFrame([self._row(name, observations) for name in names])
        mend = (
            "look at what changed in the source or the configuration; if the new version is right, accept it: "
            "`quintet data accept NAME`"
        )
        requirements = (
            Requirement(
                "drift/features",
                "ExpectColumnValuesToBeInSet",
                {"column": "presence", "value_set": ["in both"]},
                "the features of the accepted version, all of them and no others",
                mend,
                ("presence",),
            ),
            Requirement(
                "drift/index",
                "ExpectColumnValuesToBeBetween",
                {"column": "index", "max_value": self.options.max_index},
                f"a population stability index of at most {self.options.max_index:g} above chance (drift.max_index)",
                mend,
                ("index",),
            ),
        )
        return Suite("drift", frame, requirements, _locator(frame))

    def _row(self, name: str, observations: Observations) -> dict[str, object]:
        feature = self.reference.features.get(name) if self.reference else None
        if feature is None:
            return {"feature": name, "presence": "in the new version only", "index": None}
        if name not in observations or len(observations[name]) == 0:
            return {"feature": name, "presence": "in the accepted version only", "index": None}
        counts = counts_in(feature, observations[name])
        index = stability_index(counts, feature.counts) - expected_index(counts, feature.counts)
        return {"feature": name, "presence": "in both", "index": index}

    def _nothing_to_compare(self) -> Suite:
        word = "required" if self.options.require_reference else "not required"
        frame = pd.DataFrame([{"feature": "all", "reference": f"none accepted yet, {word}"}])
        requirement = Requirement(
            "drift/reference",
            "ExpectColumnValuesToBeInSet",
            {"column": "reference", "value_set": ["none accepted yet, not required"]},
            "an accepted version to compare with, unless drift.require_reference is false",
            "look at the data, then accept them: `quintet data accept NAME`",
            ("reference",),
        )
        return Suite("drift", frame, (requirement,), _locator(frame))


def _locator(frame: pd.DataFrame) -> Callable[[int, Requirement], Place]:
    def locate(row: int, requirement: Requirement) -> Place:
        value = frame.iloc[row][requirement.about[0]]
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        return Place(f"feature {frame.iloc[row]['feature']}", f"{requirement.about[0]} {shown}")

    return locate
