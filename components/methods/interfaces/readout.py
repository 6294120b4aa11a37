"""What every readout offers: from the tokens of a sequence to one vector, and how that is explained."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


class ReadoutOutput(NamedTuple):
    """What a readout makes of B sequences."""

    vector: Float[Tensor, "batch width"]
    """What a linear head sees; 0 for a sequence without a valid token."""
    mixture: Float[Tensor, "batch parts"]
    """The explanation of a sequence: at least 0, summing to 1 over the readout's parts; 0 without a valid token."""
    loss: Float[Tensor, ""]
    """What the readout itself wants minimised; 0 when it wants nothing."""
    terms: dict[str, Tensor]
    """Further scalars to record."""
    codes: Float[Tensor, "batch tokens dim"] | None = None
    """One code a token, for those that have such."""


class Readout(nn.Module):
    """Base of all readouts. `width` is that of the vector; `num_parts` is K, 0 for one that explains nothing by parts.

    The mask (B, T) is True where a token is valid; what stands at masked places reaches neither value nor gradient.
    """

    width: int
    num_parts: int

    def forward(
        self, tokens: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> ReadoutOutput:
        """Read `tokens`. Raises ValueError for another rank, width or type of tokens or mask."""
        raise NotImplementedError(f"{type(self).__name__} reads nothing")

    def initialise(
        self,
        tokens: Float[Tensor, "batch tokens dim"],
        generator: torch.Generator,
        mask: Bool[Tensor, "batch tokens"] | None = None,
    ) -> None:
        """Take a start from tokens of the training data, for readouts that can."""

    def health(self) -> dict[str, float]:
        """What is looked at once an epoch, such as how much of a codebook is used."""
        return {}
