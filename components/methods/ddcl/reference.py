"""DDCL-Attention equation by equation: slow, float64, explicit (N, K, D) broadcasting. The contract of the fast layer.

Source: Cirrincione and Kumar, "DDCL-Attention: Collapse-Free Prototype Readout Layer for Transformer Encoders"
(arXiv 2604.03850), and the base method, DDCL (arXiv 2604.01740).

Notation. Our `tokens[n]` is the papers' z_n, `prototypes[k]` is p_k, `temperature` is T (tau here, since T also counts
tokens), `assignments[n, k]` is q_nk, `codes[n]` is mu_n = P q_n. The papers do not say how the temperature enters the
Boltzmann rule; here q is proportional to exp(-D/tau), and every threshold in this package is for that convention.

Functions take the N valid tokens as one (N, D) list: select them with the mask first. All reductions over tokens are
means. All inputs are converted to float64, so gradients flow back to them in their own type.
"""

import torch
from jaxtyping import Float
from torch import Tensor

Tokens = Float[Tensor, "tokens dim"]
Prototypes = Float[Tensor, "prototypes dim"]
Assignments = Float[Tensor, "tokens prototypes"]
Scalar = Float[Tensor, ""]


def squared_distances(tokens: Tokens, prototypes: Prototypes) -> Float[Tensor, "tokens prototypes"]:
    """D_nk = ||z_n - p_k||^2."""
    differences = tokens.double()[:, None, :] - prototypes.double()[None, :, :]  # (N, K, D)
    return differences.square().sum(dim=-1)


def assignments(tokens: Tokens, prototypes: Prototypes, temperature: float) -> Assignments:
    """q_nk = exp(-D_nk/tau) / sum_j exp(-D_nj/tau): the Boltzmann rule."""
    exponents = -squared_distances(tokens, prototypes) / temperature
    # the largest term is taken out of numerator and denominator alike, so that neither underflows.
    weights = torch.exp(exponents - exponents.detach().max(dim=-1, keepdim=True).values)
    return weights / weights.sum(dim=-1, keepdim=True)


def codes(q: Assignments, prototypes: Prototypes) -> Tokens:
    """mu_n = sum_k q_nk p_k: one code per token."""
    return (q.double()[:, :, None] * prototypes.double()[None, :, :]).sum(dim=1)


def loss(tokens: Tokens, prototypes: Prototypes, q: Assignments) -> Scalar:
    """L_q = mean_n sum_k q_nk ||z_n - p_k||^2: the soft quantisation loss, for any q on the simplex."""
    return (q.double() * squared_distances(tokens, prototypes)).sum(dim=-1).mean()


def reconstruction(tokens: Tokens, prototypes: Prototypes, q: Assignments) -> Scalar:
    """L_OLS = mean_n ||z_n - P q_n||^2."""
    return (tokens.double() - codes(q, prototypes)).square().sum(dim=-1).mean()


def diversity(prototypes: Prototypes, q: Assignments) -> Scalar:
    """V = mean_n sum_k q_nk ||p_k - P q_n||^2: the weighted variance of the prototypes."""
    differences = prototypes.double()[None, :, :] - codes(q, prototypes)[:, None, :]  # (N, K, D)
    return (q.double() * differences.square().sum(dim=-1)).sum(dim=-1).mean()


def diversity_by_covariance(prototypes: Prototypes, q: Assignments) -> Scalar:
    """V = mean_n tr(P Sigma_n P^T) with Sigma_n = diag(q_n) - q_n q_n^T, a second form of the same number."""
    covariance = torch.diag_embed(q.double()) - q.double()[:, :, None] * q.double()[:, None, :]  # (N, K, K)
    bank = prototypes.double()
    traces: Tensor = torch.einsum("kd,nkl,ld->n", bank, covariance, bank)
    return traces.mean()


def diversity_by_pairs(prototypes: Prototypes, q: Assignments) -> Scalar:
    """V = mean_n 1/2 sum_ij q_ni q_nj ||p_i - p_j||^2, a third form of the same number."""
    pairs = squared_distances(prototypes, prototypes)
    return (q.double()[:, :, None] * q.double()[:, None, :] * pairs[None, :, :]).sum(dim=(1, 2)).mean() / 2


def entropy(q: Assignments) -> Scalar:
    """H = -mean_n sum_k q_nk log q_nk, in nats."""
    return -torch.xlogy(q.double(), q.double()).sum(dim=-1).mean()


def free_energy(tokens: Tokens, prototypes: Prototypes, temperature: float) -> Scalar:
    """F = -tau mean_n log sum_k exp(-D_nk/tau) = L_q - tau H(q)."""
    exponents = -squared_distances(tokens, prototypes) / temperature
    return -temperature * torch.logsumexp(exponents, dim=-1).mean()


def lyapunov(tokens: Tokens, prototypes: Prototypes, temperature: float) -> Scalar:
    """Phi = F + tau log K = -tau mean_n log((1/K) sum_k exp(-D_nk/tau)) >= 0.

    With a frozen encoder it never rises under descent on F while the temperature falls; F alone does rise then.
    """
    count = torch.tensor(float(len(prototypes)), dtype=torch.float64, device=prototypes.device)
    return free_energy(tokens, prototypes, temperature) + temperature * torch.log(count)


def gradient_of_loss_at_fixed_assignments(tokens: Tokens, prototypes: Prototypes, q: Assignments) -> Prototypes:
    """dL_q/dp_k = 2 mean_n q_nk (p_k - z_n) with q held fixed; at Boltzmann q also dF/dp_k in full."""
    differences = prototypes.double()[None, :, :] - tokens.double()[:, None, :]
    return 2 * (q.double()[:, :, None] * differences).mean(dim=0)


def gradient_of_reconstruction_at_fixed_assignments(
    tokens: Tokens, prototypes: Prototypes, q: Assignments
) -> Prototypes:
    """dL_OLS/dp_k = 2 mean_n q_nk (mu_n - z_n) with q held fixed."""
    residuals = codes(q, prototypes) - tokens.double()
    return 2 * (q.double()[:, :, None] * residuals[:, None, :]).mean(dim=0)


def gradient_of_diversity_at_fixed_assignments(prototypes: Prototypes, q: Assignments) -> Prototypes:
    """dV/dp_k = 2 mean_n q_nk (p_k - mu_n) with q held fixed: the papers' "implicit separation force".

    V enters the loss with a plus sign, so a step down this gradient moves prototypes *together*. What drives them apart
    at a collapsed bank is the dependence of q on the prototypes.
    """
    differences = prototypes.double()[None, :, :] - codes(q, prototypes)[:, None, :]
    return 2 * (q.double()[:, :, None] * differences).mean(dim=0)


def gradient_of_loss(tokens: Tokens, prototypes: Prototypes, temperature: float) -> Prototypes:
    """dL_q/dp_k with the gradient flowing through q.

    It is 2 mean_n w_nk (p_k - z_n) with w_nk = q_nk [1 - (D_nk - sum_j q_nj D_nj) / tau].
    """
    q = assignments(tokens, prototypes, temperature)
    distances = squared_distances(tokens, prototypes)
    excess = distances - (q * distances).sum(dim=-1, keepdim=True)
    weights = q * (1 - excess / temperature)
    differences = prototypes.double()[None, :, :] - tokens.double()[:, None, :]
    return 2 * (weights[:, :, None] * differences).mean(dim=0)


def hessian_of_free_energy(
    tokens: Tokens, prototypes: Prototypes, temperature: float
) -> Float[Tensor, "prototypes dim prototypes dim"]:
    """d2F/dp_k dp_l = 2 delta_kl mean_n(q_nk) I - (4/tau) mean_n q_nk (delta_kl - q_nl) (z_n - p_k)(z_n - p_l)^T."""
    q = assignments(tokens, prototypes, temperature)
    differences = tokens.double()[:, None, :] - prototypes.double()[None, :, :]
    count, dim = prototypes.shape
    hessian = torch.zeros(count, dim, count, dim, dtype=torch.float64, device=prototypes.device)
    for k in range(count):
        for other in range(count):
            same = 1.0 if k == other else 0.0
            weights = q[:, k] * (same - q[:, other])
            outer = differences[:, k, :, None] * differences[:, other, None, :]  # (N, D, D)
            hessian[k, :, other, :] = -4 / temperature * (weights[:, None, None] * outer).mean(dim=0)
        hessian[k, :, k, :] += 2 * q[:, k].mean() * torch.eye(dim, dtype=torch.float64, device=prototypes.device)
    return hessian
