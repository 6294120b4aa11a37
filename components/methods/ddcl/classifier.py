"""A classifier that sees its input through the prototypes alone: scaler, encoder, DDCL-Attention, linear head."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from components.methods.ddcl.attention import DDCLAttention, DDCLOutput
from components.methods.ddcl.readout import pool

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
    def fit(self, rows: Float[Tensor, "rows features"], logarithmic: Bool[Tensor, " features"]) -> None:
        """Take mean and population standard deviation of `rows`, in float64; a constant feature keeps unit scale.

        Raises:
            ValueError: no rows, or a width other than this scaler's.
        """
        if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] != self.mean.shape[0]:
            raise ValueError(f"rows must have shape (rows >= 1, {self.mean.shape[0]}); got {tuple(rows.shape)}")
        self.logarithmic.copy_(logarithmic)
        values = self._compressed(rows.double())
        deviation = values.std(dim=0, correction=0)
        self.mean.copy_(values.mean(dim=0))
        self.std.copy_(torch.where(deviation > 0, deviation, torch.ones_like(deviation)))

    def forward(self, tokens: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        return (self._compressed(tokens) - self.mean) / self.std

    def _compressed(self, tokens: Tensor) -> Tensor:
        return torch.where(self.logarithmic, tokens.clamp_min(SMALLEST_POSITIVE).log(), tokens)


class ClassifierOutput(NamedTuple):
    """`logits` (B, C); `histogram` (B, K), each sequence's mixture of prototypes; `ddcl`, the layer's own output."""

    logits: Tensor
    histogram: Tensor
    ddcl: DDCLOutput


class ReadoutClassifier(nn.Module):
    """Classify sequences of tokens from their soft centroids and their assignment histogram.

    A row of a table is a sequence of one token. The head sees the mean code (D,) and the histogram (K,) and nothing
    else, so every decision is a statement about global prototypes. The paper leaves the pooling of codes open; mean
    code beside histogram is our default.

    Shapes: tokens (B, T, F) in physical units, mask (B, T) with True for real tokens; logits (B, C).
    A sequence without a real token has a zero code and a zero histogram, and so the head's bias as its logits.
    """

    def __init__(self, num_features: int, num_classes: int, *, dim: int, hidden: int, num_prototypes: int):
        super().__init__()
        self.scaler = FeatureScaler(num_features)
        # without an affine part the norm bounds the tokens: shrinking them towards a point cannot lower the loss
        self.encoder = nn.Sequential(
            nn.Linear(num_features, hidden),
            nn.GELU(),
            nn.Linear(hidden, dim),
            nn.LayerNorm(dim, elementwise_affine=False),
        )
        self.readout = DDCLAttention(dim, num_prototypes)
        self.head = nn.Linear(dim + num_prototypes, num_classes)

    def encode(
        self, tokens: Float[Tensor, "batch tokens features"], mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> Float[Tensor, "batch tokens dim"]:
        """Encoded tokens. What stands at masked places is replaced first: padding may hold anything, NaN included."""
        if mask is not None:
            tokens = torch.where(mask.unsqueeze(-1), tokens, torch.zeros_like(tokens))
        encoded: Tensor = self.encoder(self.scaler(tokens))
        return encoded

    def forward(
        self, tokens: Float[Tensor, "batch tokens features"], mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> ClassifierOutput:
        output = self.readout(self.encode(tokens, mask), mask)
        code, histogram = pool(output.codes, output.assignments, mask)
        return ClassifierOutput(self.head(torch.cat([code, histogram], dim=-1)), histogram, output)


class ServableClassifier(nn.Module):
    """The classifier as it is deployed: plain tensors in and out, all that a client may want in one pass.

    Inputs: tokens (B, T, F), mask (B, T). Outputs: logits (B, C), probabilities (B, C) = softmax of the logits, and
    assignments (B, K), the mixture of prototypes that explains them.
    """

    INPUTS = ("tokens", "mask")
    OUTPUTS = ("logits", "probabilities", "assignments")

    def __init__(self, classifier: ReadoutClassifier):
        super().__init__()
        self.classifier = classifier

    def forward(
        self, tokens: Float[Tensor, "batch tokens features"], mask: Bool[Tensor, "batch tokens"]
    ) -> tuple[Tensor, Tensor, Tensor]:
        output = self.classifier(tokens, mask)
        return output.logits, output.logits.softmax(dim=-1), output.histogram
