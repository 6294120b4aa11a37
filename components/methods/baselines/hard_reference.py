"""Hard vector quantisation equation by equation: slow, float64, explicit (N, K, D). The contract of the fast layer.

Source: van den Oord, Vinyals and Kavukcuoglu, "Neural Discrete Representation Learning" (arXiv 1711.00937).

Notation. Our `tokens[n]` is the paper's z_e(x) at place n, `words[k]` is e_k, `chosen[n]` is the k of equation 1, sg is
the stop-gradient. The paper's losses are per token; here all reductions over tokens are means.

Functions take the N valid tokens as one (N, D) list: select them with the mask first. All inputs are converted to
float64, so gradients flow back to them in their own type. N is at least 1: a mean over nothing is left to the layer.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

Tokens = Float[Tensor, "tokens dim"]
Words = Float[Tensor, "codes dim"]
Chosen = Int[Tensor, " tokens"]
Scalar = Float[Tensor, ""]


class Averages(NamedTuple):
    """State of the moving averages: N_k and m_k of appendix A.1, and the codewords that follow from them."""

    num_wins: Float[Tensor, " codes"]
    sums: Float[Tensor, "codes dim"]
    words: Float[Tensor, "codes dim"]


def squared_distances(tokens: Tokens, words: Words) -> Float[Tensor, "tokens codes"]:
    """||z_n - e_k||^2."""
    differences = tokens.double()[:, None, :] - words.double()[None, :, :]  # (N, K, D)
    return differences.square().sum(dim=-1)


def nearest(tokens: Tokens, words: Words) -> Chosen:
    """argmin_k ||z_n - e_k||^2, the first of equals (equation 1)."""
    distances = squared_distances(tokens.detach(), words.detach())
    least = distances.min(dim=-1, keepdim=True).values
    numbers = torch.arange(len(words), device=words.device).expand_as(distances)
    return torch.where(distances == least, numbers, len(words)).min(dim=-1).values


def codes(tokens: Tokens, words: Words, chosen: Chosen) -> Tokens:
    """z + sg(e - z): the codeword, with the gradient of the token (section 3.2)."""
    difference = words.double()[chosen] - tokens.double()
    return tokens.double() + difference.detach()


def codebook_loss(tokens: Tokens, words: Words, chosen: Chosen) -> Scalar:
    """mean_n ||sg(z_n) - e||^2: the second term of equation 3."""
    return (tokens.double().detach() - words.double()[chosen]).square().sum(dim=-1).mean()


def commitment_loss(tokens: Tokens, words: Words, chosen: Chosen) -> Scalar:
    """mean_n ||z_n - sg(e)||^2: the third term of equation 3, without its beta."""
    return (tokens.double() - words.double()[chosen].detach()).square().sum(dim=-1).mean()


def gradient_of_codebook_loss(tokens: Tokens, words: Words, chosen: Chosen) -> Words:
    """(2/N) sum over the tokens n of code k of (e_k - z_n): what autograd gives without being asked."""
    gradient = torch.zeros_like(words, dtype=torch.float64)
    for row, code in enumerate(chosen.tolist()):
        gradient[code] += 2 * (words.detach()[code].double() - tokens.detach()[row].double()) / len(tokens)
    return gradient


def gradient_of_commitment_loss(tokens: Tokens, words: Words, chosen: Chosen) -> Tokens:
    """(2/N) (z_n - e)."""
    return 2 * (tokens.detach().double() - words.detach().double()[chosen]) / len(tokens)


def moved(before: Averages, tokens: Tokens, chosen: Chosen, decay: float, smoothing: float) -> Averages:
    """One step of the moving averages (appendix A.1), code by code.

    N_k <- decay N_k + (1 - decay) n_k and m_k <- decay m_k + (1 - decay) sum_n z_n. The appendix has e_k = m_k / N_k,
    which an unused code turns into 0/0 in the end; the authors' program divides by the Laplace-smoothed
    (N_k + s) / (N + K s) N with N = sum_k N_k instead, and so does this.
    """
    num_wins, sums = before.num_wins.double().clone(), before.sums.double().clone()
    for code in range(len(num_wins)):
        own = tokens.detach().double()[chosen == code]
        num_wins[code] = decay * num_wins[code] + (1 - decay) * len(own)
        sums[code] = decay * sums[code] + (1 - decay) * own.sum(dim=0)
    total = num_wins.sum()
    smoothed = (num_wins + smoothing) / (total + len(num_wins) * smoothing) * total
    return Averages(num_wins, sums, sums / smoothed[:, None])
