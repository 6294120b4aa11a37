"""Readouts that DDCL-Attention competes with, as users know them. A further one is a class and a line in `RIVALS`."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from components.methods.baselines.hard_quantiser import HardVectorQuantizer
from components.methods.ddcl.metrics import codebook_usage, prototype_separation
from components.methods.interfaces.readout import Readout, ReadoutOutput

Tokens = Float[Tensor, "batch tokens dim"]
Mask = Bool[Tensor, "batch tokens"]
HEADS = 4


def _valid(tokens: Tokens, mask: Mask | None) -> tuple[Tensor, Tensor]:
    """Tokens with 0 at masked places, and the mask of the valid ones."""
    valid = torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device) if mask is None else mask
    return torch.where(valid.unsqueeze(-1), tokens, 0), valid


def _over_valid(scores: Tensor, valid: Tensor) -> Tensor:
    """Softmax of scores (B, K, T) over the valid tokens; 0 everywhere where there is none."""
    lowest = torch.finfo(scores.dtype).min
    weights = torch.where(valid.unsqueeze(1), scores, lowest).softmax(dim=-1)
    return torch.where(valid.unsqueeze(1), weights, 0)


class _Unexplained(Readout):
    """One vector and no parts."""

    num_parts = 0

    def _answer(self, vector: Tensor) -> ReadoutOutput:
        return ReadoutOutput(vector, vector.new_zeros((len(vector), 0)), vector.new_zeros(()), {})


class MeanReadout(_Unexplained):
    """The mean of the valid tokens."""

    def __init__(self, dim: int, num_parts: int = 0):
        super().__init__()
        self.width = dim

    @override
    def forward(self, tokens: Tokens, mask: Mask | None = None) -> ReadoutOutput:
        values, valid = _valid(tokens, mask)
        return self._answer(values.sum(dim=1) / valid.sum(dim=1, keepdim=True).clamp_min(1))


class FirstTokenReadout(_Unexplained):
    """The first token, which encoders of BERT's kind make the class token of a sequence."""

    def __init__(self, dim: int, num_parts: int = 0):
        super().__init__()
        self.width = dim

    @override
    def forward(self, tokens: Tokens, mask: Mask | None = None) -> ReadoutOutput:
        return self._answer(_valid(tokens, mask)[0][:, 0])


class AttentionPooling(Readout):
    """K learned queries, each of which reads the sequence by softmax attention, side by side for the head.

    K D + D^2 parameters beside the head's. A query always answers, whatever the sequence holds, so its weights are no
    mixture of parts and none is told.
    """

    num_parts = 0

    def __init__(self, dim: int, num_parts: int):
        super().__init__()
        self.width = num_parts * dim
        self.queries = nn.Parameter(torch.randn(num_parts, dim) / dim**0.5)
        self.keys = nn.Linear(dim, dim, bias=False)

    @override
    def forward(self, tokens: Tokens, mask: Mask | None = None) -> ReadoutOutput:
        values, valid = _valid(tokens, mask)
        scores = self.queries @ self.keys(values).mT / values.shape[-1] ** 0.5
        read = _over_valid(scores, valid) @ values
        return ReadoutOutput(read.flatten(1), read.new_zeros((len(read), 0)), read.new_zeros(()), {})


class SlotReadout(Readout):
    """Slot Attention (Locatello et al., arXiv 2006.15055, algorithm 1): slots compete for tokens over three iterations.

    The paper draws slots from a learned normal distribution, afresh for each sequence. Here each slot starts from a
    learned vector of its own, as later work does: a readout must say the same of the same sequence, and slots that are
    not exchanged between sequences can be read by a linear head. The mixture is the share of tokens that each slot
    takes in the last iteration; the head sees the slots side by side.
    """

    ITERATIONS = 3
    EPSILON = 1e-8

    def __init__(self, dim: int, num_parts: int):
        super().__init__()
        self.width, self.num_parts = num_parts * dim, num_parts
        self.slots = nn.Parameter(torch.randn(num_parts, dim))
        self.norm_tokens, self.norm_slots, self.norm_hidden = (nn.LayerNorm(dim) for _ in range(3))
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim) for _ in range(3))
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, max(dim, 128)), nn.ReLU(), nn.Linear(max(dim, 128), dim))

    @override
    def forward(self, tokens: Tokens, mask: Mask | None = None) -> ReadoutOutput:
        values, valid = _valid(tokens, mask)
        slots, taken = self.iterated(self.slots.expand(len(values), -1, -1), values, valid)
        some = valid.any(dim=1)
        mixture = taken.sum(dim=-1) / valid.sum(dim=1, keepdim=True).clamp_min(1)
        vector = torch.where(some.unsqueeze(-1), slots.flatten(1), 0)
        return ReadoutOutput(vector, mixture, vector.new_zeros(()), {})

    def iterated(
        self, slots: Float[Tensor, "batch slots dim"], tokens: Tokens, valid: Mask
    ) -> tuple[Float[Tensor, "batch slots dim"], Float[Tensor, "batch slots tokens"]]:
        """The slots after all iterations, and what share of each token every slot took in the last one."""
        inputs = self.norm_tokens(tokens)
        keys, contents = self.to_k(inputs), self.to_v(inputs)
        for _ in range(self.ITERATIONS):
            queries = self.to_q(self.norm_slots(slots))
            scores = queries @ keys.mT * slots.shape[-1] ** -0.5
            taken = torch.where(valid.unsqueeze(1), scores.softmax(dim=1), 0)
            weights = torch.where(valid.unsqueeze(1), taken + self.EPSILON, 0)
            weights = weights / weights.sum(dim=-1, keepdim=True).clamp_min(self.EPSILON)
            updated = self.gru((weights @ contents).flatten(0, 1), slots.flatten(0, 1)).unflatten(0, slots.shape[:2])
            slots = updated + self.mlp(self.norm_hidden(updated))
        return slots, taken


class PerceiverReadout(Readout):
    """A latent array of K vectors that attends to the tokens, then to itself (Jaegle et al., arXiv 2103.03206).

    Cross-attention of one head, self-attention of four, each followed by a feed-forward layer, with pre-norms and
    residual connections. Latents always answer, so no mixture is told.
    """

    num_parts = 0

    def __init__(self, dim: int, num_parts: int):
        super().__init__()
        if dim % HEADS:
            raise ValueError(f"dim is {dim}; {HEADS} heads share it evenly: give a multiple of {HEADS}")
        self.width = num_parts * dim
        self.latents = nn.Parameter(torch.randn(num_parts, dim) * 0.02)
        self.norm_latents, self.norm_tokens, self.norm_self = (nn.LayerNorm(dim) for _ in range(3))
        self.to_q, self.to_kv, self.to_out = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.to_qkv, self.mix = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.feed_cross, self.feed_self = (
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
            for _ in range(2)
        )

    @override
    def forward(self, tokens: Tokens, mask: Mask | None = None) -> ReadoutOutput:
        values, valid = _valid(tokens, mask)
        latents = self.latents.expand(len(values), -1, -1)
        keys, contents = self.to_kv(self.norm_tokens(values)).chunk(2, dim=-1)
        queries = self.to_q(self.norm_latents(latents))
        read = _over_valid(queries @ keys.mT / keys.shape[-1] ** 0.5, valid) @ contents
        latents = latents + self.to_out(read)
        latents = latents + self.feed_cross(latents)
        heads = self.to_qkv(self.norm_self(latents)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(heads[0], heads[1], heads[2]).transpose(1, 2).flatten(2)
        latents = latents + self.mix(mixed)
        latents = latents + self.feed_self(latents)
        vector = torch.where(valid.any(dim=1, keepdim=True), latents.flatten(1), 0)
        return ReadoutOutput(vector, vector.new_zeros((len(vector), 0)), vector.new_zeros(()), {})


class HardCodebookReadout(Readout):
    """A sequence by the mean of its tokens' nearest codewords beside the histogram of those: the readout made hard.

    The codebook follows a moving average, and dead codes are revived; the straight-through estimator carries the
    gradient. The loss is the commitment, of weight 1: beside a readout's loss weight it has no second one.
    """

    usage: Tensor

    def __init__(self, dim: int, num_parts: int):
        super().__init__()
        self.width, self.num_parts = dim + num_parts, num_parts
        self.quantiser = HardVectorQuantizer(dim, num_parts, commitment=1.0, update="ema", revive_below=0.1)
        self.register_buffer("usage", torch.zeros(num_parts, dtype=torch.int64), persistent=False)

    @override
    def forward(self, tokens: Tokens, mask: Mask | None = None) -> ReadoutOutput:
        values, valid = _valid(tokens, mask)
        found = self.quantiser(values, valid)
        chosen = functional.one_hot(found.indices.clamp_min(0), self.num_parts)
        wins = torch.where(valid.unsqueeze(-1), chosen, 0).sum(dim=1)
        if self.training:
            self.usage += wins.sum(dim=0)
        count = valid.sum(dim=1, keepdim=True).clamp_min(1)
        mixture = wins.to(found.codes.dtype) / count
        vector = torch.cat([found.codes.sum(dim=1) / count, mixture], dim=-1)
        terms = {"reconstruction": found.reconstruction, "diversity": found.diversity}
        return ReadoutOutput(vector, mixture, found.loss, terms, found.codes)

    @override
    def initialise(self, tokens: Tokens, generator: torch.Generator, mask: Mask | None = None) -> None:
        self.quantiser.initialise(tokens, generator, mask)

    @override
    def health(self) -> dict[str, float]:
        separation, usage = prototype_separation(self.quantiser.codebook), codebook_usage(self.usage)
        self.usage.zero_()
        return {
            "separation_min": separation.minimum,
            "separation_mean": separation.mean,
            "utilisation": usage.utilisation,
            "perplexity": usage.perplexity,
        }


# (dim, number of parts) -> readout
RIVALS: Mapping[str, Callable[[int, int], Readout]] = {
    "attention": AttentionPooling,
    "cls": FirstTokenReadout,
    "hard-vq": HardCodebookReadout,
    "mean": MeanReadout,
    "perceiver": PerceiverReadout,
    "slots": SlotReadout,
}
