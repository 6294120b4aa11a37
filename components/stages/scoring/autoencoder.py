"""What a trained VQ autoencoder scores on the test images, beside answering the mean image and beside k-means."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from components.config import TrainConfig

if TYPE_CHECKING:
    from components.training.data.batches import TrainingData

SHOWN = 12
NOTES = {
    "model": "squared error per pixel of the reconstruction; use, perplexity and distortion are of the test latents",
    "mean_image": "always the mean training image: what a model without latents can do",
    "nearest": "the same model, its decoder given the nearest codeword of each latent instead of the soft code",
    "kmeans": "the same latents quantised by k-means (k-means++ seeds) with as many codes, fitted on training latents; "
    "its distortion says how well that many codes could do, its images come from a decoder not trained on them",
}


@dataclass(frozen=True)
class Reconstructed:
    """Scores by name, of the model and of every other system, and what the pictures show.

    shares (K,) of all test latents that each code wins; images and their reconstructions (N, C, H, W).
    """

    model: dict[str, float]
    systems: dict[str, dict[str, float]]
    shares: np.ndarray
    shown: dict[str, np.ndarray]
    rows: int

    @property
    def details(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "baselines": self.systems,
            "notes": {name: NOTES[name] for name in ("model", *self.systems)},
            "test_rows": self.rows,
            "rows_of_other_classes_left_out": 0,
        }

    @property
    def metrics(self) -> dict[str, float]:
        flat = {f"test/{name}": value for name, value in self.model.items()}
        for system, values in self.systems.items():
            flat |= {f"baseline/{system}/{name}": value for name, value in values.items()}
        return flat


def score(config: TrainConfig, weights: Path, data: "TrainingData[Any]") -> Reconstructed:
    """Rebuild the test images with the trained model in `weights`."""
    from components.training.ddcl.vq_scores import rebuild

    rebuilt = rebuild(config, weights, data, SHOWN)
    return Reconstructed(rebuilt.model, rebuilt.systems, rebuilt.shares, rebuilt.shown, len(data.test))


def tell(config: TrainConfig, weights: Path, data: "TrainingData[Any]") -> dict[str, Any]:
    """Codes of images have no words."""
    return {}


def draw(scored: Reconstructed, config: TrainConfig, training: Path, folder: Path, name: str) -> None:
    """Images beside their reconstructions, use of the codes, and the course of training."""
    from components.evaluation.pictures import plot_codebook, plot_reconstructions, plot_use_of_codes
    from components.tracking.records import HISTORY_NAME, read_history

    history = read_history(training / HISTORY_NAME)
    steps = [step for step, _ in history]
    series = {metric: np.array([metrics[metric] for _, metrics in history]) for metric in history[0][1]}
    plot_reconstructions(scored.shown, folder / "reconstructions.png", f"{name}: test images")
    plot_use_of_codes(scored.shares, folder / "codes.png", f"{name}: codes of the test images")
    plot_codebook(
        steps,
        {part: series[f"{part}/pixel_error"] for part in ("train", "validation")},
        {
            "in use": series["prototypes/utilisation"],
            "perplexity / codes": series["prototypes/perplexity"] / len(scored.shares),
        },
        folder / "training.png",
    )
