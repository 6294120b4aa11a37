"""When is a collapsed bank unstable, and which energy falls: temperatures and Lyapunov functions.

At a collapsed bank (every p_k at the mean of the tokens) the curvature along a separation mode, in a direction in which
the tokens have variance l, is (2/K)(1 - c l/tau). So collapse is unstable iff tau < c lambda, with lambda the largest
eigenvalue of the tokens' population covariance; c is 2 for the free energy, and for the loss with detached assignments,
and 4 for the loss with the gradient through the assignments. The factors were derived for q proportional to exp(-D/tau)
and are tested by Hessians.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from components.methods.ddcl.numerics import (
    Number,
    centred_on_bank,
    check_bag,
    checked_precision,
    checked_temperature,
    distances_from_scores,
    every_token,
    island_dtype,
    masked_mean,
    outside_autocast,
    result_dtype,
    similarity_scores,
    valid_tokens,
)

# objective -> c, the critical temperature in units of lambda_max(Cov z).
CRITICAL_FACTORS: Mapping[str, float] = {"free_energy": 2.0, "loss": 4.0}


class CriticalTemperatures(NamedTuple):
    """Temperatures above which a collapsed bank stays collapsed, in squared units of the tokens."""

    free_energy: float
    """2 lambda_max: descent on the free energy, or on the loss with detached assignments."""
    loss: float
    """4 lambda_max: descent on the loss with the gradient through the assignments."""


def largest_variance(tokens: Float[Tensor, "*batch dim"], mask: Bool[Tensor, "*batch"] | None = None) -> float:
    """lambda_max of the population covariance of the valid tokens, in float64.

    Raises ValueError when there is no valid token, or one is not finite.
    """
    rows = valid_tokens(tokens, mask).to("cpu", torch.float64)
    if len(rows) == 0:
        raise ValueError("no valid token came, and a covariance needs at least 1; check the mask")
    broken = int((~torch.isfinite(rows).all(dim=-1)).sum())
    if broken:
        raise ValueError(f"{broken} of {len(rows)} valid tokens are not finite; mend them, or mask them out")
    centred = rows - rows.mean(dim=0)
    # the smaller of the two products with the same non-zero eigenvalues.
    product = centred.mT @ centred if centred.shape[1] <= centred.shape[0] else centred @ centred.mT
    return max(0.0, float(torch.linalg.eigvalsh(product)[-1])) / len(rows)


def stable_temperature(tokens: Float[Tensor, "*batch dim"], mask: Bool[Tensor, "*batch"] | None = None) -> float:
    """tau0 = lambda_max(Cov z): a first temperature at half of the lower critical one, so collapse is unstable.

    Raises ValueError when the tokens do not differ, since then every temperature is above the critical one.
    """
    variance = largest_variance(tokens, mask)
    if variance < torch.finfo(torch.float32).tiny:
        raise ValueError(f"the tokens have a largest variance of {variance}; without spread no temperature is stable")
    return variance


def critical_temperatures(
    tokens: Float[Tensor, "*batch dim"], mask: Bool[Tensor, "*batch"] | None = None
) -> CriticalTemperatures:
    """The two thresholds for these tokens. Raises as `largest_variance` does."""
    variance = largest_variance(tokens, mask)
    return CriticalTemperatures(**{objective: factor * variance for objective, factor in CRITICAL_FACTORS.items()})


def predicts_collapse(
    temperature: Number,
    tokens: Float[Tensor, "*batch dim"],
    mask: Bool[Tensor, "*batch"] | None = None,
    objective: str = "loss",
) -> bool:
    """Whether a collapsed bank is stable under descent on `objective` ("loss" or "free_energy") at this temperature.

    Raises ValueError for an unknown objective, or a temperature that is not positive and finite.
    """
    if objective not in CRITICAL_FACTORS:
        raise ValueError(f"objective is {objective!r}; choose one of {', '.join(sorted(CRITICAL_FACTORS))}")
    return checked_temperature(temperature) >= CRITICAL_FACTORS[objective] * largest_variance(tokens, mask)


def free_energy(
    tokens: Float[Tensor, "*batch dim"],
    prototypes: Float[Tensor, "prototypes dim"],
    temperature: Number,
    mask: Bool[Tensor, "*batch"] | None = None,
    precision: str = "double",
) -> Float[Tensor, ""]:
    """F = -tau mean_n log sum_k exp(-D_nk/tau) = L_q - tau H(q) over valid tokens; 0 when there is none.

    Differentiable, and of the layer's arithmetic: no (N, K, D) tensor, float32 or wider under autocast. Its gradient
    in the prototypes is that of the loss with detached assignments.

    Raises ValueError when shapes, types, temperature or precision do not fit.
    """
    tau = checked_temperature(temperature)
    checked_precision(precision)
    check_bag(tokens, mask)
    if tokens.shape[-1] != prototypes.shape[-1]:
        raise ValueError(f"tokens are {tokens.shape[-1]} wide and prototypes {prototypes.shape[-1]}; widths must agree")
    valid = every_token(tokens) if mask is None else mask
    with outside_autocast(tokens.device):
        z, bank, _ = centred_on_bank(tokens, prototypes, valid, island_dtype(precision, tokens, prototypes))
        distances = distances_from_scores(z, similarity_scores(z, bank))
        energy = -tau * masked_mean(torch.logsumexp(-distances / tau, dim=-1), valid)
        return energy.to(result_dtype(tokens, prototypes))


def lyapunov(
    tokens: Float[Tensor, "*batch dim"],
    prototypes: Float[Tensor, "prototypes dim"],
    temperature: Number,
    mask: Bool[Tensor, "*batch"] | None = None,
    precision: str = "double",
) -> Float[Tensor, ""]:
    """Phi = F + tau log K >= 0, which never rises under descent on F with a falling temperature and a fixed encoder.

    F itself rises when the temperature falls, by H(q) per unit. Raises as `free_energy` does.
    """
    energy = free_energy(tokens, prototypes, temperature, mask, precision)
    return energy + float(temperature) * math.log(len(prototypes))
