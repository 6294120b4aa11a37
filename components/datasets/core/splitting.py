"""Train, validation and test rows: no group in two of them, every class with its share as well as that allows.

Objects of one launch fly alike: a fragment in the test set whose siblings were learned from measures memory. So whole
groups are dealt out, by scikit-learn's StratifiedGroupKFold.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold

from components.errors import DataError


def split_groups(
    strata: Sequence[str],
    coarse: Sequence[str],
    groups: Sequence[str],
    seed: int,
    validation_fraction: float,
    test_fraction: float,
) -> NDArray[np.str_]:
    """One of train, validation, test for each of n rows.

    `strata` (n) are the classes whose shares are kept; rows of a stratum too rare to be dealt out count by their class
    in `coarse` (n). `groups` (n) stay whole, so the fractions are met as nearly as the groups allow. The same rows,
    seed and fractions give the same split. Raises DataError where there are too few groups.
    """
    if not (validation_fraction > 0 and test_fraction > 0 and validation_fraction + test_fraction < 1):
        raise ValueError(
            f"fractions are validation {validation_fraction} and test {test_fraction}; "
            "allowed are positive ones with a sum below 1, so that rows are left to train on"
        )
    fine, wide, keys = np.asarray(strata), np.asarray(coarse), np.asarray(groups)
    parts = np.full(len(fine), "train", dtype="<U10")
    rest = np.arange(len(fine))
    for part, fraction in (("test", test_fraction), ("validation", validation_fraction / (1 - test_fraction))):
        chosen = rest[_one_fold(fine[rest], wide[rest], keys[rest], seed, fraction)]
        parts[chosen] = part
        rest = np.setdiff1d(rest, chosen)
    return parts


def _one_fold(
    fine: NDArray[np.str_], wide: NDArray[np.str_], groups: NDArray[np.str_], seed: int, fraction: float
) -> NDArray[np.intp]:
    """Rows of the fold that comes nearest to `fraction` of every class, of as many folds as the fraction asks for."""
    folds = max(2, round(1 / fraction))
    distinct = len(set(groups.tolist()))
    if distinct < folds:
        raise DataError(
            f"{distinct} launches cannot be dealt into {folds} parts; take more rows (max_rows), or a larger fraction"
        )
    labels = _dealable(fine, wide, folds)
    splitter = StratifiedGroupKFold(n_splits=folds, shuffle=True, random_state=seed)
    candidates = [held for _, held in splitter.split(np.zeros((len(labels), 1)), labels, groups)]
    # a launch larger than a fold swells its fold and starves it of other classes; such a fold is not taken
    return min(candidates, key=lambda held: _distance(held, (fine, wide), fraction))


def _dealable(fine: NDArray[np.str_], wide: NDArray[np.str_], folds: int) -> list[str]:
    """Labels each of which has a row for every fold: rare strata count by their coarse class, rare classes together."""
    labels: list[str] = fine.tolist()
    for broader in (wide.tolist(), ["rare"] * len(labels), [Counter(labels).most_common(1)[0][0]] * len(labels)):
        counts = Counter(labels)
        labels = [label if counts[label] >= folds else wider for label, wider in zip(labels, broader, strict=True)]
    return labels


def _distance(held: NDArray[np.intp], classifications: tuple[NDArray[np.str_], ...], fraction: float) -> float:
    """Mean over classes of how far the held share of a class is from `fraction`; rare classes count like others."""
    gaps: list[float] = []
    for classes in classifications:
        totals = Counter(classes.tolist())
        have = Counter(classes[held].tolist())
        gaps.extend(abs(have[name] / total - fraction) for name, total in totals.items())
    return float(np.mean(gaps))
