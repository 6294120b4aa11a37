"""Does this training go towards a collapse? Signs that come before it, looked at now and then, and said in words."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from components.methods.ddcl.curvature import Curvature, free_energy_curvature
from components.methods.ddcl.metrics import prototype_separation
from components.methods.ddcl.numerics import Number, checked_positive, checked_temperature
from components.methods.ddcl.optimisation import PRACTICAL_TIMESCALE_RATIOS
from components.methods.ddcl.stability import critical_temperatures, lyapunov

VERDICTS = ("stable", "warning", "unstable")
# Reports that a trend is taken from.
WINDOW = 8
LEAST_FOR_A_TREND = 4
# A separation below this share of the tokens' spread (the root of their largest variance) counts as merged.
MERGED = 0.05
# A trend that leads there within so many further reports is warned of.
HORIZON = 20
# A separation that loses less than this share a report is as good as steady.
STEADY = 0.02


class StabilityReport(NamedTuple):
    """What one look found. `reasons` has a sentence for each sign, the gravest first; none when `verdict` is stable."""

    verdict: str
    reasons: tuple[str, ...]
    separation: float
    """Least distance between two prototypes, as a share of the tokens' spread."""
    trend: float
    """Slope of the logarithm of that, per report; 0 until there are reports enough."""
    curvature: Curvature
    relative_temperature: float
    """Temperature over the one at which a collapsed bank becomes stable for the loss (4 lambda_max)."""
    lyapunov: float
    """Phi = F + tau log K >= 0."""

    @property
    def severity(self) -> int:
        """0 stable, 1 warning, 2 unstable."""
        return VERDICTS.index(self.verdict)


class StabilityMonitor:
    """Looks at tokens and a bank, remembers the separations it saw, and says what they foretell.

    Signs (Cirrincione and Kumar, arXiv 2604.03850, Theorem 1; thresholds derived in stability.py):

    - unstable: the temperature is at or above 4 lambda_max, where a collapsed bank attracts; the least distance between
      two prototypes is below a twentieth of the tokens' spread, so that they have merged; a step of `learning_rate` is
      longer than 2 over the largest curvature, so that plain descent overshoots (with `adaptive`, an optimiser that
      scales its steps, this is a warning).
    - warning: the temperature is between 2 and 4 lambda_max, where a collapsed bank attracts descent on the free
      energy; the separation falls while the curvature is negative in some direction, so that the bank slides off a
      saddle in place of resting in the boundary layer that the theorem asks for; the separation falls so that it
      reaches the merged state within 20 further reports; the timescale ratio is outside the range that the paper
      calls stable (0.01 to 0.1).

    The trend is the median of the slopes between all pairs of the last 8 reports (Theil and Sen), which one bad report
    does not move. `state` is plain numbers: a monitor that takes it up says the same.

    Parameters: learning_rate of the prototypes; timescale_ratio; adaptive: whether the optimiser scales its steps.
    Raises ValueError for a rate or ratio that is not positive.
    """

    def __init__(self, learning_rate: Number, timescale_ratio: Number, *, adaptive: bool = True) -> None:
        self.learning_rate = checked_positive("learning_rate", learning_rate)
        self.timescale_ratio = checked_positive("timescale_ratio", timescale_ratio)
        self.adaptive = adaptive
        self._separations: list[float] = []

    def look(
        self,
        tokens: Float[Tensor, "batch tokens dim"],
        prototypes: Float[Tensor, "prototypes dim"],
        temperature: Number,
        mask: Bool[Tensor, "batch tokens"] | None = None,
    ) -> StabilityReport:
        """One report, at the cost of at most 40 gradients of the free energy on these tokens: pass some hundreds.

        Raises ValueError for fewer than 2 prototypes, tokens without spread, or what does not fit.
        """
        tau = checked_temperature(temperature)
        critical = critical_temperatures(tokens, mask)
        if critical.loss <= 0:
            raise ValueError("the tokens do not differ, so there is nothing that prototypes could keep apart")
        spread = math.sqrt(critical.loss / 4)
        separation = prototype_separation(prototypes).minimum / spread
        self._separations = [*self._separations, separation][-WINDOW:]
        curvature = free_energy_curvature(tokens, prototypes, tau, mask)
        trend = self._trend()
        signs = (
            *_of_temperature(tau, critical.free_energy, critical.loss),
            *_of_separation(separation, trend),
            *_of_curvature(curvature, self.learning_rate, self.adaptive, trend),
            *_of_ratio(self.timescale_ratio),
        )
        worst = max((severity for severity, _ in signs), default=0)
        ordered = sorted(signs, key=lambda sign: -sign[0])
        return StabilityReport(
            verdict=VERDICTS[worst],
            reasons=tuple(text for _, text in ordered),
            separation=separation,
            trend=trend,
            curvature=curvature,
            relative_temperature=tau / critical.loss,
            lyapunov=float(lyapunov(tokens, prototypes, tau, mask)),
        )

    def state_dict(self) -> dict[str, Any]:
        return {"separations": list(self._separations)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._separations = [float(value) for value in state["separations"]]

    def _trend(self) -> float:
        if len(self._separations) < LEAST_FOR_A_TREND:
            return 0.0
        logs = [math.log(max(value, 1e-12)) for value in self._separations]
        slopes = sorted(
            (later - earlier) / (j - i)
            for i, earlier in enumerate(logs)
            for j, later in enumerate(logs[i + 1 :], start=i + 1)
        )
        middle = len(slopes) // 2
        return slopes[middle] if len(slopes) % 2 else (slopes[middle - 1] + slopes[middle]) / 2


Sign = tuple[int, str]


def _of_temperature(tau: float, of_energy: float, of_loss: float) -> list[Sign]:
    if tau >= of_loss:
        return [
            (2, f"the temperature {tau:.3g} is at or above {of_loss:.3g} (4 lambda_max): a collapsed bank attracts")
        ]
    if tau >= of_energy:
        return [
            (1, f"the temperature {tau:.3g} is above {of_energy:.3g} (2 lambda_max): collapse attracts the free energy")
        ]
    return []


def _of_separation(separation: float, trend: float) -> list[Sign]:
    if separation < MERGED:
        return [(2, f"two prototypes have merged: they are {separation:.2g} of the tokens' spread apart")]
    if trend < 0:
        reports = math.log(separation / MERGED) / -trend
        if reports <= HORIZON:
            return [
                (1, f"the separation falls by {-math.expm1(trend):.0%} a report: merged in about {reports:.0f} more")
            ]
    return []


def _of_curvature(curvature: Curvature, learning_rate: float, adaptive: bool, trend: float) -> list[Sign]:
    signs = []
    if curvature.largest > 0 and learning_rate >= 2 / curvature.largest:
        limit = 2 / curvature.largest
        signs.append((1 if adaptive else 2, f"the rate {learning_rate:.3g} exceeds {limit:.3g} (2 over the curvature)"))
    if curvature.least < 0 and trend < -STEADY:
        signs.append((1, f"the separation falls along a curvature of {curvature.least:.2g}: the bank leaves a saddle"))
    return signs


def _of_ratio(ratio: float) -> list[Sign]:
    low, high = PRACTICAL_TIMESCALE_RATIOS
    if low <= ratio <= high:
        return []
    return [(1, f"the timescale ratio {ratio:.3g} is outside {low:g} to {high:g}")]
