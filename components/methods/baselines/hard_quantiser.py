"""Hard vector quantisation (van den Oord et al., arXiv 1711.00937): what a soft codebook is held against."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from typing_extensions import override

from components.methods.ddcl.initialisation import INITIALISATIONS
from components.methods.ddcl.numerics import (
    BLOCK_ELEMENTS,
    Number,
    check_bag,
    checked_count,
    every_token,
    masked_mean,
    outside_autocast,
    result_dtype,
    with_derivative_of,
)
from components.methods.interfaces.quantiser import QuantisedTokens, VectorQuantizer

UPDATES = ("ema", "gradient")
# Added to every count of the moving average, as the authors' program does, so that an unused code divides by something.
SMOOTHING = 1e-5
SEEDS = 2**32
# Steps between the streams of two seeds; odd, since a CPU generator reads the lowest 32 bits of its seed only.
STREAM = 1_000_003


class HardVectorQuantizer(VectorQuantizer):
    """The nearest codeword in place of each token, with the straight-through estimator.

    `(tokens (B, T, D), mask (B, T) of bool or None) -> QuantisedTokens`. With sg for stop-gradient and e the nearest
    codeword, codes are z + sg(e - z), and

        loss = ||sg(z) - e||^2 + commitment ||z - sg(e)||^2        (equation 3; update="gradient")
        loss = commitment ||z - sg(e)||^2                          (update="ema", the codebook being no parameter)

    as means over valid tokens of the squared distance (a sum over the width, where some programs take its mean: their
    weights are D times ours). In training mode "ema" moves the codebook after each forward pass (appendix A.1):
    N <- decay N + (1 - decay) n and m <- decay m + (1 - decay) sum z, e = m / N with smoothed N. A codeword that no
    token comes to keeps its place while N is well above the smoothing, and fades to the origin after that.

    `revive_below`: in training mode a codeword whose share of tokens, averaged by `decay`, has fallen below this share
    of an even one is put on a valid token of the batch, each on another one, and its averages begin anew there. That
    happens before the batch is quantised, so that codes, losses and gradients are those of the codebook as it then is.
    Which token is a function of the number of steps, kept in the state, and of `seed`, so that a resumed training draws
    the same. The moments that an optimiser keeps of the old place stay as they are. Codes that never won die together,
    log(revive_below) / log(decay) steps from the start, and the decoder does worse for a while: let that come well
    before the learning rate ends.

    Of equally near codewords the first is taken. Calculated in float32 or wider, autocast or not. The codes are the
    codewords to the last bit. Without a valid token the losses are 0 and nothing is updated; what stands at a masked
    place reaches nothing.

    Parameters
    ----------
    dim: width D of a token. num_codes: K. generator: source of the first codewords N(0, 1), the global one if None;
    `initialise` takes them from data, which the paper leaves open. commitment 0.25 is the paper's, as is decay 0.99.

    Raises ValueError for sizes below 1, a commitment below 0, an unknown update, a decay or share outside (0, 1), a
    seed outside 0 to 2^32 - 1, tokens of another rank, width or type, a mask that does not fit, and in training mode
    for a valid token that is not finite, before anything is updated: one such would stay in the averages for good.
    """

    num_wins: Tensor
    sums: Tensor
    shares: Tensor
    steps: Tensor
    words: Tensor

    def __init__(
        self,
        dim: int,
        num_codes: int,
        *,
        commitment: Number = 0.25,
        update: str = "gradient",
        decay: Number = 0.99,
        revive_below: Number | None = None,
        seed: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if update not in UPDATES:
            raise ValueError(f"update is {update!r}; choose one of {', '.join(UPDATES)}")
        if not (math.isfinite(commitment) and commitment >= 0):
            raise ValueError(f"commitment is {commitment!r}; it must be a finite number of at least 0")
        for name, share in (("decay", decay), ("revive_below", revive_below)):
            if share is not None and not 0 < share < 1:
                raise ValueError(f"{name} is {share!r}; it must lie between 0 and 1")
        if not 0 <= seed < SEEDS:
            raise ValueError(f"seed is {seed!r}; it must be an integer from 0 to {SEEDS - 1}")
        self.dim, self.num_codes = checked_count("dim", dim), checked_count("num_codes", num_codes)
        self.commitment, self.update, self.decay = commitment, update, decay
        self.revive_below, self.seed = revive_below, seed
        words = torch.randn(num_codes, dim, generator=generator)
        if update == "gradient":
            self.words = nn.Parameter(words)
        else:
            self.register_buffer("words", words)
            self.register_buffer("num_wins", torch.ones(num_codes))
            self.register_buffer("sums", words.clone())
        self.register_buffer("shares", torch.full((num_codes,), 1 / num_codes))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    @property
    @override
    def codebook(self) -> Float[Tensor, "codes dim"]:
        return self.words

    @torch.no_grad()
    def initialise(
        self,
        tokens: Float[Tensor, "*batch dim"],
        generator: torch.Generator,
        mask: Bool[Tensor, "*batch"] | None = None,
        noise_std: Number = 0.0,
        method: str = "k-means++",
    ) -> None:
        """Place the codewords by one of `INITIALISATIONS`, with the averages of one token each.

        Raises ValueError for an unknown method, and as `kmeans_plus_plus` does.
        """
        if method not in INITIALISATIONS:
            raise ValueError(f"method is {method!r}; choose one of {', '.join(sorted(INITIALISATIONS))}")
        self.words.copy_(INITIALISATIONS[method](tokens, self.num_codes, generator, mask, noise_std))
        if self.update == "ema":
            self.num_wins.fill_(1)
            self.sums.copy_(self.words)
        self.shares.fill_(1 / self.num_codes)

    @override
    def forward(
        self, tokens: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> QuantisedTokens:
        """Quantise `tokens`; see the class."""
        check_bag(tokens, mask)
        if tokens.ndim != 3 or tokens.shape[-1] != self.dim:
            raise ValueError(
                f"tokens have shape {tuple(tokens.shape)}; this quantiser reads (batch, tokens, {self.dim})"
            )
        valid = every_token(tokens) if mask is None else mask
        with outside_autocast(tokens.device):
            wide = torch.where(valid.unsqueeze(-1), tokens, 0).to(result_dtype(tokens, self.words))
            if self.training:
                rows = wide.detach()[valid]
                _refuse_nonfinite(rows)
                self._revive(rows)
            indices = nearest(wide.detach().flatten(0, 1), self.words.detach()).reshape(valid.shape)
            words = self.words[indices].to(wide.dtype)
            commitment = masked_mean((wide - words.detach()).square().sum(dim=-1), valid)
            loss = self.commitment * commitment
            if self.update == "gradient":
                loss = loss + masked_mean((wide.detach() - words).square().sum(dim=-1), valid)
            codes = torch.where(valid.unsqueeze(-1), with_derivative_of(words.detach(), wide), 0)
            if self.training:
                self._follow(rows, indices[valid])
        distortion = commitment.detach()
        return QuantisedTokens(
            codes=codes,
            indices=torch.where(valid, indices, -1),
            loss=loss,
            quantisation_loss=distortion,
            reconstruction=distortion,
            diversity=torch.zeros_like(distortion),
            distortion=distortion,
        )

    @torch.no_grad()
    def _revive(self, tokens: Tensor) -> None:
        """Put codewords that are dead on tokens of the list (N, D), as far as there are tokens."""
        if self.revive_below is None or len(tokens) == 0:
            return
        dead = (self.shares < self.revive_below / self.num_codes).nonzero().squeeze(-1)[: len(tokens)]
        if len(dead) == 0:
            return
        generator = torch.Generator().manual_seed(self.seed * STREAM + int(self.steps))
        chosen = torch.randperm(len(tokens), generator=generator)[: len(dead)].to(tokens.device)
        self.words[dead] = tokens[chosen].to(self.words.dtype)
        # an even share again, else it would be found dead once more before it could win
        self.shares[dead] = 1 / self.num_codes
        if self.update == "ema":
            self.num_wins[dead] = 1
            self.sums[dead] = self.words[dead]

    @torch.no_grad()
    def _follow(self, tokens: Tensor, indices: Tensor) -> None:
        """Move averages and codebook by the list of valid tokens (N, D) and the codes (N,) that they went to."""
        if len(tokens) == 0:
            return
        self.steps += 1
        wins = torch.bincount(indices, minlength=self.num_codes).to(self.shares.dtype)
        self.shares.lerp_(wins / wins.sum(), 1 - self.decay)
        if self.update == "ema":
            sums = torch.zeros_like(self.sums).index_add_(0, indices, tokens.to(self.sums.dtype))
            self.num_wins.lerp_(wins, 1 - self.decay)
            self.sums.lerp_(sums, 1 - self.decay)
            total = self.num_wins.sum()
            smoothed = (self.num_wins + SMOOTHING) / (total + self.num_codes * SMOOTHING) * total
            self.words.copy_(self.sums / smoothed.unsqueeze(-1))

    @override
    def extra_repr(self) -> str:
        return f"dim={self.dim}, num_codes={self.num_codes}, update={self.update!r}, revive_below={self.revive_below}"


@torch.no_grad()
def nearest(tokens: Float[Tensor, "tokens dim"], words: Float[Tensor, "codes dim"]) -> Int[Tensor, " tokens"]:
    """Index of the nearest codeword of each token, the first of equals, by blocks of tokens.

    Calculated in the wider type of the two, by expanded squares about the codebook's mean: where the squared distances
    of two codewords differ by no more than a few roundings of the largest squared distance to that mean, either may be
    taken.
    """
    dtype = torch.promote_types(tokens.dtype, words.dtype)
    # about the words' mean, since expanded squares of vectors far from the origin cancel badly
    words = words.to(dtype)
    centre = words.mean(dim=0)
    words = words - centre
    norms = words.square().sum(dim=-1)
    rows = max(1, BLOCK_ELEMENTS // max(words.shape))
    found = [
        torch.addmm(norms, block.to(dtype) - centre, words.mT, beta=-1, alpha=2).argmax(dim=-1)
        for block in torch.split(tokens, rows)
    ]
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.int64, device=tokens.device)


def _refuse_nonfinite(tokens: Tensor) -> None:
    broken = int((~torch.isfinite(tokens).all(dim=-1)).sum())
    if broken:
        raise ValueError(
            f"{broken} valid tokens are not finite, and one would stay in the codebook for good; lower the "
            "learning rate, or look at the encoder"
        )
