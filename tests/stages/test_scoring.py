"""What a classifier is scored by: its head or its prototypes, beside baselines on every view of its rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.config import TrainConfig
from components.stages.scoring import scoring_of
from components.stages.scoring.classifier import BY_HEAD, BY_PROTOTYPES, OWN_PROTOTYPES
from components.tracking.records import write_history
from components.training.core.trainer import fit
from components.training.data.forms import read_data
from components.training.registry import method
from tests.training.tables import sample_table, train_config
from tests.training.test_readout_method import features, text_config, trained_on


def scored_on_texts(folder: Path, **model: Any) -> Any:
    config = text_config(**model)
    data = read_data(config, features(folder))
    weights = trained_on(config, data, folder)
    return scoring_of(config).score(config, weights, data), config, data, weights


def test_baselines_of_texts_see_the_mean_and_the_class_token(tmp_path: Path) -> None:
    scored, _, data, _ = scored_on_texts(tmp_path)
    assert set(scored.systems) == {
        OWN_PROTOTYPES,
        "majority",
        *(f"{view}_{name}" for view in ("mean", "cls") for name in ("logistic_regression", "kmeans")),
    }
    assert scored.notes["model"] == BY_HEAD
    assert set(scored.notes) == {"model", *scored.systems}
    # the first token is the same in every sentence, so it tells nothing, and the mean tells all
    assert scored.systems["mean_logistic_regression"]["accuracy"] == 1.0
    assert scored.systems["cls_logistic_regression"]["accuracy"] < 1.0
    assert scored.details["test_rows"] == len(data.test)
    assert scored.metrics["baseline/mean_kmeans/accuracy"] == scored.systems["mean_kmeans"]["accuracy"]


def test_without_labels_the_prototypes_are_the_model(tmp_path: Path) -> None:
    scored, config, data, weights = scored_on_texts(
        tmp_path, supervised=False, loss_weight=1.0, encoder="frozen", dim=6, view="mean", num_prototypes=2
    )
    assert scored.notes["model"] == BY_PROTOTYPES
    assert scored.model == scored.systems[OWN_PROTOTYPES]
    mixtures = method(config.method).answers(config, weights, data.test).mixtures  # type: ignore[attr-defined]
    assert scored.clusters.tolist() == mixtures.argmax(dim=1).tolist()
    # two clusters of two kinds of sentences
    assert scored.model["accuracy"] == scored.model["hungarian_accuracy"] == 1.0


def test_a_readout_without_parts_has_no_prototypes_to_score(tmp_path: Path) -> None:
    scored, config, data, weights = scored_on_texts(tmp_path, readout="mean")
    assert scored.clusters is None
    assert OWN_PROTOTYPES not in scored.systems
    assert scored.tree is None
    scoring = scoring_of(config)
    assert scoring.tell(config, weights, data) == {}
    # as many clusters as classes where the model has none
    assert "2 clusters" in scored.notes["mean_kmeans"]


@pytest.mark.parametrize(
    ("model", "pictures"),
    [
        ({}, {"confusion", "prototype_use", "separation", "training"}),
        (
            {"readout": "hierarchy", "num_prototypes": (4, 2)},
            {"confusion", "prototype_use", "separation", "training", "tree"},
        ),
        ({"readout": "mean"}, {"confusion", "training"}),
        ({"readout": "hard-vq"}, {"confusion", "prototype_use", "training"}),
        ({"supervised": False, "loss_weight": 1.0}, {"confusion", "prototype_use", "separation"}),
    ],
)
def test_what_there_is_to_see_is_drawn(model: dict[str, Any], pictures: set[str], tmp_path: Path) -> None:
    config = text_config(**model)
    data = read_data(config, features(tmp_path))
    module = method(config.method).untrained(config, data)
    result = fit(module, data, config, tmp_path / "once.ckpt")
    write_history(tmp_path, ((entry["step"], entry["metrics"]) for entry in result.history))
    weights = trained_on(config, data, tmp_path)
    scoring = scoring_of(config)
    scored = scoring.score(config, weights, data)
    (tmp_path / "plots").mkdir()
    scoring.draw(scored, config, tmp_path, tmp_path / "plots", "few")
    assert {path.stem for path in (tmp_path / "plots").iterdir()} == pictures
    told = scoring.tell(config, weights, data)
    assert set(told) == (
        set()
        if model.get("readout") == "mean"
        else {"prototypes.json", "explanations.json"}
        - ({"prototypes.json", "explanations.json"} if model.get("readout") == "hard-vq" else set())
    )


def test_a_hierarchy_is_scored_with_its_tree(tmp_path: Path) -> None:
    scored, _, _, _ = scored_on_texts(tmp_path, readout="hierarchy", num_prototypes=(4, 2))
    (links,), sizes = scored.tree
    assert links.shape == (4, 2)
    assert [len(size) for size in sizes] == [4, 2]
    assert all(float(size.sum()) == pytest.approx(1.0) for size in sizes)
    assert scored.num_prototypes == 2


def test_a_table_has_one_view_and_its_scores_are_those_of_the_test_rows(tmp_path: Path) -> None:
    config: TrainConfig = train_config()
    data = sample_table(tmp_path, config)
    weights = trained_on(config, data, tmp_path)
    scored = scoring_of(config).score(config, weights, data)
    assert {OWN_PROTOTYPES, "majority", "logistic_regression", "kmeans"} == set(scored.systems)
    predictions = method(config.method).answers(config, weights, data.test).logits.argmax(dim=1)  # type: ignore[attr-defined]
    assert np.array_equal(scored.predictions, predictions.numpy())
    assert scored.metrics["test/accuracy"] == pytest.approx(
        float((predictions == data.test.all_labels()).double().mean())
    )
