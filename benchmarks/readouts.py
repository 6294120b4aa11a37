"""The readouts that are compared, each a module (B, T, D) -> (vector (B, W), auxiliary loss, DDCLOutput or None)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.machine import installed
from components.methods.ddcl import DDCLAttention, DDCLOutput, pool

Answer = tuple[Tensor, Tensor, DDCLOutput | None]
YARDSTICK = "DDCL-Attention"


class Readout(nn.Module):
    """Base: `width` is that of the vector it gives."""

    width: int

    def prepare(self, tokens: Tensor, temperature: float) -> None:
        """Take a start from tokens (B, T, D), for those that have prototypes."""

    def bank(self) -> Tensor:
        """The prototypes (K, D), for those that have some."""
        raise NotImplementedError(f"{type(self).__name__} has no prototypes")

    def forward(self, tokens: Tensor) -> Answer:
        raise NotImplementedError


class PrototypeReadout(Readout):
    """DDCL-Attention with the pooling of this project: mean code beside histogram, its loss as the auxiliary one."""

    def __init__(self, dim: int, count: int, precision: str = "double"):
        super().__init__()
        self.layer = DDCLAttention(dim, count, precision=precision)
        self.width = dim + count

    def prepare(self, tokens: Tensor, temperature: float) -> None:
        self.layer.set_temperature(temperature)
        self.layer.initialise(tokens, torch.Generator().manual_seed(0), noise_std=0.01)

    def bank(self) -> Tensor:
        return self.layer.prototypes

    def read(self, tokens: Tensor) -> DDCLOutput:
        answer: DDCLOutput = self.layer(tokens)
        return answer

    def forward(self, tokens: Tensor) -> Answer:
        output = self.read(tokens)
        return torch.cat(pool(output.codes, output.assignments), dim=-1), output.loss, output


class ExplicitReadout(PrototypeReadout):
    """The same outputs by (N, K, D) broadcasting in the tokens' own type, as the equations are written."""

    def read(self, tokens: Tensor) -> DDCLOutput:
        bank = self.layer.prototypes
        distances = (tokens[..., None, :] - bank).square().sum(dim=-1)
        q = torch.softmax(-distances / self.layer.temperature.to(tokens), dim=-1)
        mu = q @ bank
        return DDCLOutput(
            codes=mu,
            assignments=q,
            loss=(q * distances).sum(dim=-1).mean(),
            reconstruction=(tokens - mu).square().sum(dim=-1).mean(),
            diversity=(q * (bank - mu[..., None, :]).square().sum(dim=-1)).sum(dim=-1).mean(),
        )


class QueryReadout(Readout):
    """Cross-attention of K learned queries, the readout of set transformers, by torch's own module."""

    def __init__(self, dim: int, count: int):
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, num_heads=1, batch_first=True)
        self.queries = nn.Parameter(torch.randn(1, count, dim))
        self.width = dim

    def forward(self, tokens: Tensor) -> Answer:
        summary, _ = self.attention(self.queries.expand(len(tokens), -1, -1), tokens, tokens, need_weights=False)
        return summary.mean(dim=1), tokens.new_zeros(()), None


class MeanReadout(Readout):
    def __init__(self, dim: int, count: int):
        super().__init__()
        self.width = dim

    def forward(self, tokens: Tensor) -> Answer:
        return tokens.mean(dim=1), tokens.new_zeros(()), None


class SlotReadout(Readout):
    """Slot attention with its three iterations; the slots are averaged, for they come in no order."""

    def __init__(self, dim: int, count: int):
        super().__init__()
        from slot_attention import SlotAttention

        self.slots = SlotAttention(count, dim)
        self.width = dim

    def forward(self, tokens: Tensor) -> Answer:
        return self.slots(tokens).mean(dim=1), tokens.new_zeros(()), None


class LatentReadout(Readout):
    """Perceiver's cross-attention of K latents, one head of the tokens' width."""

    def __init__(self, dim: int, count: int):
        super().__init__()
        from perceiver_pytorch.perceiver_pytorch import Attention

        self.attention = Attention(dim, heads=1, dim_head=dim)
        self.latents = nn.Parameter(torch.randn(1, count, dim))
        self.width = dim

    def forward(self, tokens: Tensor) -> Answer:
        summary = self.attention(self.latents.expand(len(tokens), -1, -1), context=tokens)
        return summary.mean(dim=1), tokens.new_zeros(()), None


class QuantisedReadout(Readout):
    """vector-quantize-pytorch with its defaults, seeded by its k-means; mean of the quantised tokens.

    `soft` samples codes with Gumbel noise and passes the gradient of the softmax on; else the nearest code is taken.
    """

    def __init__(self, dim: int, count: int, soft: bool):
        super().__init__()
        from vector_quantize_pytorch import VectorQuantize

        options = {"stochastic_sample_codes": True, "straight_through": True, "rotation_trick": False} if soft else {}
        self.quantiser = VectorQuantize(dim, count, kmeans_init=True, **options)
        self.width = dim

    def prepare(self, tokens: Tensor, temperature: float) -> None:
        # its k-means runs in the first call
        self.quantiser(tokens)

    def forward(self, tokens: Tensor) -> Answer:
        quantised, _, loss = self.quantiser(tokens)
        return quantised.mean(dim=1), loss.sum(), None


@dataclass(frozen=True)
class Kind:
    """`package` must be installed; `largest_error` is what its arithmetic may be off by."""

    make: Callable[[int, int], Readout]
    package: str = "torch"
    largest_error: float = float("inf")

    def title(self, name: str) -> str:
        return name if name.startswith(YARDSTICK) else f"{name} ({self.package} {installed(self.package)})"


READOUTS = {
    YARDSTICK: Kind(PrototypeReadout, largest_error=1e-5),
    "DDCL-Attention, single precision": Kind(
        lambda dim, count: PrototypeReadout(dim, count, "single"), largest_error=1e-3
    ),
    "explicit broadcasting in float32": Kind(ExplicitReadout, largest_error=1e-3),
    "nn.MultiheadAttention, K queries": Kind(QueryReadout),
    "mean pooling": Kind(MeanReadout),
    "VectorQuantize, hard": Kind(lambda dim, count: QuantisedReadout(dim, count, False), "vector-quantize-pytorch"),
    "VectorQuantize, Gumbel straight-through": Kind(
        lambda dim, count: QuantisedReadout(dim, count, True), "vector-quantize-pytorch"
    ),
    "SlotAttention, K slots, 3 iterations": Kind(SlotReadout, "slot-attention"),
    "Perceiver cross-attention, K latents": Kind(LatentReadout, "perceiver-pytorch"),
}


def available() -> list[str]:
    """The readouts whose package is installed, in order; the others are named on standard output."""
    absent = sorted({kind.package for kind in READOUTS.values() if installed(kind.package) is None})
    if absent:
        print(f"not installed, so not compared: {', '.join(absent)} (pip install -e '.[peers]')", flush=True)
    return [name for name, kind in READOUTS.items() if kind.package not in absent]
