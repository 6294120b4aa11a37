"""What every vector quantiser returns, soft or hard, so that one autoencoder serves them all."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class QuantisedTokens(NamedTuple):
    """What a quantiser makes of tokens (B, T, D). The scalars are means over valid tokens, in squared units of them."""

    codes: Float[Tensor, "batch tokens dim"]
    """What goes on in place of the tokens; 0 for a masked one."""
    indices: Int[Tensor, "batch tokens"]
    """The nearest codeword of each token, the first of equals; -1 for a masked one."""
    loss: Float[Tensor, ""]
    """What the quantiser wants minimised beside the task's own loss."""
    quantisation_loss: Float[Tensor, ""]
    """sum_k q_nk ||z_n - e_k||^2 of the assignments in use: L_q of a soft quantiser, the distortion of a hard one."""
    reconstruction: Float[Tensor, ""]
    """||z_n - sum_k q_nk e_k||^2."""
    diversity: Float[Tensor, ""]
    """quantisation_loss less reconstruction, calculated by itself: 0 for a hard quantiser."""
    distortion: Float[Tensor, ""]
    """Squared distance to the nearest codeword; without a gradient."""


class VectorQuantizer(nn.Module):
    """Base of all quantisers: (tokens (B, T, D), mask (B, T) or None) -> QuantisedTokens."""

    dim: int
    num_codes: int

    # (tokens, generator, mask, noise_std, method): take the first codebook from data
    initialise: Callable[..., None]

    @property
    def codebook(self) -> Float[Tensor, "codes dim"]:
        raise NotImplementedError(f"{type(self).__name__} has no codebook")

    @torch.no_grad()
    def lookup(self, indices: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch dim"]:
        """The codewords behind indices, 0 behind -1. Raises ValueError for an index that has none."""
        if indices.numel() and not (int(indices.min()) >= -1 and int(indices.max()) < self.num_codes):
            raise ValueError(
                f"indices range from {int(indices.min())} to {int(indices.max())}; allowed is 0 to "
                f"{self.num_codes - 1}, and -1 for what was masked"
            )
        words = self.codebook[indices.clamp_min(0)]
        return torch.where((indices >= 0).unsqueeze(-1), words, 0)
