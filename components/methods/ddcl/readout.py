"""From one code per token to one vector per sequence."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from components.methods.ddcl.numerics import check_bag, every_token, outside_autocast, result_dtype


def pool(
    codes: Float[Tensor, "batch tokens dim"],
    assignments: Float[Tensor, "batch tokens prototypes"],
    mask: Bool[Tensor, "batch tokens"] | None = None,
) -> tuple[Float[Tensor, "batch dim"], Float[Tensor, "batch prototypes"]]:
    """Mean code and prototype histogram of each sequence, both over its valid tokens.

    The mean code is mean_n mu_n = P qbar and the histogram is qbar = mean_n q_n: at least 0, summing to 1, readable as
    "60 % prototype 2, 40 % prototype 5". The paper names no pooling; this one is our choice. A sequence without a valid
    token gets zeros for both, which no other sequence has as histogram. The answer is float32 or wider.

    Raises ValueError when the mask does not fit.
    """
    check_bag(codes, mask)
    check_bag(assignments, mask)
    valid = every_token(codes) if mask is None else mask
    with outside_autocast(codes.device):
        return _row_means(codes, valid), _row_means(assignments, valid)


def _row_means(values: Tensor, valid: Tensor) -> Tensor:
    """Mean over the valid entries of the middle axis, (B, T, C) -> (B, C); 0 where there is none."""
    wide = values.to(result_dtype(values))
    return torch.where(valid.unsqueeze(-1), wide, 0).sum(dim=1) / valid.sum(dim=1, keepdim=True).clamp_min(1)
