"""Metrics of classification and clustering on integer labels, and the mapping from clusters to classes.

Labels and predictions are (N,) integers in [0, C), clusters (N,) integers in [0, K). A class that is neither present
nor predicted counts nowhere; one that is absent from the labels has no recall, rather than a recall of zero.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Indices = NDArray[np.int64]
# The grammar of metric names allows lower case, digits and underscores.
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class Classification:
    """Scores of one set of predictions.

    confusion: (C, C), rows are true classes, columns predicted ones, entries counts.
    recalls: class index -> recall, for the classes that occur among the labels.
    """

    accuracy: float
    macro_f1: float
    recalls: Mapping[int, float]
    confusion: Indices


@dataclass(frozen=True)
class Clustering:
    """Agreement of clusters with classes: normalised mutual information (arithmetic mean), adjusted Rand index."""

    nmi: float
    ari: float


def classification(labels: ArrayLike, predictions: ArrayLike, num_classes: int) -> Classification:
    """Score `predictions` (N,) against `labels` (N,).

    Macro F1 is the mean over classes that occur among labels or predictions. Raises ValueError for arrays of other
    shape or kind, of different lengths, without entries, or with entries outside [0, num_classes).
    """
    from sklearn.metrics import confusion_matrix, f1_score

    true = indices(labels, num_classes, "labels")
    predicted = indices(predictions, num_classes, "predictions")
    _same_length(true, predicted)
    confusion = confusion_matrix(true, predicted, labels=np.arange(num_classes)).astype(np.int64)
    counts = confusion.sum(axis=1)
    return Classification(
        accuracy=float(np.mean(true == predicted)),
        macro_f1=float(f1_score(true, predicted, average="macro", zero_division=0.0)),
        recalls={int(c): float(confusion[c, c] / counts[c]) for c in np.flatnonzero(counts)},
        confusion=confusion,
    )


def clustering(labels: ArrayLike, clusters: ArrayLike) -> Clustering:
    """Agreement of `clusters` (N,) with `labels` (N,); both are invariant to renaming. Raises ValueError as above."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    true, found = indices(labels, None, "labels"), indices(clusters, None, "clusters")
    _same_length(true, found)
    return Clustering(float(normalized_mutual_info_score(true, found)), float(adjusted_rand_score(true, found)))


def majority_mapping(clusters: ArrayLike, labels: ArrayLike, num_clusters: int, num_classes: int) -> Indices:
    """The class (K,) of each cluster by majority vote, to be fitted on training data and applied elsewhere.

    A tie goes to the class that is more frequent overall, then to the lower index; a cluster without members to the
    most frequent class. It serves any K, also K > C where a one-to-one matching does not exist.
    """
    counts = contingency(clusters, labels, num_clusters, num_classes)
    frequency = counts.sum(axis=0)
    # lexicographic: votes first, then overall frequency; argmax takes the first, that is the lower index, of equals
    ranking = counts * (frequency.sum() + 1) + frequency
    return np.asarray(ranking.argmax(axis=1), dtype=np.int64)


def hungarian_mapping(clusters: ArrayLike, labels: ArrayLike, num_classes: int) -> Indices:
    """The one-to-one matching (C,) of as many clusters as classes that gets most entries right (Kuhn 1955)."""
    from scipy.optimize import linear_sum_assignment

    counts = contingency(clusters, labels, num_classes, num_classes)
    _, classes = linear_sum_assignment(counts, maximize=True)
    return np.asarray(classes, dtype=np.int64)


def contingency(clusters: ArrayLike, labels: ArrayLike, num_clusters: int, num_classes: int) -> Indices:
    """Counts (K, C) of entries in cluster k with class c. Raises ValueError as `classification` does."""
    found, true = indices(clusters, num_clusters, "clusters"), indices(labels, num_classes, "labels")
    _same_length(found, true)
    counts = np.zeros((num_clusters, num_classes), dtype=np.int64)
    np.add.at(counts, (found, true), 1)
    return counts


def metric_name(text: str) -> str:
    """`text` as a part of a metric's name: "ROCKET BODY" gives rocket_body."""
    name = _NOT_IN_NAMES.sub("_", text.lower()).strip("_")
    if not name:
        raise ValueError(f"{text!r} leaves no metric name; allowed is a text with a Latin letter or a digit in it")
    return name


def scores(
    labels: ArrayLike, predictions: ArrayLike, class_names: Sequence[str], clusters: ArrayLike | None = None
) -> dict[str, float]:
    """All scores as a flat mapping: accuracy, macro_f1, recall/CLASS, and nmi and ari of `clusters`.

    Without `clusters`, the predictions themselves are the partition that nmi and ari judge. Clusters of which there are
    no more than classes also get hungarian_accuracy: that of the one-to-one matching which fits these very rows best,
    as papers on clustering report it; no mapping from training rows is involved.
    """
    names = [metric_name(name) for name in class_names]
    if len(set(names)) != len(names):
        raise ValueError(f"class names {list(class_names)} give the same metric name twice; rename one of them")
    result = classification(labels, predictions, len(names))
    partition = clustering(labels, predictions if clusters is None else clusters)
    return {
        "accuracy": result.accuracy,
        "macro_f1": result.macro_f1,
        "nmi": partition.nmi,
        "ari": partition.ari,
        **_hungarian(labels, clusters, len(names)),
        **{f"recall/{names[index]}": recall for index, recall in result.recalls.items()},
    }


def _hungarian(labels: ArrayLike, clusters: ArrayLike | None, num_classes: int) -> dict[str, float]:
    if clusters is None or int(np.max(clusters)) >= num_classes:
        return {}
    mapping = hungarian_mapping(clusters, labels, num_classes)
    return {"hungarian_accuracy": float(np.mean(mapping[np.asarray(clusters)] == np.asarray(labels)))}


def indices(values: ArrayLike, bound: int | None, name: str) -> Indices:
    """`values` as (N,) int64, N >= 1, each at least 0 and below `bound`. Raises ValueError otherwise."""
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"{name} has shape {array.shape} and type {array.dtype}; allowed is a vector of one or more integers"
        )
    least, largest = int(array.min()), int(array.max())
    if least < 0 or (bound is not None and largest >= bound):
        allowed = "0 or more" if bound is None else f"0 to {bound - 1}"
        raise ValueError(f"{name} range from {least} to {largest}; allowed is {allowed}")
    return array.astype(np.int64)


def _same_length(first: Indices, second: Indices) -> None:
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} entries are compared; both must come from the same rows")
