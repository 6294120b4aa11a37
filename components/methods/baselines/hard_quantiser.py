"""Hard vector quantisation (van den Oord et al., arXiv 1711.00937): what a soft codebook is held against."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from typing_extensions import override

from components.methods.ddcl.initialisation import INITIALISATIONS
from components.methods.interfaces.quantiser import QuantisedTokens, VectorQuantizer

# Added to every count of the moving average, so that a code without tokens divides by something (appendix A.1).
SMOOTHING = 1e-5
# Entries that a block of distances may hold.
BLOCK_ENTRIES = 2**22


class HardVectorQuantizer(VectorQuantizer):
    """The nearest codeword in place of each token, with the straight-through estimator.

    `(tokens (B, T, D), mask (B, T) of bool or None) -> QuantisedTokens`. With sg for stop-gradient and e the nearest
    codeword, codes are z + sg(e - z), and

        loss = ||sg(z) - e||^2 + commitment ||z - sg(e)||^2        (equation 3; update="gradient")
        loss = commitment ||z - sg(e)||^2                          (update="ema", the codebook being no parameter)

    as means over valid tokens of the squared distance (a sum over the width, where some programs take its mean: their
    weights are D times ours). In training mode "ema" moves the codebook after each forward pass (appendix A.1):
    N <- decay N + (1 - decay) n and m <- decay m + (1 - decay) sum z, e = m / N with smoothed N.

    `revive_below`: in training mode a codeword whose share of tokens, averaged by `decay`, falls below this share of an
    even one is put on a valid token of the batch, and its averages begin anew there. Which token is a function of the
    number of steps, kept in the state, and of `seed`, so that a resumed training draws the same.

    Of equally near codewords the first is taken. Calculated in float32 or wider, autocast or not. Without a valid token
    the losses are 0 and nothing is updated.

    Raises ValueError for sizes below 1, a commitment below 0, an unknown update, a decay or share outside (0, 1),
    tokens of another width, and in training mode for a valid token that is not finite, before anything is updated: one
    such would stay in the averages for good.
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
        commitment: float = 0.25,
        update: str = "gradient",
        decay: float = 0.99,
        revive_below: float | None = None,
        seed: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        for name, count in (("dim", dim), ("num_codes", num_codes)):
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} is {count!r}; it must be an integer of at least 1")
        if update not in ("gradient", "ema"):
            raise ValueError(f"update is {update!r}; choose one of ema, gradient")
        if not commitment >= 0:
            raise ValueError(f"commitment is {commitment!r}; it must be at least 0")
        for name, share in (("decay", decay), ("revive_below", revive_below)):
            if share is not None and not 0 < share < 1:
                raise ValueError(f"{name} is {share!r}; it must lie between 0 and 1")
        self.dim, self.num_codes = dim, num_codes
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
        noise_std: float = 0.0,
        method: str = "k-means++",
    ) -> None:
        """Place the codewords by one of `INITIALISATIONS`, with the averages of one token each. Raises as these do."""
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
        if tokens.ndim != 3 or tokens.shape[-1] != self.dim:
            raise ValueError(
                f"tokens have shape {tuple(tokens.shape)}; this quantiser reads (batch, tokens, {self.dim})"
            )
        with torch.autocast(tokens.device.type, enabled=False):
            wide = tokens.to(torch.promote_types(tokens.dtype, torch.float32))
            valid = torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device) if mask is None else mask
            wide = torch.where(valid.unsqueeze(-1), wide, 0)
            if self.training:
                self._refuse_nonfinite(wide)
            indices = nearest(wide.detach().flatten(0, 1), self.words.detach()).reshape(valid.shape)
            words = self.words[indices].to(wide.dtype)
            distortion = _mean((wide - words).detach().square().sum(dim=-1), valid)
            commitment = _mean((wide - words.detach()).square().sum(dim=-1), valid)
            loss = self.commitment * commitment
            if self.update == "gradient":
                loss = loss + _mean((wide.detach() - words).square().sum(dim=-1), valid)
            codes = torch.where(valid.unsqueeze(-1), wide + (words - wide).detach(), 0)
            if self.training:
                self._follow(wide.detach()[valid], indices[valid])
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
    def _follow(self, tokens: Tensor, indices: Tensor) -> None:
        """Move averages, codebook and dead codes by the valid tokens (N, D) of a batch and the codes they went to."""
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
        if self.revive_below is not None:
            self._revive(tokens, self.shares < self.revive_below / self.num_codes)

    def _revive(self, tokens: Tensor, dead: Tensor) -> None:
        count = int(dead.sum())
        if count == 0:
            return
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + int(self.steps))
        chosen = torch.randint(len(tokens), (count,), generator=generator).to(tokens.device)
        self.words.data[dead] = tokens[chosen].to(self.words.dtype)
        # an even share again, else it would be found dead once more before it could win
        self.shares[dead] = 1 / self.num_codes
        if self.update == "ema":
            self.num_wins[dead] = 1
            self.sums[dead] = self.words[dead]

    def _refuse_nonfinite(self, tokens: Tensor) -> None:
        broken = int((~torch.isfinite(tokens).all(dim=-1)).sum())
        if broken:
            raise ValueError(
                f"{broken} valid tokens are not finite, and one would stay in the codebook for good; lower the "
                "learning rate, or look at the encoder"
            )

    @override
    def extra_repr(self) -> str:
        return f"dim={self.dim}, num_codes={self.num_codes}, update={self.update!r}, revive_below={self.revive_below}"


def nearest(tokens: Float[Tensor, "tokens dim"], words: Float[Tensor, "codes dim"]) -> Tensor:
    """Index (N,) of the nearest codeword of each token, the first of equals, by blocks of tokens."""
    # about the words' mean, since expanded squares of vectors far from the origin cancel badly
    centre = words.mean(dim=0)
    words = (words - centre).to(tokens.dtype)
    norms = words.square().sum(dim=-1)
    rows = max(1, BLOCK_ENTRIES // len(words))
    found = [
        torch.addmm(norms, block - centre, words.mT, beta=-1, alpha=2).argmax(dim=-1)
        for block in torch.split(tokens, rows)
    ]
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.int64, device=tokens.device)


def _mean(values: Tensor, valid: Tensor) -> Tensor:
    return torch.where(valid, values, 0).sum() / valid.sum().clamp_min(1)
