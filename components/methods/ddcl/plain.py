"""The layer's arithmetic in plain operations, for exported graphs and second derivatives: what `fused` equals."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from components.methods.ddcl.numerics import (
    centred_on_bank,
    distances_from_scores,
    every_token,
    masked_mean,
    pairwise_squared_distances,
    similarity_scores,
)


class Quantised(NamedTuple):
    """What the tokens (N, D) become."""

    codes: Float[Tensor, "tokens dim"]
    """mu_n; 0 where not valid."""
    assignments: Float[Tensor, "tokens prototypes"]
    """q_nk; 0 where not valid, and without rows where they were not asked for."""
    winners: Int[Tensor, " tokens"]
    """argmax_k q_nk, the first of equals; without entries where assignments tell it, and a gradient is needed."""
    loss: Float[Tensor, ""]
    reconstruction: Float[Tensor, ""]
    diversity: Float[Tensor, ""]


def quantise_plainly(
    tokens: Float[Tensor, "tokens dim"],
    prototypes: Float[Tensor, "prototypes dim"],
    valid: Bool[Tensor, " tokens"] | None,
    temperature: Float[Tensor, ""],
    wide: torch.dtype,
    answer: torch.dtype,
) -> Quantised:
    """As `fused.quantise`, calculated in `wide` and answered in `answer`."""
    mask = every_token(tokens) if valid is None else valid
    z, bank, centre = centred_on_bank(tokens, prototypes, mask, wide)
    scores = similarity_scores(z, bank)
    # shifted before the division, so that no temperature, however small, turns a score into infinity.
    q = torch.softmax((scores - scores.detach().amax(dim=-1, keepdim=True)) / temperature, dim=-1)
    mu = q @ bank
    loss = masked_mean((q * distances_from_scores(z, scores)).sum(dim=-1), mask)
    reconstruction = masked_mean((z - mu).square().sum(dim=-1), mask)
    # pairs of prototypes: nothing here cancels, where sum_k q ||p||^2 - ||mu||^2 would.
    diversity = masked_mean(((q @ pairwise_squared_distances(bank)) * q).sum(dim=-1) / 2, mask)
    return Quantised(
        codes=torch.where(mask.unsqueeze(-1), mu + centre, 0).to(answer),
        assignments=torch.where(mask.unsqueeze(-1), q, 0).to(answer),
        winners=scores.argmax(dim=-1),
        loss=loss.to(answer),
        reconstruction=reconstruction.to(answer),
        diversity=diversity.to(answer),
    )
