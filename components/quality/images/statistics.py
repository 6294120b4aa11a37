"""Mean and standard deviation of each channel against the published ones, within what the number of images implies."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from components.datasets.images.config import Statistics
from components.quality.core.expectations import Suite
from components.quality.core.requirements import SOURCE, between, facts_suite

# Practically every sample of the published set is within so many standard errors.
STANDARD_ERRORS = 5.0
# Told in place of a number of standard errors where there is none: a channel too many, or errors of zero.
FAR = 1e9
# Published values have four decimals; some were cut and not rounded.
ROUNDING = 1e-4


def channel_statistics(
    means: NDArray[np.float64], squares: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation over all pixels, and the standard error of each, all (C,).

    `means` and `squares` (n, C) are the means of the pixels and of their squares by image. The images, not the pixels,
    are independent. The mean is one of n image means; the variance is, to first order, a mean over images of
    s - 2 m x with m the mean of all, and the standard deviation follows by the derivative of the root.
    """
    rows = len(means)
    mean = means.mean(axis=0)
    std = np.sqrt(np.maximum(squares.mean(axis=0) - mean**2, 0.0))
    mean_error = means.std(axis=0) / np.sqrt(rows)
    spread = (squares - 2 * mean * means).std(axis=0) / np.sqrt(rows)
    std_error = np.divide(spread, 2 * std, out=np.zeros_like(spread), where=std > 0)
    return mean, std, mean_error, std_error


def published_suite(means: NDArray[np.float64], squares: NDArray[np.float64], published: Statistics) -> Suite:
    """One row a channel and quantity. `means` and `squares` (n, C) as in `channel_statistics`; n may be 0."""
    rows, channels = means.shape
    facts: list[dict[str, object]] = []
    if rows and channels == len(published.mean):
        mean, std, mean_error, std_error = channel_statistics(means, squares)
        facts += _facts("mean", mean, mean_error, published.mean)
        facts += _facts("standard deviation", std, std_error, published.std)
    else:
        observed = f"{rows} images of {channels} channels"
        told = f"values of {len(published.mean)} channels"
        facts.append(
            {"what": "channels", "channel": "all", "errors away": FAR, "observed": observed, "published": told}
        )
    expected = f"the published value within {STANDARD_ERRORS:g} standard errors of {rows} images, in every channel"
    about = ("errors away", "observed", "published")
    return facts_suite(
        "statistics",
        facts,
        ("what", "channel"),
        between("statistics/published", about, 0, STANDARD_ERRORS, expected, SOURCE),
    )


def _facts(
    what: str, observed: NDArray[np.float64], errors: NDArray[np.float64], published: Sequence[float]
) -> list[dict[str, object]]:
    facts: list[dict[str, object]] = []
    for channel, (came, error, due) in enumerate(zip(observed.tolist(), errors.tolist(), published, strict=True)):
        gap = max(abs(came - due) - ROUNDING, 0.0)
        away = 0.0 if gap == 0 else gap / error if error > 0 else FAR
        facts.append({"what": what, "channel": channel, "errors away": away, "observed": came, "published": due})
    return facts
