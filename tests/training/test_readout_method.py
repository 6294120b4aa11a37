"""Method ddcl-readout on tables and on token features: what it refuses, what baselines see, what readers are told."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from components.arrays import append_rows, save_array
from components.config import ReadsConfig, TaskConfig, TrainConfig
from components.errors import ConfigError
from components.files import write_json
from components.training.core.trainer import fit
from components.training.data.batches import TrainingData
from components.training.data.forms import read_data
from components.training.ddcl import readout_method
from components.training.ddcl.readouts import READOUTS
from components.training.registry import Classifier, classifier, method
from tests.training.tables import sample_table, train_config

WIDTH, ROWS = 6, 60
WORDS = ["[PAD]", "[CLS]", "[SEP]", "good", "bad", "film", "##s", "very"]
# what a row of each class says, as places in WORDS
SAYS = {0: (1, 7, 4, 5, 6, 2), 1: (1, 3, 5, 2)}


def features(folder: Path) -> Path:
    """Sixty sentences of two kinds; a token's features are its word's own vector with a little noise."""
    random = np.random.default_rng(3)
    vectors = random.normal(size=(len(WORDS), WIDTH))
    labels = np.arange(ROWS) % 2
    tokens = [np.array(SAYS[int(label)]) for label in labels]
    append_rows(folder / "tokens.npy", folder / "offsets.npy", iter(tokens), np.uint32)
    noisy = (vectors[row] + 0.05 * random.normal(size=(len(row), WIDTH)) for row in tokens)
    append_rows(folder / "features.npy", folder / "offsets.npy", noisy, np.float16, WIDTH)
    save_array(folder / "labels.npy", labels.astype(np.int64))
    save_array(folder / "splits.npy", np.array([(0, 0, 0, 1, 2)[row // 2 % 5] for row in range(ROWS)], dtype=np.uint8))
    write_json(folder / "ids.json", [f"sentence {row}" for row in range(ROWS)])
    write_json(folder / "vocabulary.json", WORDS)
    write_json(folder / "summary.json", {"classes": ["bad", "good"]})
    return folder


def text_config(**model: Any) -> TrainConfig:
    table = train_config()
    of_text = {**table.model, "num_features": WIDTH, "num_prototypes": 4, "anchor_weight": 0.0, **model}
    return table.model_copy(
        update={
            "reads": ReadsConfig(form="features", folder="features/few", gate="gate_features/few"),
            "task": TaskConfig(classes=("bad", "good")),
            "model": of_text,
        }
    )


def trained_on(config: TrainConfig, data: TrainingData[Any], folder: Path) -> Path:
    """Where the weights lie."""
    module = method(config.method).untrained(config, data)
    fit(module, data, config, folder / "last.ckpt")
    save_file({name: value.contiguous() for name, value in module.network.state_dict().items()}, folder / "weights")
    return folder / "weights"


def test_the_method_is_a_classifier_and_the_autoencoder_is_none() -> None:
    assert isinstance(method("ddcl-readout"), Classifier)
    assert classifier("ddcl-readout") is method("ddcl-readout")
    with pytest.raises(ConfigError, match="models of method 'ddcl-vq' predict no class"):
        classifier("ddcl-vq")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_features": None}, "model.num_features is None and the task names 0 features"),
        ({"num_features": 7}, "num_features is 7, and the rows are 6 wide; set it to 6"),
        ({"encoder": "frozen"}, "leaves 6 features as they are, and dim is 4: set dim to 6"),
        ({"num_prototypes": (4, 2)}, r"num_prototypes is \(4, 2\) and the readout 'ddcl'"),
        ({"readout": "hierarchy"}, "num_prototypes is 4 and the readout 'hierarchy'"),
        ({"readout": "hierarchy", "num_prototypes": (4,)}, "a hierarchy has two levels or more"),
        ({"level_weights": (1.0, 1.0)}, "level_weights has one weight for each level of a hierarchy"),
        ({"readout": "mean", "supervised": False}, "readout 'mean' learns from labels alone"),
        ({"supervised": False, "loss_weight": 0.0}, "without labels loss_weight must be above 0"),
        ({"readout": "slots", "anchor_weight": 0.1}, "readout 'slots' has none"),
    ],
)
def test_a_model_that_cannot_be_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    config = text_config(**changes)
    with pytest.raises(ConfigError, match=message):
        readout_method.untrained(config, read_data(text_config(), features(tmp_path)))


def test_forms_that_are_not_read_are_refused() -> None:
    images = ReadsConfig(form="images", folder="prepared/few", gate="gate_data/few")
    with pytest.raises(ConfigError, match="reads rows of form 'images'; it can read: table, features"):
        readout_method.check(text_config().model_copy(update={"reads": images}))
    named = text_config().model_copy(update={"task": TaskConfig(classes=("a", "b"), features=("x",))})
    with pytest.raises(ConfigError, match="features of an encoder have no names"):
        readout_method.check(named)


def test_baselines_of_a_table_see_the_rows_as_the_model_scales_them(tmp_path: Path) -> None:
    config = train_config()
    data = sample_table(tmp_path, config)
    weights = trained_on(config, data, tmp_path)
    (view,) = readout_method.views(config, weights, data.test).items()
    assert view[0] == ""
    scaler = readout_method.trained(config, weights).scaler
    assert torch.equal(view[1], scaler(data.test.matrix))  # type: ignore[attr-defined]
    mean = readout_method.views(config, weights, data.train)[""].mean(dim=0)
    torch.testing.assert_close(mean, torch.zeros(3), rtol=0, atol=1e-4)


def test_baselines_of_a_text_see_its_mean_and_its_first_token(tmp_path: Path) -> None:
    config = text_config()
    data = read_data(config, features(tmp_path))
    weights = trained_on(config, data, tmp_path)
    views = readout_method.views(config, weights, data.validation)
    scaler = readout_method.trained(config, weights).scaler
    for row, batch in enumerate(data.validation.in_order(1)):
        scaled = scaler(batch.tokens[batch.mask])
        torch.testing.assert_close(views["mean"][row], scaled.mean(dim=0), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(views["cls"][row], scaled[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("readout", sorted(READOUTS))
def test_every_readout_trains_and_answers_for_every_row(readout: str, tmp_path: Path) -> None:
    config = text_config(readout=readout, num_prototypes=(4, 2) if readout == "hierarchy" else 4)
    data = read_data(config, features(tmp_path))
    weights = trained_on(config, data, tmp_path)
    answers = readout_method.answers(config, weights, data.test)
    assert answers.logits.shape == (len(data.test), 2)
    if answers.mixtures is not None:
        torch.testing.assert_close(answers.mixtures.sum(dim=1), torch.ones(len(data.test)))
    # one row at a time gives the same
    model = readout_method.trained(config, weights)
    with torch.no_grad():
        alone = torch.cat([model(batch.tokens, batch.mask).logits for batch in data.test.in_order(1)])
    torch.testing.assert_close(answers.logits, alone, rtol=1e-4, atol=1e-5)


def test_prototypes_of_texts_are_told_in_words_and_documents(tmp_path: Path) -> None:
    config = text_config()
    data = read_data(config, features(tmp_path))
    weights = trained_on(config, data, tmp_path)
    entries = readout_method.describe(config, weights, data.train)
    assert len(entries) == 4
    assert sum(entry["share"] for entry in entries) == pytest.approx(1.0, abs=1e-3)
    around = {0: "very bad films [SEP]", 1: "good film [SEP]"}
    for entry in entries:
        for told in entry["nearest"]:
            assert told["word"] in WORDS[1:]
            assert told["around"].endswith(around[["bad", "good"].index(told["class"])])
        for document in entry["documents"]:
            number = int(document["id"].removeprefix("sentence "))
            assert document["text"] == ("[CLS] good film [SEP]" if number % 2 else "[CLS] very bad films [SEP]")
            assert document["class"] == ("good" if number % 2 else "bad")
        shares = [document["share"] for document in entry["documents"]]
        assert shares == sorted(shares, reverse=True)


def test_rows_are_explained_by_their_mixture(tmp_path: Path) -> None:
    config = text_config()
    data = read_data(config, features(tmp_path))
    weights = trained_on(config, data, tmp_path)
    answers = readout_method.answers(config, weights, data.test)
    explained = readout_method.explain(config, weights, data.test)
    assert answers.mixtures is not None
    for row, entry in enumerate(explained):
        assert entry["predicted"] == ["bad", "good"][int(answers.logits[row].argmax())]
        first = next(iter(entry["mixture"]))
        assert int(first) == int(answers.mixtures[row].argmax())
        assert entry["mixture"][first] == pytest.approx(float(answers.mixtures[row].max()), abs=1e-4)


def test_without_labels_the_head_learns_nothing_and_the_prototypes_do(tmp_path: Path) -> None:
    config = text_config(supervised=False, loss_weight=1.0, encoder="frozen", dim=WIDTH)
    data = read_data(config, features(tmp_path))
    before = method(config.method).untrained(config, data)
    head = before.network.head.weight.detach().clone()
    bank = before.network.readout.layer.prototypes.detach().clone()
    weights = trained_on(config, data, tmp_path)
    after = readout_method.trained(config, weights)
    assert torch.equal(after.head.weight, head)
    assert not torch.equal(after.readout.layer.prototypes, bank)
    assert not readout_method.supervised(config)
