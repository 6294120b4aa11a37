"""What a model must be compared with: simple methods on the same rows, the same features and the same split.

Each is fitted on the training rows alone, with an explicit seed, in one thread, so that the same input gives the same
answer. A baseline is a function and a line in `BASELINES`.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from components.errors import DataError
from components.evaluation.metrics import Indices, indices, majority_mapping

Features = NDArray[np.float64]

KMEANS_RESTARTS = 10
LOGISTIC_ITERATIONS = 5000


@dataclass(frozen=True)
class BaselineData:
    """Training rows (N, F) with labels (N,), and the rows (M, F) to answer for, scaled as the model scales them.

    num_clusters is the model's number of prototypes, so that a clustering baseline has the same budget.
    """

    train_features: Features
    train_labels: Indices
    test_features: Features
    num_classes: int
    num_clusters: int
    seed: int
    # whether each class weighs the same in a loss, however rare it is, as it does for the model
    balanced: bool = False


@dataclass(frozen=True)
class BaselineResult:
    """Predictions (M,), what was done in a sentence, and clusters (M,) where the method has some."""

    predictions: Indices
    note: str
    clusters: Indices | None = None


def baseline_data(
    train_features: ArrayLike,
    train_labels: ArrayLike,
    test_features: ArrayLike,
    *,
    num_classes: int,
    num_clusters: int,
    seed: int,
    balanced: bool = False,
) -> BaselineData:
    """Checked arrays. Raises DataError for rows that do not fit each other, are absent, or are not finite."""
    train = _matrix(train_features, "training features")
    test = _matrix(test_features, "test features")
    labels = indices(train_labels, num_classes, "training labels")
    if len(labels) != len(train) or train.shape[1] != test.shape[1]:
        raise DataError(
            f"training features {train.shape}, training labels ({len(labels)},) and test features {test.shape} do not "
            "fit; allowed is one label a row and the same columns on both sides; take all three from one table"
        )
    return BaselineData(train, labels, test, num_classes, num_clusters, seed, balanced)


def run_baselines(data: BaselineData) -> dict[str, BaselineResult]:
    """Every baseline of the registry, by name."""
    from threadpoolctl import threadpool_limits

    # sums over several threads are ordered by chance
    with threadpool_limits(limits=1):
        return {name: baseline(data) for name, baseline in BASELINES.items()}


def majority(data: BaselineData) -> BaselineResult:
    """Always the most frequent training class; of equals the lowest index."""
    counts = np.bincount(data.train_labels, minlength=data.num_classes)
    answer = int(counts.argmax())
    share = counts[answer] / counts.sum()
    predictions = np.full(len(data.test_features), answer, dtype=np.int64)
    return BaselineResult(predictions, f"always class {answer}, {share:.1%} of the training rows")


def logistic_regression(data: BaselineData) -> BaselineResult:
    """Multinomial logistic regression, L2 penalty with C = 1, on scaled features; `balanced` weighs rows by class."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    present = np.unique(data.train_labels)
    if len(present) < 2:
        raise DataError(
            f"logistic regression got training rows of class {present[0]} only; allowed are two classes or more; "
            "change the split or read more rows"
        )
    weighting = "balanced" if data.balanced else None
    model = LogisticRegression(C=1.0, class_weight=weighting, max_iter=LOGISTIC_ITERATIONS, random_state=data.seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(data.train_features, data.train_labels)
    converged = not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    state = "converged" if converged else f"NOT converged after {LOGISTIC_ITERATIONS} iterations"
    predictions = np.asarray(model.predict(data.test_features), dtype=np.int64)
    weights = "classes weighted alike" if data.balanced else "rows weighted alike"
    return BaselineResult(predictions, f"L2 penalty, C = 1, scaled features, {weights}, {state}")


def kmeans(data: BaselineData) -> BaselineResult:
    """k-means with k-means++ seeds on scaled features, each cluster named by the majority of its training rows."""
    from sklearn.cluster import KMeans

    scaled = data.train_features
    distinct = len(np.unique(scaled, axis=0))
    if distinct < data.num_clusters:
        raise DataError(
            f"k-means got {distinct} distinct training rows for {data.num_clusters} clusters; allowed is at least one "
            "row a cluster; use fewer prototypes or read more rows"
        )
    model = KMeans(
        n_clusters=data.num_clusters,
        init="k-means++",
        n_init=KMEANS_RESTARTS,
        random_state=data.seed,
        algorithm="lloyd",
    )
    train_clusters = np.asarray(model.fit_predict(scaled), dtype=np.int64)
    mapping = majority_mapping(train_clusters, data.train_labels, data.num_clusters, data.num_classes)
    clusters = np.asarray(model.predict(data.test_features), dtype=np.int64)
    note = (
        f"{data.num_clusters} clusters, k-means++ seeds, best of {KMEANS_RESTARTS} starts, scaled features, "
        "clusters named by majority vote on the training rows"
    )
    return BaselineResult(mapping[clusters], note, clusters)


# Keyed by what a reader sees in tables; the names follow the grammar of metric names.
BASELINES: Mapping[str, Callable[[BaselineData], BaselineResult]] = {
    "majority": majority,
    "logistic_regression": logistic_regression,
    "kmeans": kmeans,
}


def _matrix(values: ArrayLike, name: str) -> Features:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(f"{name} have shape {array.shape}; allowed is (rows, columns), at least one of each")
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        row, column = wrong[0]
        raise DataError(
            f"{name} hold {array[row, column]} in row {row}, column {column} (and {len(wrong) - 1} more); allowed are "
            "finite numbers; run the data gate on the table"
        )
    return array
