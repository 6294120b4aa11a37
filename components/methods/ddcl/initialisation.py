"""Prototypes from data: where training starts. A new way is a function and a line in `INITIALISATIONS`."""

import math
from collections.abc import Callable, Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from components.methods.ddcl.numerics import Number, checked_count, valid_tokens


def kmeans_plus_plus(
    tokens: Float[Tensor, "*batch dim"],
    num_prototypes: int,
    generator: torch.Generator,
    mask: Bool[Tensor, "*batch"] | None = None,
    noise_std: Number = 0.0,
) -> Float[Tensor, "num_prototypes dim"]:
    """K distinct valid tokens, spread out, in the type and on the device of `tokens`.

    Arthur and Vassilvitskii (2007): the first is drawn uniformly, each next one with a probability proportional to its
    squared distance from the nearest drawn so far. Then N(0, noise_std^2) is added, in units of the tokens; 0.01 is a
    sensible choice for standardised ones. The draw is done in float64 on the CPU, with the distinct tokens in sorted
    order, so it depends on the set of tokens and on `generator`, and neither on the device nor on the order of tokens.

    Raises ValueError when fewer distinct valid tokens than prototypes came, when one is not finite, when `noise_std`
    is negative, or when `generator` is not a CPU generator.
    """
    distinct, counts = _distinct(tokens, num_prototypes, generator, mask, noise_std)
    chosen = _spread_out(distinct, counts, num_prototypes, generator)
    return _with_noise(distinct[chosen], tokens, noise_std, generator)


def random_tokens(
    tokens: Float[Tensor, "*batch dim"],
    num_prototypes: int,
    generator: torch.Generator,
    mask: Bool[Tensor, "*batch"] | None = None,
    noise_std: Number = 0.0,
) -> Float[Tensor, "num_prototypes dim"]:
    """K distinct valid tokens drawn uniformly without replacement (Forgy 1965), else as `kmeans_plus_plus`."""
    distinct, _ = _distinct(tokens, num_prototypes, generator, mask, noise_std)
    chosen = torch.randperm(len(distinct), generator=generator)[:num_prototypes]
    return _with_noise(distinct[chosen], tokens, noise_std, generator)


def standard_normal(
    tokens: Float[Tensor, "*batch dim"],
    num_prototypes: int,
    generator: torch.Generator,
    mask: Bool[Tensor, "*batch"] | None = None,
    noise_std: Number = 0.0,
) -> Float[Tensor, "num_prototypes dim"]:
    """N(0, 1) whatever the tokens are: the control. Same arguments and errors as `kmeans_plus_plus`."""
    _distinct(tokens, num_prototypes, generator, mask, noise_std)
    drawn = torch.randn(num_prototypes, tokens.shape[-1], generator=generator, dtype=torch.float64)
    return _with_noise(drawn, tokens, noise_std, generator)


INITIALISATIONS: Mapping[str, Callable[..., Tensor]] = {
    "k-means++": kmeans_plus_plus,
    "tokens": random_tokens,
    "normal": standard_normal,
}


def _distinct(
    tokens: Tensor, num_prototypes: int, generator: torch.Generator, mask: Tensor | None, noise_std: Number
) -> tuple[Tensor, Tensor]:
    """The distinct valid tokens (M, D) in sorted order, in float64 on the CPU, and how often each came (M,)."""
    checked_count("num_prototypes", num_prototypes)
    if generator.device.type != "cpu":
        raise ValueError(f"generator is on {generator.device}; the draw is done on the CPU: use torch.Generator()")
    if isinstance(noise_std, bool) or not (math.isfinite(noise_std) and noise_std >= 0):
        raise ValueError(f"noise_std is {noise_std!r}; it must be finite and at least 0")
    valid = valid_tokens(tokens, mask).to("cpu", torch.float64)
    broken = int((~torch.isfinite(valid).all(dim=-1)).sum())
    if broken:
        raise ValueError(f"{broken} of {len(valid)} valid tokens are not finite; mend or mask them before initialising")
    distinct, counts = torch.unique(valid, dim=0, return_counts=True) if len(valid) else (valid, torch.zeros(0))
    if len(distinct) < num_prototypes:
        raise ValueError(
            f"{len(distinct)} distinct tokens among {len(valid)} valid ones cannot give {num_prototypes} prototypes; "
            f"pass more tokens, or ask for at most {len(distinct)} prototypes"
        )
    return distinct, counts.double()


def _with_noise(drawn: Tensor, tokens: Tensor, noise_std: Number, generator: torch.Generator) -> Tensor:
    noise = noise_std * torch.randn(drawn.shape, generator=generator, dtype=torch.float64)
    return (drawn + noise).to(tokens.device, tokens.dtype)


def _spread_out(rows: Tensor, counts: Tensor, number: int, generator: torch.Generator) -> list[int]:
    """Indices of `number` of the distinct `rows` (M, D), each of which stands for `counts` (M,) tokens."""
    shifted = rows - rows.mean(dim=0)
    # unit scale, so that squares neither overflow nor vanish.
    scaled = shifted / shifted.abs().max().clamp_min(torch.finfo(torch.float64).tiny)
    chosen = [_draw(counts, generator)]
    free = torch.ones(len(rows), dtype=torch.bool)
    nearest = torch.full((len(rows),), torch.inf, dtype=torch.float64)
    while len(chosen) < number:
        free[chosen[-1]] = False
        nearest = torch.minimum(nearest, (scaled - scaled[chosen[-1]]).square().sum(dim=-1))
        weights = torch.where(free, counts * nearest, 0.0)
        # rows may differ by so little that every square is 0: then any of those left will do.
        chosen.append(_draw(weights if float(weights.sum()) > 0 else torch.where(free, counts, 0.0), generator))
    return chosen


def _draw(weights: Tensor, generator: torch.Generator) -> int:
    """One index with a probability proportional to `weights` (M,), never one of weight 0."""
    cumulative = weights.cumsum(dim=0)
    point = torch.rand((), generator=generator, dtype=torch.float64) * cumulative[-1]
    index = int(torch.searchsorted(cumulative, point, right=True))
    return min(index, int(weights.nonzero()[-1]))
