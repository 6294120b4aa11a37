"""A trained VQ autoencoder on test images: its errors, the use of its codes, and what simpler systems do."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from components.config import TrainConfig
from components.methods.ddcl import codebook_usage
from components.methods.ddcl.autoencoder import VQAutoencoder
from components.training.data.batches import Rows, TrainingData
from components.training.data.images import ImageBatch
from components.training.ddcl.vq import mean_image
from components.training.ddcl.vq_method import trained

# Training images whose latents k-means is fitted on.
KMEANS_IMAGES = 400


@dataclass(frozen=True)
class Rebuilt:
    """Scores of the model and of simpler systems; shares (K,) of test latents by code; pictures (N, C, H, W)."""

    model: dict[str, float]
    systems: dict[str, dict[str, float]]
    shares: np.ndarray
    shown: dict[str, np.ndarray]


@torch.no_grad()
def rebuild(config: TrainConfig, weights: Path, data: TrainingData[ImageBatch], shown: int) -> Rebuilt:
    """Go through the test images once, and fit k-means on latents of training images with the run's seed."""
    model = trained(config, weights)
    mean = mean_image(data).float()
    left = _error(data.test, mean.expand_as)
    counts = torch.zeros(model.quantiser.num_codes, dtype=torch.int64)
    errors: dict[str, float] = {"model": 0.0, "nearest": 0.0}
    distortion, latents = 0.0, 0
    for batch in data.test.in_order():
        output = model(batch.images)
        counts += torch.bincount(output.indices.flatten(), minlength=len(counts))
        errors["model"] += _sum(output.images, batch.images)
        errors["nearest"] += _sum(model.decode(output.indices), batch.images)
        distortion += float(output.quantised.distortion.double()) * output.indices.numel()
        latents += output.indices.numel()
    usage = codebook_usage(counts)
    pixel_error = {name: total / len(data.test) for name, total in errors.items()}
    first = data.test.__getitems__(list(range(min(shown, len(data.test))))).images
    output = model(first)
    pictures = {"image": first, "rebuilt": output.images, "nearest code": model.decode(output.indices)}
    return Rebuilt(
        model={
            "pixel_error": pixel_error["model"],
            "explained": 1 - pixel_error["model"] / left,
            "utilisation": usage.utilisation,
            "perplexity": usage.perplexity,
            "distortion": distortion / latents,
        },
        systems={
            "mean_image": {"pixel_error": left, "explained": 0.0},
            "nearest": {
                "pixel_error": pixel_error["nearest"],
                "explained": 1 - pixel_error["nearest"] / left,
            },
            "kmeans": _kmeans(config, model, data, left),
        },
        shares=(counts.double() / counts.sum()).numpy(),
        shown={name: images.numpy() for name, images in pictures.items()},
    )


def _kmeans(config: TrainConfig, model: VQAutoencoder, data: TrainingData[ImageBatch], left: float) -> dict[str, float]:
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    generator = torch.Generator().manual_seed(config.seed)
    latents = model.encode(data.train.sample(KMEANS_IMAGES, generator).images).flatten(0, 1).double().numpy()
    # sums over several threads are ordered by chance
    with threadpool_limits(limits=1):
        fitted = KMeans(model.quantiser.num_codes, n_init=1, random_state=config.seed, algorithm="lloyd").fit(latents)
        centres = torch.from_numpy(fitted.cluster_centers_)
    error, distortion, count = 0.0, 0.0, 0
    for batch in data.test.in_order():
        tokens = model.encode(batch.images)
        distances, nearest = torch.cdist(tokens.double(), centres).min(dim=-1)
        distortion += float(distances.square().sum())
        count += nearest.numel()
        error += _sum(model.decode_codes(centres[nearest].float(), _grid(model, batch.images)), batch.images)
    pixel_error = error / len(data.test)
    return {"pixel_error": pixel_error, "explained": 1 - pixel_error / left, "distortion": distortion / count}


def _grid(model: VQAutoencoder, images: Tensor) -> tuple[int, int]:
    factor = 2**model.downsamplings
    return images.shape[2] // factor, images.shape[3] // factor


def _error(rows: Rows[ImageBatch], answer: Any) -> float:
    return sum(_sum(answer(batch.images), batch.images) for batch in rows.in_order()) / len(rows)


def _sum(answer: Tensor, truth: Tensor) -> float:
    """Mean squared error per pixel, summed over images."""
    return float((answer.double() - truth.double()).square().flatten(1).mean(dim=1).sum())
