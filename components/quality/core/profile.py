"""Profiles: how the values of each feature are distributed in a version of a data set that was accepted.

A profile is small and canonical, so that it can be kept in git beside the configuration: `data/profiles/NAME.json`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from components.config import Strict
from components.errors import DataError
from components.files import read_json, write_json

FORMAT = "quintet-profile/1"
# Ten bins of equal content are the field's habit for the population stability index.
BINS = 10
# Rarer words than these are counted together.
WORDS = 50

# By feature: numbers (n,), or words, one a row.
Observations = Mapping[str, NDArray[np.float64] | Sequence[str]]


class FeatureProfile(Strict):
    """Counts by bin. Numbers: bin i is from edge i-1 (exclusive) to edge i (inclusive), the outer ones are open. Words:
    each is a bin, and one more is for all others.
    """

    edges: tuple[float, ...] | None = None
    words: tuple[str, ...] | None = None
    counts: tuple[int, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _counts_fit_the_bins(self) -> "FeatureProfile":
        if (self.edges is None) == (self.words is None):
            raise ValueError("a feature has either edges (of numbers) or words")
        if self.edges is not None and list(self.edges) != sorted(set(self.edges)):
            raise ValueError("edges must rise")
        bins = len(self.edges if self.edges is not None else self.words or ()) + 1
        if len(self.counts) != bins or min(self.counts) < 0 or sum(self.counts) < 1:
            raise ValueError(f"{bins} counts are needed, none negative and not all zero")
        return self


class Profile(Strict):
    """What one accepted version of a data set looked like."""

    format: str = Field(pattern=f"^{FORMAT}$")
    rows: int = Field(ge=1)
    features: dict[str, FeatureProfile] = Field(min_length=1)


def profile_path(name: str) -> str:
    """Where the accepted profile of the data set `name` lies, below the checkout."""
    return f"data/profiles/{name}.json"


def profile_of(observations: Observations) -> Profile:
    """The profile of these observations. Raises DataError where a feature has no value, or one that is not finite."""
    features = {name: _feature(name, values) for name, values in observations.items()}
    rows = max((sum(feature.counts) for feature in features.values()), default=0)
    if rows == 0:
        raise DataError("nothing was observed, so there is no profile; prepare the data set first")
    return Profile(format=FORMAT, rows=rows, features=features)


def counts_in(feature: FeatureProfile, values: NDArray[np.float64] | Sequence[str]) -> tuple[int, ...]:
    """How many of `values` fall into each bin of `feature`."""
    if feature.edges is not None:
        places = np.searchsorted(np.asarray(feature.edges), np.asarray(values, dtype=np.float64), side="left")
        return tuple(np.bincount(places, minlength=len(feature.counts)).tolist())
    known = feature.words or ()
    counted = Counter(values)
    inside = [counted[word] for word in known]
    return (*inside, len(values) - sum(inside))


def write_profile(path: Path, profile: Profile) -> None:
    write_json(path, profile.model_dump(mode="json", exclude_none=True))


def accepted_profile(path: Path) -> Profile | None:
    """The profile in `path`; none where the file says that no version was accepted yet. Raises DataError."""
    try:
        content: Any = read_json(path)
        return None if content == {"format": FORMAT, "accepted": False} else Profile.model_validate(content)
    except (OSError, ValueError, ValidationError) as error:
        reason = "; ".join(str(error).split("\n")[:3])
        name = path.stem
        raise DataError(f"{path} is no profile ({reason}); `quintet data accept {name}` writes it anew") from None


def write_no_profile(path: Path) -> None:
    """Say that no version was accepted yet."""
    write_json(path, {"format": FORMAT, "accepted": False})


def _feature(name: str, values: NDArray[np.float64] | Sequence[str]) -> FeatureProfile:
    if len(values) == 0:
        raise DataError(f"feature {name} has no value, so there is no profile; prepare the data set first")
    if isinstance(values, np.ndarray):
        if not np.isfinite(values).all():
            raise DataError(f"feature {name} has values that are not finite; the data gate names them")
        # values that are frequent give several equal quantiles, which are one edge
        quantiles = np.quantile(values, np.arange(1, BINS) / BINS, method="inverted_cdf")
        edges = tuple(float(edge) for edge in np.unique(quantiles))
        binned = FeatureProfile(edges=edges, counts=(1,) * (len(edges) + 1))
    else:
        common = sorted(
            word for word, _ in sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))[:WORDS]
        )
        binned = FeatureProfile(words=tuple(common), counts=(1,) * (len(common) + 1))
    return binned.model_copy(update={"counts": counts_in(binned, values)})
