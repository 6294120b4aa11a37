"""Features in physical units to features of about unit size; part of the model, so that clients send physical units."""

from collections.abc import Iterable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

# Below this a quantity that is positive by nature is unphysical; the logarithm is taken of this instead.
SMALLEST_POSITIVE = 1e-3


class FeatureScaler(nn.Module):
    """Logarithm of the chosen features, then zero mean and unit variance.

    It is part of the model, so that clients send physical units.
    Buffers `mean` and `std` (F,) hold what `fit` found; `logarithmic` (F,) says which features are taken in logarithm.
    """

    mean: Tensor
    std: Tensor
    logarithmic: Tensor

    def __init__(self, num_features: int):
        super().__init__()
        self.register_buffer("mean", torch.zeros(num_features))
        self.register_buffer("std", torch.ones(num_features))
        self.register_buffer("logarithmic", torch.zeros(num_features, dtype=torch.bool))

    @torch.no_grad()
    def fit(
        self,
        batches: Iterable[Float[Tensor, "_ features"]],
        logarithmic: Bool[Tensor, " features"],
    ) -> None:
        """Take mean and population standard deviation of all rows of all `batches`, in float64.

        A constant feature keeps unit scale. The batches are merged as Chan, Golub and LeVeque (1979) do, so the rows
        are gone through once and never held all at once.

        Raises:
            ValueError: no rows, or a width other than this scaler's.
        """
        width = self.mean.shape[0]
        self.logarithmic.copy_(logarithmic)
        count, mean, squares = 0, torch.zeros(width, dtype=torch.float64), torch.zeros(width, dtype=torch.float64)
        for rows in batches:
            if rows.ndim != 2 or rows.shape[1] != width:
                raise ValueError(f"rows must have shape (rows, {width}); got {tuple(rows.shape)}")
            if len(rows) == 0:
                continue
            values = self._compressed(rows.double())
            added, its_mean = len(rows), values.mean(dim=0)
            difference = its_mean - mean
            squares += (values - its_mean).square().sum(dim=0) + difference.square() * (count * added / (count + added))
            mean += difference * (added / (count + added))
            count += added
        if count == 0:
            raise ValueError(f"no row came, and a scale needs at least 1 of shape (rows, {width})")
        deviation = (squares / count).sqrt()
        self.mean.copy_(mean)
        self.std.copy_(torch.where(deviation > 0, deviation, torch.ones_like(deviation)))

    def forward(self, tokens: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        return (self._compressed(tokens) - self.mean) / self.std

    def _compressed(self, tokens: Tensor) -> Tensor:
        return torch.where(self.logarithmic, tokens.clamp_min(SMALLEST_POSITIVE).log(), tokens)
