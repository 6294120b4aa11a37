"""One full-batch training step of a codebook, and the distortion it reaches after a fixed number of such steps.

All start from the same k-means++ seeds, since seeding alone decides a factor of two. Distortion is the mean squared
distance from held-out tokens to the nearest codeword. Lloyd's algorithm of scikit-learn, run to its end, is the mark to
judge it by: distortion is what k-means minimises and the others do not, so theirs is at best equal.
"""

import copy
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.contest import Contest, Contestant
from benchmarks.machine import installed
from components.methods.ddcl import DDCLAttention, ExponentialTemperature, kmeans_plus_plus

SAMPLE = Path(__file__).parents[1] / "data" / "samples" / "orbital" / "satcat_2016_sample.csv"
COLUMNS = ("inclination_deg", "eccentricity", "mean_motion_rev_day", "period_min", "perigee_km", "apogee_km")
LOGARITHMIC = ("mean_motion_rev_day", "period_min", "perigee_km", "apogee_km")
STEPS, RATE = 60, 0.05
MEASURE = "distortion"


class Codebook(nn.Module):
    """A codebook with one training step; `step` counts."""

    def __init__(self) -> None:
        super().__init__()
        self.done = 0

    def codewords(self) -> Tensor:
        raise NotImplementedError

    def train_on(self, tokens: Tensor) -> None:
        raise NotImplementedError


class PrototypeCodebook(Codebook):
    """DDCL-Attention under Adam on L_q, the temperature falling from a tenth of the data's spread to a hundredth."""

    def __init__(self, seeds: Tensor, spread: float):
        super().__init__()
        self.layer = DDCLAttention(seeds.shape[1], len(seeds))
        with torch.no_grad():
            self.layer.prototypes.copy_(seeds)
        self.schedule = ExponentialTemperature(spread / 10, spread / 100, STEPS - 1)
        self.optimizer = torch.optim.Adam(self.layer.parameters(), lr=RATE)

    def codewords(self) -> Tensor:
        return self.layer.prototypes.detach()

    def train_on(self, tokens: Tensor) -> None:
        self.layer.set_temperature(self.schedule(min(self.done, STEPS - 1)))
        self.optimizer.zero_grad()
        self.layer(tokens[None]).loss.backward()
        self.optimizer.step()


class LloydCodebook(Codebook):
    """One iteration of Lloyd's algorithm in torch: nearest codeword, then the mean of what fell to it."""

    words: Tensor

    def __init__(self, seeds: Tensor):
        super().__init__()
        self.register_buffer("words", seeds.clone())

    def codewords(self) -> Tensor:
        return self.words

    def train_on(self, tokens: Tensor) -> None:
        nearest = torch.cdist(tokens, self.words).argmin(dim=1)
        counts = torch.bincount(nearest, minlength=len(self.words))
        sums = torch.zeros_like(self.words).index_add_(0, nearest, tokens)
        self.words = torch.where(counts[:, None] > 0, sums / counts.clamp_min(1)[:, None], self.words)


class QuantiserCodebook(Codebook):
    """vector-quantize-pytorch: its moving average, hard or by Gumbel noise, or a codebook learnt by gradient."""

    def __init__(self, seeds: Tensor, options: dict[str, object]):
        super().__init__()
        from vector_quantize_pytorch import VectorQuantize

        self.quantiser = VectorQuantize(seeds.shape[1], len(seeds), **options)
        inner = self.quantiser._codebook
        with torch.no_grad():
            inner.embed.copy_(seeds[None])
            inner.embed_avg.copy_(seeds[None])
        learnt = [weight for weight in self.quantiser.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.Adam(learnt, lr=RATE) if learnt else None

    def codewords(self) -> Tensor:
        words: Tensor = self.quantiser.codebook.detach()
        return words

    def train_on(self, tokens: Tensor) -> None:
        _, _, loss = self.quantiser(tokens[None])
        if self.optimizer is not None:
            self.optimizer.zero_grad()
            loss.sum().backward()
            self.optimizer.step()


def codebooks(seeds: Tensor, spread: float) -> dict[str, Codebook]:
    """The contestants from the same seeds (K, D), the yardstick first."""
    found: dict[str, Codebook] = {
        "DDCL-Attention": PrototypeCodebook(seeds, spread),
        f"Lloyd by index_add (torch {installed('torch')})": LloydCodebook(seeds),
    }
    package = "vector-quantize-pytorch"
    if installed(package) is not None:
        # it adds unit noise to distances, not squared ones, over this temperature
        noise = {"stochastic_sample_codes": True, "sample_codebook_temp": spread**0.5 / 10}
        gumbel = {**noise, "straight_through": True, "rotation_trick": False}
        for name, options in {
            "moving average": {},
            "moving average, Gumbel": gumbel,
            "learnt by gradient": {"learnable_codebook": True, "ema_update": False},
        }.items():
            found[f"VectorQuantize, {name} ({package} {installed(package)})"] = QuantiserCodebook(seeds, options)
    return found


def distortion(tokens: Tensor, words: Tensor) -> float:
    return float(torch.cdist(tokens.double(), words.double()).square().amin(dim=1).mean())


def contests() -> Iterator[Contest]:
    generator = torch.Generator().manual_seed(4)
    mixture = torch.randn(32, 16, generator=generator)[torch.randint(32, (8000,), generator=generator)] * 2
    yield _contest("a mixture of 32 normal clouds", mixture + torch.randn(8000, 16, generator=generator), 32)
    yield _contest("the orbital sample", orbital_tokens(), 48)


def orbital_tokens() -> Tensor:
    """The shipped sample's quantities (6000, 6), logarithms where they span decades, standardised."""
    import pandas as pd

    frame = pd.read_csv(SAMPLE)[list(COLUMNS)]
    values = torch.tensor(frame.to_numpy(dtype="float64"))
    logarithmic = torch.tensor([name in LOGARITHMIC for name in COLUMNS])
    values = torch.where(logarithmic, values.clamp_min(1e-3).log(), values)
    return ((values - values.mean(dim=0)) / values.std(dim=0)).float()


def _contest(data: str, tokens: Tensor, count: int) -> Contest:
    from sklearn.cluster import KMeans

    order = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(0))
    held, kept = tokens[order[: len(order) // 5]], tokens[order[len(order) // 5 :]]
    seeds = kmeans_plus_plus(kept, count, torch.Generator().manual_seed(0))
    start = distortion(held, seeds)
    # what a token has to do with its own codeword sets the scale of useful temperatures
    spread = distortion(kept, seeds)
    mark = KMeans(count, n_init=1, init=seeds.numpy(), max_iter=300).fit(kept.numpy())
    mark_distortion = distortion(held, torch.from_numpy(mark.cluster_centers_))
    contestants = []
    for name, fresh in codebooks(seeds, spread).items():
        fault = _same_start(fresh, seeds)
        torch.manual_seed(0)
        trained = copy.deepcopy(fresh).train()
        for trained.done in range(STEPS):
            trained.train_on(kept)
        reached = distortion(held, trained.codewords())
        if not math.isfinite(reached):
            fault = fault or f"its distortion is {reached}"
        contestants.append(Contestant(name, _step(trained, kept), {MEASURE: f"{reached:.4f}"}, fault))
    title = (
        f"{data}: {len(kept)} tokens of width {tokens.shape[1]}, {count} codewords, {STEPS} steps; distortion of the "
        f"seeds {start:.4f}, of k-means run to its end (scikit-learn {installed('scikit-learn')}) {mark_distortion:.4f}"
    )
    return Contest(title, (MEASURE,), tuple(contestants))


def _same_start(codebook: Codebook, seeds: Tensor) -> str:
    return "" if torch.equal(codebook.codewords(), seeds) else "it does not start from the common seeds"


def _step(codebook: Codebook, tokens: Tensor) -> Callable[[], None]:
    return partial(codebook.train_on, tokens)
