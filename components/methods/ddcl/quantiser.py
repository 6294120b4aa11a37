"""DDCL-Attention as a differentiable codebook (paradigm 4 of arXiv 2604.03850)."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from typing_extensions import override

from components.methods.ddcl.attention import DDCLAttention
from components.methods.ddcl.fused import Setting, quantise
from components.methods.ddcl.numerics import (
    Number,
    every_token,
    island_dtype,
    masked_mean,
    outside_autocast,
    result_dtype,
)
from components.methods.interfaces.quantiser import QuantisedTokens, VectorQuantizer


class SoftVectorQuantizer(DDCLAttention, VectorQuantizer):
    """Quantise tokens by a soft codebook: what goes on is mu_n = sum_k q_nk e_k, and every gradient is exact.

    `(tokens (B, T, D), mask (B, T) of bool or None) -> QuantisedTokens`; images (B, D, H, W) become tokens by
    `flatten(2).mT`. The arithmetic is that of `DDCLAttention`, of which this is one; its prototypes are the codewords.
    The assignments (B, T, K) are formed block by block and never held, so memory beyond inputs and outputs is that of a
    block.
    `loss` is L_q, whose gradient flows through the assignments, and so is that of the codes.

    - Cooling is done by `set_temperature`, with a schedule of schedules.py: tau -> 0 gives the nearest codeword.
    - `hard = True`, an attribute, so that callers of a trained model stay as they are, gives the nearest
      codeword itself and passes no gradient to the tokens: it is for inference. `indices` are the nearest codewords in
      both modes; those and `distortion` carry no gradient.
    - The default is `precision="single"`: a codebook of 64 dimensions cooled to a tenth of its variance keeps its
      losses within 1e-4 of float64 (tests), and costs half the time. "double" is there for colder and wider ones.

    Parameters and errors are those of `DDCLAttention`; `num_codes` is its `num_prototypes`.
    """

    hard: bool

    def __init__(
        self,
        dim: int,
        num_codes: int,
        temperature: Number = 1.0,
        *,
        precision: str = "single",
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            dim, num_codes, temperature, precision=precision, generator=generator, device=device, dtype=dtype
        )
        self.num_codes = num_codes
        self.hard = False

    @property
    @override
    def codebook(self) -> Float[Tensor, "codes dim"]:
        return self.prototypes

    @override
    def forward(  # type: ignore[override]
        self, tokens: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> QuantisedTokens:
        """Quantise `tokens`. Raises ValueError for another rank, width or type of tokens or mask."""
        self.check_shapes(tokens, mask)
        answer = result_dtype(tokens, self.prototypes)
        setting = Setting(island_dtype(self.precision, tokens, self.prototypes), answer, keep=False)
        valid = None if mask is None else mask.flatten()
        with outside_autocast(tokens.device):
            found = quantise(tokens.flatten(0, 1), self.prototypes, valid, self.temperature, setting)
            indices = found.winners.reshape(tokens.shape[:2])
            if mask is not None:
                indices = torch.where(mask, indices, -1)
            nearest = self.lookup(indices).to(answer)
            errors = (tokens.detach().to(answer) - nearest).square().sum(dim=-1)
            distortion = masked_mean(errors, every_token(tokens) if mask is None else mask)
            if self.hard:
                return QuantisedTokens(
                    nearest, indices, distortion, distortion, distortion, torch.zeros_like(distortion), distortion
                )
        codes = found.codes.reshape(tokens.shape)
        return QuantisedTokens(
            codes, indices, found.loss, found.loss, found.reconstruction, found.diversity, distortion
        )
