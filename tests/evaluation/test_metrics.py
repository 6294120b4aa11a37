"""Metrics against closed forms, against scikit-learn on awkward inputs, and their invariances."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from components.evaluation.metrics import (
    classification,
    clustering,
    contingency,
    hungarian_mapping,
    majority_mapping,
    metric_name,
    scores,
)

CLASSES = 4
pairs = st.lists(st.tuples(st.integers(0, CLASSES - 1), st.integers(0, CLASSES - 1)), min_size=1, max_size=40)


def test_closed_form_of_a_worked_case() -> None:
    # class 0: 2 of 3 right; class 1: 1 of 1; class 2: 0 of 1
    result = classification([0, 0, 0, 1, 2], [0, 0, 1, 1, 0], 3)
    assert result.accuracy == pytest.approx(3 / 5)
    # F1 = 2 tp / (2 tp + fp + fn): 4/6, 2/3, 0
    assert result.macro_f1 == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
    assert result.recalls == {0: pytest.approx(2 / 3), 1: 1.0, 2: 0.0}
    assert result.confusion.tolist() == [[2, 1, 0], [0, 1, 0], [1, 0, 0]]


@given(pairs)
def test_agreement_with_definitions_counted_by_hand(rows: list[tuple[int, int]]) -> None:
    true, predicted = [list(column) for column in zip(*rows, strict=True)]
    result = classification(true, predicted, CLASSES)
    assert result.accuracy == pytest.approx(sum(t == p for t, p in rows) / len(rows))
    f1 = []
    for c in range(CLASSES):
        hits = sum(t == p == c for t, p in rows)
        wrong = sum((t == c) != (p == c) for t, p in rows)
        if hits or wrong:
            f1.append(2 * hits / (2 * hits + wrong))
        for d in range(CLASSES):
            assert result.confusion[c, d] == sum((t, p) == (c, d) for t, p in rows)
    assert result.macro_f1 == pytest.approx(sum(f1) / len(f1))
    assert set(result.recalls) == set(true)
    assert result.macro_f1 == pytest.approx(sk.f1_score(true, predicted, average="macro", zero_division=0))
    for c, recall in result.recalls.items():
        of_class = [p == c for t, p in rows if t == c]
        assert recall == pytest.approx(sum(of_class) / len(of_class))


def test_a_class_absent_from_the_test_rows_counts_only_when_predicted() -> None:
    never = classification([0, 1], [0, 1], 3)
    assert (never.macro_f1, never.recalls) == (1.0, {0: 1.0, 1: 1.0})
    predicted = classification([0, 1], [0, 2], 3)
    assert predicted.macro_f1 == pytest.approx(1 / 3)
    assert predicted.recalls == {0: 1.0, 1: 0.0}


def test_a_single_class_is_scored_without_warning(recwarn: pytest.WarningsRecorder) -> None:
    result = classification([2, 2, 2], [2, 2, 2], 3)
    assert (result.accuracy, result.macro_f1, result.recalls) == (1.0, 1.0, {2: 1.0})
    assert clustering([2, 2, 2], [0, 0, 0]).ari == 1.0
    assert len(recwarn) == 0


def test_clustering_closed_forms() -> None:
    perfect = clustering([0, 0, 1, 1], [3, 3, 1, 1])
    assert (perfect.nmi, perfect.ari) == (pytest.approx(1.0), 1.0)
    # a partition independent of the classes: no information, and as many agreeing pairs as chance gives, less a bit
    crossed = clustering([0, 0, 1, 1], [0, 1, 0, 1])
    assert crossed.nmi == pytest.approx(0.0, abs=1e-12)
    assert crossed.ari == pytest.approx(-0.5)
    # one cluster for all says nothing
    assert clustering([0, 1], [0, 0]).nmi == 0.0
    # mutual information log 2 against entropies log 2 and log 4
    refined = clustering([0, 0, 1, 1], [0, 1, 2, 3])
    assert refined.nmi == pytest.approx(2 * math.log(2) / (math.log(2) + math.log(4)))


@given(pairs, st.permutations(range(CLASSES)))
def test_clustering_is_invariant_to_renaming(rows: list[tuple[int, int]], names: list[int]) -> None:
    true, found = (np.array(column) for column in zip(*rows, strict=True))
    one, other = clustering(true, found), clustering(true, np.array(names)[found])
    assert (one.nmi, one.ari) == pytest.approx((other.nmi, other.ari))


def test_majority_vote_with_ties_and_an_empty_cluster() -> None:
    labels = [1, 1, 2, 2, 2, 0, 0, 2]
    clusters = [0, 0, 0, 1, 1, 2, 2, 2]
    # cluster 3 is empty: the most frequent class
    assert majority_mapping(clusters, labels, 4, 3).tolist() == [1, 2, 0, 2]
    # a tie of 0 and 2 in cluster 0: class 2 is more frequent overall
    assert majority_mapping([0, 0, 1, 1], [0, 2, 2, 2], 2, 3).tolist() == [2, 2]
    # all equal: the lower index
    assert majority_mapping([0, 0], [2, 1], 1, 3).tolist() == [1]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, CLASSES - 1)), min_size=1, max_size=40))
def test_no_other_mapping_gets_more_training_rows_right(rows: list[tuple[int, int]]) -> None:
    found, true = (np.array(column) for column in zip(*rows, strict=True))
    mapping = majority_mapping(found, true, 7, CLASSES)
    best = sum(max(np.sum(true[found == k] == c) for c in range(CLASSES)) for k in range(7))
    assert np.sum(mapping[found] == true) == best


@given(pairs)
def test_hungarian_equals_the_best_of_all_permutations(rows: list[tuple[int, int]]) -> None:
    found, true = (np.array(column) for column in zip(*rows, strict=True))
    mapping = hungarian_mapping(found, true, CLASSES)
    assert sorted(mapping) == list(range(CLASSES))
    best = max(np.sum(np.array(names)[found] == true) for names in itertools.permutations(range(CLASSES)))
    assert np.sum(mapping[found] == true) == best


def test_a_matching_of_more_clusters_than_classes_is_refused() -> None:
    with pytest.raises(ValueError, match="clusters range from 0 to 3"):
        hungarian_mapping([0, 3], [0, 1], 2)


def test_scores_are_named_and_leave_out_absent_classes() -> None:
    names = ["PAYLOAD", "ROCKET BODY", "DEBRIS"]
    found = scores([0, 1, 1], [0, 1, 0], names)
    assert set(found) == {"accuracy", "macro_f1", "nmi", "ari", "recall/payload", "recall/rocket_body"}
    assert found["recall/rocket_body"] == 0.5
    by_cluster = scores([0, 1, 1], [0, 1, 0], names, clusters=[5, 9, 9])
    assert by_cluster["ari"] == 1.0
    assert by_cluster["accuracy"] == found["accuracy"]


def test_names_follow_the_grammar_and_stay_apart() -> None:
    assert metric_name("ROCKET BODY") == "rocket_body"
    assert metric_name(" a--B ") == "a_b"
    with pytest.raises(ValueError, match="no metric name"):
        metric_name("--")
    with pytest.raises(ValueError, match="twice"):
        scores([0], [0], ["A B", "a-b"])


@pytest.mark.parametrize(
    ("labels", "predictions", "part"),
    [
        ([], [], "one or more integers"),
        ([0, 1], [0], "2 and 1 entries"),
        ([0, 3], [0, 1], "labels range from 0 to 3"),
        ([0, 1], [0, -1], "predictions range from -1 to 0"),
        ([0.0, 1.0], [0, 1], "float64"),
        ([[0, 1]], [[0, 1]], r"\(1, 2\)"),
        ([True, False], [0, 1], "bool"),
    ],
)
def test_wrong_input_is_refused(labels: list[object], predictions: list[object], part: str) -> None:
    with pytest.raises(ValueError, match=part):
        classification(labels, predictions, 3)


def test_contingency_counts() -> None:
    assert contingency([0, 0, 2], [1, 1, 0], 3, 2).tolist() == [[0, 2], [0, 0], [1, 0]]


def test_clusters_no_more_than_classes_get_their_best_matching_as_well() -> None:
    labels, clusters = [0, 0, 1, 1, 2, 2], [2, 2, 0, 0, 1, 0]
    found = scores(labels, labels, ["a", "b", "c"], clusters)
    assert found["hungarian_accuracy"] == pytest.approx(5 / 6)
    assert "hungarian_accuracy" not in scores(labels, labels, ["a", "b", "c"], [3, 2, 0, 0, 1, 0])
    assert "hungarian_accuracy" not in scores(labels, labels, ["a", "b", "c"])
