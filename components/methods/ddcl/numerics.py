"""The arithmetic that the layer and its diagnostics share: the wide island, masked means, distances without (N, K, D).

Why the island is float64 by default. An assignment is a softmax of distances over the temperature, so the *absolute*
rounding error of D/tau becomes the *relative* error of q and of the diversity. With standard normal tokens of 64
dimensions and tau = 0.05, float32 distances put the diversity off by 5e-5, at 768 dimensions by 2e-3; and two runtimes
then disagree about assignments. Float64 costs memory and time proportional to (N, D + K) only, and none of the outputs
is wider than its inputs. Where float64 is absent or slow, "single" keeps everything in float32.
"""

import contextlib
import math
from collections.abc import Mapping
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

PRECISIONS: Mapping[str, torch.dtype] = {"double": torch.float64, "single": torch.float32}

# an int is welcome wherever a float is; run-time type checks take that literally.
Number: TypeAlias = float | int

# largest number of elements that a block of pairwise differences may hold: 32 MiB in float64.
BLOCK_ELEMENTS = 2**22

# a temperature outside this range would overflow, or vanish, as a float32 divisor.
LOWEST_TEMPERATURE = torch.finfo(torch.float32).tiny
HIGHEST_TEMPERATURE = torch.finfo(torch.float32).max


def checked_temperature(value: Number) -> float:
    """`value` as a float.

    Raises ValueError unless it is a number that a float32 can hold and divide by.
    """
    number = checked_positive("temperature", value)
    if not LOWEST_TEMPERATURE <= number <= HIGHEST_TEMPERATURE:
        raise ValueError(
            f"temperature is {value!r}; it must lie between {LOWEST_TEMPERATURE:.3g} and {HIGHEST_TEMPERATURE:.3g}: "
            "rescale the tokens to about unit variance"
        )
    return number


def checked_positive(name: str, value: Number) -> float:
    """`value` as a float. Raises ValueError, which calls it `name`, unless it is finite and above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} is {value!r}; it must be a finite number above 0")
    return float(value)


def checked_count(name: str, value: int) -> int:
    """`value` itself. Raises ValueError, which calls it `name`, unless it is an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is {value!r}; it must be an integer of at least 1")
    return value


def checked_precision(precision: str) -> str:
    """`precision` itself. Raises ValueError, which lists the known ones, when it is none of them."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision is {precision!r}; choose one of {', '.join(sorted(PRECISIONS))}")
    return precision


def check_bag(tokens: Tensor, mask: Tensor | None) -> None:
    """Raise ValueError unless `tokens` is (..., D) of a floating type and `mask`, if given, is (...) of bool."""
    if not tokens.is_floating_point():
        raise ValueError(f"tokens are {tokens.dtype}; they must be floating: call tokens.float() first")
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise ValueError(f"mask is {mask.dtype}; it must be torch.bool, True where a token is valid: use mask.bool()")
    if mask.shape != tokens.shape[:-1]:
        raise ValueError(
            f"mask has shape {tuple(mask.shape)} and tokens {tuple(tokens.shape)}; "
            f"the mask must have one entry per token: {tuple(tokens.shape[:-1])}"
        )


def valid_tokens(
    tokens: Float[Tensor, "*batch dim"], mask: Bool[Tensor, "*batch"] | None
) -> Float[Tensor, "valid dim"]:
    """The valid tokens as one detached list. The shape depends on the data: for diagnostics, not for a traced graph."""
    check_bag(tokens, mask)
    rows = tokens.detach().reshape(-1, tokens.shape[-1])
    return rows if mask is None else rows[mask.reshape(-1)]


def every_token(tokens: Float[Tensor, "*batch dim"]) -> Bool[Tensor, "*batch"]:
    """The mask that stands for none: all tokens valid."""
    return torch.ones(tokens.shape[:-1], dtype=torch.bool, device=tokens.device)


def island_dtype(precision: str, *tensors: Tensor) -> torch.dtype:
    """The type to calculate in: that of `precision`, or that of the widest input if wider."""
    dtype = PRECISIONS[precision]
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


def result_dtype(*tensors: Tensor) -> torch.dtype:
    """The type to answer in: float32, or that of the widest input if wider; half types lose too much in a mean."""
    return island_dtype("single", *tensors)


def outside_autocast(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """A context in which autocast narrows nothing.

    Where autocast is off it is an empty context, so that an exported graph holds no trace of it.
    """
    if torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return contextlib.nullcontext()


def masked_mean(values: Float[Tensor, "*batch"], mask: Bool[Tensor, "*batch"]) -> Float[Tensor, ""]:
    """Mean of `values` over the valid tokens; 0, with a zero gradient, when there is none."""
    return torch.where(mask, values, 0).sum() / mask.sum().clamp_min(1)


def with_derivative_of(value: Float[Tensor, "*shape"], source: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Exactly `value`, with every derivative of `source`: for one quantity by two formulas, one of them more accurate.

    `value` must be detached. The two may differ by rounding only, else the derivatives are of another function.
    """
    return value + (source - source.detach())


def centred_on_bank(
    tokens: Float[Tensor, "*batch dim"],
    prototypes: Float[Tensor, "prototypes dim"],
    mask: Bool[Tensor, "*batch"],
    dtype: torch.dtype,
) -> tuple[Float[Tensor, "*batch dim"], Float[Tensor, "prototypes dim"], Float[Tensor, " dim"]]:
    """Tokens and prototypes relative to the bank's mean, in `dtype`, and that mean; masked tokens become 0.

    All that follows depends on differences only, so the shift changes nothing but rounding: expanded squares of
    vectors far from the origin cancel badly. For the same reason the mean needs no gradient. A masked token may hold
    anything, NaN included: it reaches neither a value nor a gradient.
    """
    bank = prototypes.to(dtype)
    centre = bank.detach().mean(dim=0)
    return torch.where(mask.unsqueeze(-1), tokens.to(dtype) - centre, 0), bank - centre, centre


def similarity_scores(
    tokens: Float[Tensor, "*batch dim"], prototypes: Float[Tensor, "prototypes dim"]
) -> Float[Tensor, "*batch prototypes"]:
    """2 z.p_k - ||p_k||^2 = ||z||^2 - D_nk: what the assignment needs of the distance, as one matrix product."""
    return 2 * (tokens @ prototypes.mT) - prototypes.square().sum(dim=-1)


def distances_from_scores(
    tokens: Float[Tensor, "*batch dim"], scores: Float[Tensor, "*batch prototypes"]
) -> Float[Tensor, "*batch prototypes"]:
    """D_nk = ||z_n||^2 - scores_nk, never below 0, with the derivatives of the unclamped expression.

    A clamp alone would drop the gradient, and the curvature, of a prototype that sits on a token.
    """
    distances = tokens.square().sum(dim=-1, keepdim=True) - scores
    return with_derivative_of(distances.detach().clamp_min(0), distances)


def pairwise_squared_distances(
    prototypes: Float[Tensor, "prototypes dim"],
) -> Float[Tensor, "prototypes prototypes"]:
    """||p_i - p_j||^2, accurate for prototypes that nearly coincide, in O(K^2 + K D) memory for the gradient.

    The values come from differences, block by block and without a graph; the derivatives from the Gram matrix.
    """
    fixed = prototypes.detach()
    rows = max(1, BLOCK_ELEMENTS // max(1, fixed.numel()))
    blocks = [fixed[start : start + rows] for start in range(0, len(fixed), rows)]
    values = torch.cat([(block[:, None, :] - fixed[None, :, :]).square().sum(dim=-1) for block in blocks])
    norms = prototypes.square().sum(dim=-1)
    return with_derivative_of(values, norms[:, None] + norms[None, :] - 2 * (prototypes @ prototypes.mT))
