"""Health of a prototype bank: how far apart its prototypes are, and how many of them are used."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from components.methods.ddcl.numerics import pairwise_squared_distances, valid_tokens


class Separation(NamedTuple):
    """Smallest and mean distance between two prototypes, in units of the tokens; both 0 when the bank has collapsed."""

    minimum: float
    mean: float


class CodebookUsage(NamedTuple):
    """How widely the prototypes are used."""

    utilisation: float
    """Share of prototypes that won at least one token, 1/K to 1."""
    perplexity: float
    """exp of the entropy of the wins: 1 when one prototype wins all, K when all win equally often."""


def prototype_separation(prototypes: Float[Tensor, "prototypes dim"]) -> Separation:
    """S = min_{i<j} ||p_i - p_j|| and the mean over pairs.

    Raises ValueError for fewer than 2 prototypes, which have no distance.
    """
    count = len(prototypes)
    if count < 2:
        raise ValueError(f"the bank has {count} prototype, and a distance needs 2; give a layer at least 2 prototypes")
    upper = torch.triu(torch.ones(count, count, dtype=torch.bool), diagonal=1)
    distances = pairwise_squared_distances(prototypes.detach().to("cpu", torch.float64))[upper].sqrt()
    return Separation(minimum=float(distances.min()), mean=float(distances.mean()))


def usage_counts(
    assignments: Float[Tensor, "*batch prototypes"], mask: Bool[Tensor, "*batch"] | None = None
) -> Int[Tensor, " prototypes"]:
    """How many valid tokens each prototype wins, that is, is argmax_k q_nk for. Add counts of batches up for an epoch.

    The first of several equal assignments wins. Raises ValueError when the mask does not fit.
    """
    rows = valid_tokens(assignments, mask)
    return torch.bincount(rows.argmax(dim=-1), minlength=assignments.shape[-1])


def codebook_usage(counts: Real[Tensor, " prototypes"]) -> CodebookUsage:
    """Utilisation and perplexity of wins counted by `usage_counts`.

    Raises ValueError when no token was counted, or a count is negative or not finite.
    """
    wins = counts.detach().to("cpu", torch.float64)
    if not bool(torch.isfinite(wins).all()) or bool((wins < 0).any()) or float(wins.sum()) == 0:
        raise ValueError(
            f"usage counts are {counts.tolist()}; all must be finite and at least 0, and one above 0: "
            "count at least one valid token first"
        )
    shares = wins / wins.sum()
    return CodebookUsage(
        utilisation=float((wins > 0).double().mean()),
        perplexity=float(torch.exp(-torch.special.xlogy(shares, shares).sum())),
    )


def diversity_gradient(
    prototypes: Float[Tensor, "prototypes dim"],
    assignments: Float[Tensor, "*batch prototypes"],
    mask: Bool[Tensor, "*batch"] | None = None,
) -> Float[Tensor, "prototypes dim"]:
    """dV/dp_k = 2 mean_n q_nk (p_k - mu_n) with the assignments held fixed, in float64: a diagnostic to log.

    The paper calls it an implicit separation force, but V has a plus sign in the loss, so descent along it draws
    prototypes together (reference.py has more). Without valid tokens it is 0.

    Raises ValueError when the mask or the number of prototypes does not fit.
    """
    if assignments.shape[-1] != len(prototypes):
        raise ValueError(
            f"assignments are to {assignments.shape[-1]} prototypes and the bank has {len(prototypes)}; pass both from "
            "one layer"
        )
    q = valid_tokens(assignments, mask).double()
    bank = prototypes.detach().double()
    bank = bank - bank.mean(dim=0)
    # sum_n q_nk mu_n = (Q^T Q P)_k, which needs no (N, K, D).
    return 2 * (q.sum(dim=0)[:, None] * bank - (q.mT @ q) @ bank) / max(1, len(q))
