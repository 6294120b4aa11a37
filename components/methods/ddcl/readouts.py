"""DDCL-Attention as a readout of sequences, single and stacked, behind the interface that its rivals share."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from typing_extensions import override

from components.methods.ddcl.attention import DDCLAttention, DDCLOutput
from components.methods.ddcl.hierarchy import HierarchicalDDCL
from components.methods.ddcl.metrics import codebook_usage, prototype_separation, usage_counts
from components.methods.ddcl.readout import pool
from components.methods.interfaces.readout import Readout, ReadoutOutput

Tokens = Float[Tensor, "batch tokens dim"]
Mask = Bool[Tensor, "batch tokens"]


class PrototypeReadout(Readout):
    """A sequence by its mean code beside its histogram of prototypes, and by nothing else.

    Every decision of a head on it is thus a statement about global prototypes. The paper leaves the pooling of codes
    open; mean code beside histogram is our default. `loss` is L_q, and `terms` are its two parts.
    """

    usage: Tensor

    def __init__(self, dim: int, num_parts: int, temperature: float = 1.0):
        super().__init__()
        self.layer = DDCLAttention(dim, num_parts, temperature)
        self.width = dim + num_parts
        self.num_parts = num_parts
        self.register_buffer("usage", torch.zeros(num_parts, dtype=torch.int64), persistent=False)

    @property
    def layers(self) -> tuple[DDCLAttention, ...]:
        """The layers from the tokens upwards: here one."""
        return (self.layer,)

    def last(self, tokens: Tokens, mask: Mask | None = None) -> DDCLOutput:
        """What the last layer says of each token."""
        output: DDCLOutput = self.layer(tokens, mask)
        return output

    @override
    def forward(self, tokens: Tokens, mask: Mask | None = None) -> ReadoutOutput:
        output = self.last(tokens, mask)
        if self.training:
            self.usage += usage_counts(output.assignments, mask)
        code, histogram = pool(output.codes, output.assignments, mask)
        return ReadoutOutput(
            vector=torch.cat([code, histogram], dim=-1),
            mixture=histogram,
            loss=output.loss,
            terms={"reconstruction": output.reconstruction, "diversity": output.diversity},
            codes=output.codes,
        )

    @override
    @torch.no_grad()
    def initialise(
        self,
        tokens: Tokens,
        generator: torch.Generator,
        mask: Mask | None = None,
        *,
        noise_std: float = 0.0,
        method: str = "k-means++",
    ) -> None:
        """Place the prototypes by one of `INITIALISATIONS`. Raises as `kmeans_plus_plus` does."""
        self.layer.initialise(tokens, generator, mask, noise_std, method)

    def set_temperature(self, value: float) -> None:
        self.layer.set_temperature(value)

    @override
    def health(self) -> dict[str, float]:
        """Separation, and how widely the prototypes were used since this was last asked."""
        separation = prototype_separation(self.layer.prototypes.detach())
        usage = codebook_usage(self.usage)
        self.usage.zero_()
        return {
            "separation_min": separation.minimum,
            "separation_mean": separation.mean,
            "utilisation": usage.utilisation,
            "perplexity": usage.perplexity,
            "temperature": float(self.layer.temperature),
        }


class HierarchyReadout(Readout):
    """Stacked layers: a sequence by its mean code on the last level beside its histograms on every level.

    `loss` is the weighted sum of the levels' L_q; `terms` are its two parts on all levels together (weighted alike),
    and those of each level by themselves. The mixture is that of the last level.
    """

    usage: Tensor

    def __init__(
        self,
        dim: int,
        num_parts: Sequence[int],
        temperature: float = 1.0,
        level_weights: Sequence[float] | None = None,
    ):
        super().__init__()
        counts = tuple(num_parts)
        self.stack = HierarchicalDDCL(dim, counts, temperature, level_weights)
        self.width = dim + sum(counts)
        self.num_parts = counts[-1]
        self.register_buffer("usage", torch.zeros(sum(counts), dtype=torch.int64), persistent=False)

    @property
    def layers(self) -> tuple[DDCLAttention, ...]:
        """The layers from the tokens upwards."""
        return tuple(self.stack.levels)

    def last(self, tokens: Tokens, mask: Mask | None = None) -> DDCLOutput:
        """What the last layer says of each token."""
        output: DDCLOutput = self.stack(tokens, mask).levels[-1]
        return output

    @override
    def forward(self, tokens: Tokens, mask: Mask | None = None) -> ReadoutOutput:
        stacked = self.stack(tokens, mask)
        if self.training:
            self.usage += torch.cat([usage_counts(level.assignments, mask) for level in stacked.levels])
        pooled = [pool(level.codes, level.assignments, mask) for level in stacked.levels]
        terms = {"reconstruction": stacked.reconstruction, "diversity": stacked.diversity}
        for number, level in enumerate(stacked.levels, start=1):
            terms |= {
                f"level{number}_loss": level.loss,
                f"level{number}_reconstruction": level.reconstruction,
                f"level{number}_diversity": level.diversity,
            }
        return ReadoutOutput(
            vector=torch.cat([pooled[-1][0], *(histogram for _, histogram in pooled)], dim=-1),
            mixture=pooled[-1][1],
            loss=stacked.loss,
            terms=terms,
            codes=stacked.codes,
        )

    @override
    @torch.no_grad()
    def initialise(
        self,
        tokens: Tokens,
        generator: torch.Generator,
        mask: Mask | None = None,
        *,
        noise_std: float = 0.0,
        method: str = "k-means++",
    ) -> None:
        """Place the prototypes level by level. Raises as `kmeans_plus_plus` does."""
        self.stack.initialise(tokens, generator, mask, noise_std, method)

    def set_temperature(self, value: float) -> None:
        self.stack.set_temperatures(value)

    @override
    def health(self) -> dict[str, float]:
        """The least separation, utilisation and perplexity of all levels, and those of each level."""
        figures: dict[str, float] = {}
        counts = torch.split(self.usage, [layer.num_prototypes for layer in self.layers])
        for number, (layer, used) in enumerate(zip(self.layers, counts, strict=True), start=1):
            separation, usage = prototype_separation(layer.prototypes.detach()), codebook_usage(used)
            figures |= {
                f"level{number}_separation_min": separation.minimum,
                f"level{number}_separation_mean": separation.mean,
                f"level{number}_utilisation": usage.utilisation,
                f"level{number}_perplexity": usage.perplexity,
                f"level{number}_temperature": float(layer.temperature),
            }
        self.usage.zero_()
        names = ("separation_min", "separation_mean", "utilisation", "perplexity", "temperature")
        levels = range(1, len(self.layers) + 1)
        return {**{name: min(figures[f"level{level}_{name}"] for level in levels) for name in names}, **figures}


# Those with prototypes: `layers`, `last` and `set_temperature` besides what every readout offers.
PROTOTYPE_READOUTS = (PrototypeReadout, HierarchyReadout)
