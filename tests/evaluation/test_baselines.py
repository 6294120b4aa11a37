"""Baselines: right on data whose answer is known, blind to the test rows, and the same each time."""

import numpy as np
import pytest

from components.errors import DataError
from components.evaluation.baselines import BASELINES, BaselineData, baseline_data, kmeans, majority, run_baselines
from components.evaluation.metrics import scores

SEED = 7
RANDOM = np.random.default_rng(3)
# three classes as balls far apart; one axis is in units a thousand times larger and says nothing
CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])


def balls(per_class: tuple[int, ...], seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(per_class)), per_class)
    useful = CENTRES[labels] + random.normal(size=(len(labels), 2))
    return np.column_stack([useful, 1000.0 * random.normal(size=len(labels))]), labels


def standardised(train: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return (rows - train.mean(axis=0)) / train.std(axis=0)


def make(per_class: tuple[int, ...] = (80, 60, 40), clusters: int = 9) -> tuple[BaselineData, np.ndarray]:
    train, train_labels = balls(per_class, 1)
    test, test_labels = balls((30, 30, 30), 2)
    data = baseline_data(
        standardised(train, train),
        train_labels,
        standardised(train, test),
        num_classes=3,
        num_clusters=clusters,
        seed=SEED,
    )
    return data, test_labels


def accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
    return scores(labels, predictions, ["a", "b", "c"])["accuracy"]


def test_every_baseline_answers_for_every_row_and_says_what_it_did() -> None:
    data, labels = make()
    results = run_baselines(data)
    assert list(results) == ["majority", "logistic_regression", "kmeans"] == list(BASELINES)
    for result in results.values():
        assert result.predictions.shape == labels.shape
        assert result.note
    assert accuracy(results["majority"].predictions, labels) == pytest.approx(1 / 3)
    assert accuracy(results["logistic_regression"].predictions, labels) > 0.95
    # nine clusters over a useless axis still find balls of distance six
    assert accuracy(results["kmeans"].predictions, labels) > 0.9


def test_majority_takes_the_lower_of_equals() -> None:
    data, _ = make(per_class=(10, 30, 30))
    result = majority(data)
    assert set(result.predictions.tolist()) == {1}
    assert "42.9%" in result.note


def test_the_same_data_give_the_same_answers_and_another_seed_is_used() -> None:
    data, _ = make(clusters=20)
    first, second = run_baselines(data), run_baselines(data)
    for name in BASELINES:
        np.testing.assert_array_equal(first[name].predictions, second[name].predictions)
    other = run_baselines(BaselineData(**{**vars(data), "seed": SEED + 1}))
    assert not np.array_equal(first["kmeans"].clusters, other["kmeans"].clusters)


@pytest.mark.parametrize("name", BASELINES)
def test_an_answer_depends_on_its_own_row_alone(name: str) -> None:
    data, _ = make()
    whole = BASELINES[name](data).predictions
    order = RANDOM.permutation(len(whole))[:20]
    part = BASELINES[name](BaselineData(**{**vars(data), "test_features": data.test_features[order]}))
    np.testing.assert_array_equal(part.predictions, whole[order])


def test_kmeans_has_the_models_number_of_clusters() -> None:
    data, _ = make(clusters=5)
    clusters = kmeans(data).clusters
    assert clusters is not None
    assert set(clusters.tolist()) == set(range(5))


def test_kmeans_without_enough_distinct_rows_is_refused_with_counts() -> None:
    train = np.repeat(np.eye(3), 10, axis=0)
    data = baseline_data(train, np.repeat([0, 1, 2], 10), train, num_classes=3, num_clusters=4, seed=0)
    with pytest.raises(DataError, match="3 distinct training rows for 4 clusters"):
        run_baselines(data)


def test_logistic_regression_of_one_class_is_refused() -> None:
    data, _ = make(per_class=(50,))
    with pytest.raises(DataError, match="class 0 only"):
        run_baselines(data)


def test_a_class_absent_from_training_is_never_predicted() -> None:
    data, _ = make(per_class=(50, 40))
    for result in run_baselines(data).values():
        assert 2 not in result.predictions


def test_no_convergence_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.evaluation.baselines.LOGISTIC_ITERATIONS", 1)
    data, _ = make()
    assert "NOT converged" in run_baselines(data)["logistic_regression"].note


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"train_labels": np.zeros(3, dtype=np.int64)}, "do not fit"),
        ({"test_features": np.zeros((4, 2))}, "do not fit"),
        ({"test_features": np.zeros((0, 3))}, "at least one of each"),
        ({"train_features": np.full((180, 3), np.nan)}, r"nan in row 0, column 0 \(and 539 more\)"),
    ],
)
def test_rows_that_do_not_fit_are_refused(change: dict[str, np.ndarray], part: str) -> None:
    data, _ = make()
    given = {
        "train_features": data.train_features,
        "train_labels": data.train_labels,
        "test_features": data.test_features,
        **change,
    }
    with pytest.raises(DataError, match=part):
        baseline_data(**given, num_classes=3, num_clusters=3, seed=0)
