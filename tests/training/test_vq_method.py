"""Method ddcl-vq on real pictures: what it refuses, that it learns, resumes bit for bit, and what it is scored by."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from components.arrays import save_array
from components.config import ReadsConfig, TaskConfig, TrainConfig
from components.errors import ConfigError
from components.files import write_json
from components.stages.scoring import autoencoder as scoring
from components.training.core.trainer import FitResult, fit
from components.training.data.batches import TrainingData
from components.training.data.forms import read_data
from components.training.ddcl import vq_method
from components.training.ddcl.quantisers import QUANTISERS
from components.training.ddcl.vq_scores import rebuild
from components.training.registry import method
from tests.training.tables import train_config

SAMPLE = Path(__file__).parents[2] / "data" / "samples" / "images" / "fashion-mnist-sample-t10k-images-idx3-ubyte.gz"
CLASSES = ("a", "b")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 of the shipped pictures, as preparing leaves them."""
    import gzip

    folder = tmp_path_factory.mktemp("prepared")
    pixels = np.frombuffer(gzip.decompress(SAMPLE.read_bytes()), dtype=np.uint8, offset=16).reshape(-1, 28, 28, 1)
    save_array(folder / "images.npy", pixels[:200])
    save_array(folder / "labels.npy", np.arange(200, dtype=np.int64) % 2)
    save_array(folder / "splits.npy", np.array([(0, 0, 0, 1, 2)[row % 5] for row in range(200)], dtype=np.uint8))
    write_json(folder / "summary.json", {"classes": list(CLASSES)})
    return folder


def config(epochs: int = 3, **model: Any) -> TrainConfig:
    table = train_config()
    settings = {"channels": 1, "width": 8, "dim": 4, "num_codes": 12, "loss_weight": 0.02, **model}
    return table.model_copy(
        update={
            "method": "ddcl-vq",
            "reads": ReadsConfig(form="images", folder="prepared/few", gate="gate_data/few"),
            "task": TaskConfig(classes=CLASSES),
            "model": settings,
            "training": table.training.model_copy(
                update={"epochs": epochs, "batch_size": 10, "learning_rate": 0.004, "timescale_ratio": 1.0}
            ),
        }
    )


def trained_on(of: TrainConfig, data: TrainingData[Any], checkpoint: Path) -> tuple[dict[str, torch.Tensor], FitResult]:
    module = method(of.method).untrained(of, data)
    result = fit(module, data, of, checkpoint)
    return {name: value.clone().contiguous() for name, value in module.network.state_dict().items()}, result


@pytest.mark.parametrize("quantiser", sorted(QUANTISERS))
def test_it_learns_and_a_resumed_training_ends_in_the_same_bits(quantiser: str, prepared: Path, tmp_path: Path) -> None:
    of = config(epochs=14, quantiser=quantiser, **({} if quantiser == "soft" else {"revive_below": 0.3, "decay": 0.9}))
    data = read_data(of, prepared)
    straight, whole = trained_on(of, data, tmp_path / "straight.ckpt")
    errors = [entry["metrics"]["validation/pixel_error"] for entry in whole.history]
    assert errors[-1] < 0.8 * errors[0]
    metrics = whole.history[-1]["metrics"]
    assert 0.1 < metrics["validation/explained"] < 1
    parts = metrics["validation/reconstruction"] + metrics["validation/diversity"]
    assert metrics["validation/quantisation_loss"] == pytest.approx(parts, rel=1e-4)

    class Stop(Exception):  # noqa: N818 - no error, but the end of a process
        pass

    def stop(step: int, _: dict[str, float]) -> None:
        if step == whole.history[5]["step"]:
            raise Stop

    with pytest.raises(Stop):
        fit(method(of.method).untrained(of, data), data, of, tmp_path / "stopped.ckpt", stop)
    resumed, rest = trained_on(of, data, tmp_path / "stopped.ckpt")
    assert rest.resumed
    assert rest.history == whole.history
    assert all(torch.equal(resumed[name], value) for name, value in straight.items())


def test_scores_are_those_of_the_model_by_hand(prepared: Path, tmp_path: Path) -> None:
    of = config(epochs=8)
    data = read_data(of, prepared)
    weights, _ = trained_on(of, data, tmp_path / "last.ckpt")
    save_file(weights, tmp_path / "weights")
    found = rebuild(of, tmp_path / "weights", data, shown=5)
    images = data.test.sample(10**6, torch.Generator().manual_seed(0)).images
    train = data.train.sample(10**6, torch.Generator().manual_seed(0)).images
    model = vq_method.trained(of, tmp_path / "weights")
    with torch.no_grad():
        output = model(images)
    error = float((output.images - images).double().square().mean())
    left = float((images - train.double().mean(dim=0)).square().mean())
    assert found.model["pixel_error"] == pytest.approx(error, rel=1e-5)
    assert found.systems["mean_image"]["pixel_error"] == pytest.approx(left, rel=1e-5)
    assert found.model["explained"] == pytest.approx(1 - error / left, rel=1e-4)
    wins = torch.bincount(output.indices.flatten(), minlength=12)
    assert found.model["utilisation"] == pytest.approx(float((wins > 0).double().mean()))
    assert found.shares.tolist() == pytest.approx((wins / wins.sum()).tolist())
    # as many codes placed by k-means lie nearer to the latents than those that were trained for other ends as well
    assert found.systems["kmeans"]["distortion"] < found.model["distortion"]
    assert found.shown["image"].shape == (5, 1, 28, 28)
    scored = scoring.score(of, tmp_path / "weights", data)
    assert scored.metrics["test/pixel_error"] == found.model["pixel_error"]
    assert set(scored.details["notes"]) == {"model", *found.systems}


def test_pictures_are_drawn(prepared: Path, tmp_path: Path) -> None:
    from components.tracking.records import write_history

    of = config(epochs=2)
    data = read_data(of, prepared)
    weights, result = trained_on(of, data, tmp_path / "last.ckpt")
    save_file(weights, tmp_path / "weights")
    write_history(tmp_path, ((entry["step"], entry["metrics"]) for entry in result.history))
    scored = scoring.score(of, tmp_path / "weights", data)
    (tmp_path / "plots").mkdir()
    scoring.draw(scored, of, tmp_path, tmp_path / "plots", "few")
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {
        "codes.png",
        "reconstructions.png",
        "training.png",
    }
    shutil.rmtree(tmp_path / "plots")


def test_use_of_the_first_epoch_is_kept(prepared: Path, tmp_path: Path) -> None:
    of = config(epochs=3)
    _, result = trained_on(of, read_data(of, prepared), tmp_path / "last.ckpt")
    first, *rest = (entry["metrics"] for entry in result.history)
    for metrics in (first, *rest):
        assert metrics["prototypes/utilisation_of_first_epoch"] == first["prototypes/utilisation"]
        assert metrics["prototypes/utilisation_after_first_epoch"] == first["prototypes/validation_utilisation"]
    full = [number for number, metrics in enumerate((first, *rest), start=1) if metrics["prototypes/utilisation"] == 1]
    assert rest[-1]["prototypes/epochs_to_full_use"] == (full[0] if full else 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"channels": 3}, "model.channels is 3, and the images have 1; set it to 1"),
        ({"revive_below": 0.1}, "revive_below is set, and a soft quantiser does not read it"),
        ({"quantiser": "hard", "temperature_end": 0.1}, "temperature_end is set, and a hard quantiser does not"),
        ({"quantiser": "softest"}, "Input should be 'soft', 'hard' or 'hard-ema'"),
    ],
)
def test_a_model_that_cannot_be_is_refused(changes: dict[str, Any], message: str, prepared: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        vq_method.untrained(config(**changes), read_data(config(), prepared))


def test_other_forms_are_refused() -> None:
    with pytest.raises(ConfigError, match="ddcl-vq reads rows of form 'table'; it can read: images"):
        vq_method.check(config().model_copy(update={"reads": train_config().reads}))
