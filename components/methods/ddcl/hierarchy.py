"""Stacked DDCL-Attention: each level compresses what the level below it left, down to a tree of prototypes."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from components.methods.ddcl.attention import DDCLAttention, DDCLOutput
from components.methods.ddcl.numerics import Number


class HierarchyOutput(NamedTuple):
    """What the stack returns. Sums over levels weigh all terms alike, so loss == reconstruction + diversity."""

    levels: tuple[DDCLOutput, ...]
    """What each level returns, from the tokens upwards; on each, loss == reconstruction + diversity by itself."""
    codes: Float[Tensor, "batch tokens dim"]
    """The codes of the last level."""
    loss: Float[Tensor, ""]
    """sum_l lambda_l L_q^(l)."""
    reconstruction: Float[Tensor, ""]
    """sum_l lambda_l L_OLS^(l)."""
    diversity: Float[Tensor, ""]
    """sum_l lambda_l V^(l) >= 0."""


class HierarchicalDDCL(nn.Module):
    """Two or more levels of DDCL-Attention (paradigm 5 of arXiv 2604.03850), read from the tokens upwards.

    `(tokens (B, T, D), mask (B, T) of bool or None) -> HierarchyOutput`. Level l + 1 reads the codes of level l, one a
    token, so all banks lie in the space of the tokens, and a prototype of one level can be told in those of the next
    (`tree`). The paper does not say what a second level reads, nor how the losses of levels are weighed: codes and
    equal weights are our defaults. The gradient of a level's loss flows through the codes into the levels below.

    Parameters
    ----------
    dim: width D. num_prototypes: (K_1, K_2, ...), one number a level; they usually fall, and need not. temperature: one
    for all levels, or one a level. level_weights: lambda_l >= 0, all 1 if None. precision, generator, device and dtype
    are those of `DDCLAttention`.

    Raises ValueError for fewer than two levels, or numbers of temperatures or weights other than that of levels.
    """

    def __init__(
        self,
        dim: int,
        num_prototypes: Sequence[int],
        temperature: Number | Sequence[Number] = 1.0,
        level_weights: Sequence[Number] | None = None,
        *,
        precision: str = "double",
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        counts = tuple(num_prototypes)
        if len(counts) < 2:
            raise ValueError(
                f"num_prototypes is {counts}, one number a level; a hierarchy has two levels or more: of one level it "
                "is a DDCLAttention"
            )
        self.dim = dim
        self.level_weights = _one_a_level(
            "level_weights", (1.0,) * len(counts) if level_weights is None else level_weights, counts
        )
        if min(self.level_weights) < 0:
            raise ValueError(f"level_weights are {self.level_weights}; each must be at least 0")
        temperatures = _one_a_level("temperature", temperature, counts)
        self.levels: Sequence[DDCLAttention] = nn.ModuleList(  # type: ignore[assignment]
            DDCLAttention(dim, count, tau, precision=precision, generator=generator, device=device, dtype=dtype)
            for count, tau in zip(counts, temperatures, strict=True)
        )

    def forward(
        self, tokens: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> HierarchyOutput:
        """Read `tokens`. Raises ValueError as `DDCLAttention` does."""
        outputs: list[DDCLOutput] = []
        codes = tokens
        for level in self.levels:
            outputs.append(level(codes, mask))
            codes = outputs[-1].codes
        return HierarchyOutput(
            levels=tuple(outputs),
            codes=codes,
            loss=self._weighed([output.loss for output in outputs]),
            reconstruction=self._weighed([output.reconstruction for output in outputs]),
            diversity=self._weighed([output.diversity for output in outputs]),
        )

    def set_temperatures(self, values: Number | Sequence[Number]) -> None:
        """Take one temperature for all levels, or one a level. Raises ValueError as `DDCLAttention` does."""
        counts = [level.num_prototypes for level in self._layers]
        for level, value in zip(self._layers, _one_a_level("temperature", values, counts), strict=True):
            level.set_temperature(value)

    @torch.no_grad()
    def initialise(
        self,
        tokens: Float[Tensor, "batch tokens dim"],
        generator: torch.Generator,
        mask: Bool[Tensor, "batch tokens"] | None = None,
        noise_std: Number = 0.0,
        method: str = "k-means++",
    ) -> None:
        """Place the prototypes level by level: on tokens, then on what the level below makes of them.

        Raises ValueError as `kmeans_plus_plus` does.
        """
        codes = tokens
        for level in self._layers:
            level.initialise(codes, generator, mask, noise_std, method)
            codes = level(codes, mask).codes

    @torch.no_grad()
    def tree(self) -> tuple[Float[Tensor, "lower upper"], ...]:
        """For each two neighbouring levels the membership (K_l, K_l+1) of the lower prototypes in the upper ones.

        A lower prototype is read as a token: its row is its assignment by the upper level, at least 0 and summing to 1.
        """
        pairs = zip(self._layers, self._layers[1:], strict=False)
        return tuple(upper(lower.prototypes.unsqueeze(0)).assignments.squeeze(0) for lower, upper in pairs)

    @property
    def _layers(self) -> tuple[DDCLAttention, ...]:
        return tuple(level for level in self.levels if isinstance(level, DDCLAttention))

    def _weighed(self, values: list[Tensor]) -> Tensor:
        return sum(
            (weight * value for weight, value in zip(self.level_weights, values, strict=True)),
            start=torch.zeros_like(values[0]),
        )


def _one_a_level(name: str, values: Number | Sequence[Number], counts: Sequence[int]) -> tuple[float, ...]:
    """`values` as one number a level. Raises ValueError, which calls them `name`, for another number of them."""
    each = (values,) * len(counts) if isinstance(values, (int, float)) else tuple(values)
    if len(each) != len(counts):
        raise ValueError(f"{name} has {len(each)} values for {len(counts)} levels; give one for all, or one a level")
    return tuple(float(value) for value in each)
