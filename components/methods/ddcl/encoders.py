"""What stands between scaled features and a readout. A new encoder is a function and a line in `ENCODERS`."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from typing_extensions import override

HEADS = 4


class TokenEncoder(nn.Module):
    """Encode tokens (B, T, F) to (B, T, D); the mask (B, T) is True where a token is."""

    def forward(
        self, tokens: Float[Tensor, "batch tokens features"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens dim"]:
        raise NotImplementedError(f"{type(self).__name__} encodes nothing")


class FrozenEncoder(TokenEncoder):
    """The features themselves: those of a frozen encoder need no other. Nothing in it learns."""

    @override
    def forward(
        self, tokens: Float[Tensor, "batch tokens features"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens dim"]:
        return tokens


class PerceptronEncoder(TokenEncoder):
    """Each token by itself: one hidden layer, then a norm.

    Without an affine part the norm bounds the tokens: shrinking them towards a point cannot lower a quantisation loss.
    """

    def __init__(self, num_features: int, dim: int, hidden: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(num_features, hidden),
            nn.GELU(),
            nn.Linear(hidden, dim),
            nn.LayerNorm(dim, elementwise_affine=False),
        )

    @override
    def forward(
        self, tokens: Float[Tensor, "batch tokens features"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens dim"]:
        encoded: Tensor = self.layers(tokens)
        return encoded


class TransformerEncoder(TokenEncoder):
    """Tokens that see each other: a projection, one pre-norm transformer block of 4 heads, then a norm as above.

    Masked tokens are seen by none. The features carry their positions already, so none are added.
    """

    def __init__(self, num_features: int, dim: int, hidden: int):
        super().__init__()
        if dim % HEADS:
            raise ValueError(
                f"dim is {dim}; the transformer's {HEADS} heads share it evenly: give a multiple of {HEADS}"
            )
        self.projection = nn.Linear(num_features, dim)
        self.norm_attention = nn.LayerNorm(dim)
        self.queries_keys_values = nn.Linear(dim, 3 * dim)
        self.mix = nn.Linear(dim, dim)
        self.feed_forward = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))
        self.norm = nn.LayerNorm(dim, elementwise_affine=False)

    @override
    def forward(
        self, tokens: Float[Tensor, "batch tokens features"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens dim"]:
        states = self.projection(tokens)
        states = states + self.mix(self._attended(self.norm_attention(states), mask))
        states = states + self.feed_forward(states)
        encoded: Tensor = self.norm(states)
        return encoded

    def _attended(self, states: Tensor, mask: Tensor) -> Tensor:
        heads = self.queries_keys_values(states).unflatten(-1, (3, HEADS, -1))
        queries, keys, values = (part.transpose(1, 2) for part in heads.unbind(dim=2))
        scores = queries @ keys.mT / queries.shape[-1] ** 0.5
        # a large number in place of infinity: a sequence without a token gets an average that nobody reads, and no NaN
        scores = torch.where(mask[:, None, None, :], scores, torch.finfo(scores.dtype).min)
        read: Tensor = scores.softmax(dim=-1) @ values
        return read.transpose(1, 2).flatten(2)


def _frozen(num_features: int, dim: int, hidden: int) -> TokenEncoder:
    if dim != num_features:
        raise ValueError(
            f"a frozen encoder leaves {num_features} features as they are, and dim is {dim}: set dim to {num_features}"
        )
    return FrozenEncoder()


# (num_features, dim, hidden) -> encoder
ENCODERS: Mapping[str, Callable[[int, int, int], TokenEncoder]] = {
    "frozen": _frozen,
    "perceptron": PerceptronEncoder,
    "transformer": TransformerEncoder,
}
