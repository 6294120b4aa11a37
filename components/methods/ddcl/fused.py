"""The layer's arithmetic by blocks of tokens, with a backward pass written by hand: six matrix products, no more.

Tokens and prototypes are taken relative to the bank's mean, block by block, so that what a block needs stays in cache
and no tensor of the size of all tokens is formed in between. With w the weight of a token (one over their number), s =
2 z.p - ||p||^2 the scores, q = softmax(s / tau), mu = q P and M_kl the squared distances between prototypes:

    L = w sum_n (||z||^2 - q.s)      R = w sum_n ||z - mu||^2      V = w sum_n (1/2) q M q

Forward there are two products, z P^T and q P. Backward, with g the gradients of the outputs, G = P P^T, c = 2 w (g_L +
g_R) and d = 2 w (g_R - g_V):

    B  = g_mu - c z                                       of what is left of the codes
    H  = B P^T + d q G + w (g_L + g_V) ||p||^2 + g_q      of q, up to a constant per token
    S  = q (H - q.H) / tau                                of s through the softmax, which drops the constant
    dz = (2 S - c q) P + c z
    dP = 2 S^T z + q^T B + d (q^T q) P - 2 diag(sum_n (S - w g_L q)) P + 2 w g_V diag(sum_n q) P

The gradient of a gradient is asked for seldom: it goes through the plain operations (`plain.py`), which these are held
against in the tests.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from components.methods.ddcl.numerics import pairwise_squared_distances
from components.methods.ddcl.plain import Quantised, quantise_plainly

# Entries that the tensors of one block hold together: about what a core keeps near.
BLOCK_ENTRIES = 2**17
LEAST_ROWS = 64


class Setting(NamedTuple):
    """`wide`: the type to calculate in; `answer`: that of the outputs; `keep`: whether assignments are an output."""

    wide: torch.dtype
    answer: torch.dtype
    keep: bool = True


def quantise(
    tokens: Float[Tensor, "tokens dim"],
    prototypes: Float[Tensor, "prototypes dim"],
    valid: Bool[Tensor, " tokens"] | None,
    temperature: Float[Tensor, ""],
    setting: Setting,
) -> Quantised:
    """Codes, assignments, winners and the three losses of tokens in their own coordinates.

    What stands at places that are not valid reaches nothing; their codes and assignments are 0.
    """
    # a traced graph holds no backward pass, and without a gradient the plain operations will do
    learns = torch.is_grad_enabled() and (tokens.requires_grad or prototypes.requires_grad)
    if torch.compiler.is_compiling() or not (learns or not setting.keep):
        return quantise_plainly(tokens, prototypes, valid, temperature, setting.wide, setting.answer)
    return Quantised(*_Quantise.apply(tokens, prototypes, valid, temperature, setting))  # type: ignore[no-untyped-call]


class _Bank:
    """The prototypes relative to their mean, in the type to calculate in, with what every block needs of them."""

    def __init__(self, prototypes: Tensor, wide: torch.dtype):
        own = prototypes.detach().to(wide)
        self.centre = own.mean(dim=0)
        self.points = own - self.centre
        self.norms = self.points.square().sum(dim=-1)
        # the product with pairs of prototypes costs K a token and prototype, that with a token D
        self.narrow = len(self.points) <= self.points.shape[1]

    def tokens(self, rows: Tensor, valid: Tensor | None) -> Tensor:
        """Tokens of a block relative to the centre, those that are not valid 0."""
        return _of_valid(rows - self.centre, valid)

    def scores(self, z: Tensor) -> Tensor:
        return torch.addmm(self.norms, z, self.points.mT, beta=-1, alpha=2)


def _assigned(scores: Tensor, temperature: Tensor, valid: Tensor | None) -> Tensor:
    """q (n, K), 0 where not valid."""
    # shifted before the division, so that no temperature, however small, turns a score into infinity
    q = torch.softmax((scores - scores.amax(dim=-1, keepdim=True)).div_(temperature), dim=-1)
    return q if valid is None else q.mul_(valid.unsqueeze(-1))


def _dot(first: Tensor, second: Tensor) -> Tensor:
    return torch.dot(first.flatten(), second.flatten())


class _Quantise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        tokens: Tensor,
        prototypes: Tensor,
        valid: Tensor | None,
        temperature: Tensor,
        setting: Setting,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        bank, tau = _Bank(prototypes, setting.wide), temperature.to(setting.wide)
        pairs = pairwise_squared_distances(bank.points)
        count, dim = tokens.shape
        codes = tokens.new_empty((count, dim), dtype=setting.answer)
        winners = torch.empty(0 if setting.keep else count, dtype=torch.int64, device=tokens.device)
        q = tokens.new_empty((count, len(bank.points)) if setting.keep else (0, len(bank.points)), dtype=setting.wide)
        loss, reconstruction, diversity = tokens.new_zeros(3, dtype=setting.wide).unbind()
        for start, stop in _blocks(tokens, len(bank.points), setting.keep):
            rows, own = slice(start, stop), None if valid is None else valid[start:stop]
            z = bank.tokens(tokens[rows], own)
            scores = bank.scores(z)
            part = _assigned(scores, tau, own)
            mu = part @ bank.points
            loss += _dot(z, z) - _dot(part, scores)
            diversity += _variance(part, mu, bank, pairs, own)
            torch.add(mu, bank.centre, out=codes[rows])
            z -= mu
            reconstruction += _dot(z, z)
            if setting.keep:
                q[rows] = part
            else:
                winners[rows] = scores.argmax(dim=-1)
        if valid is not None:
            codes.masked_fill_(~valid.unsqueeze(-1), 0)
        weight = _weight(tokens, valid, setting.wide)
        ctx.save_for_backward(tokens, prototypes, valid, temperature, q)
        ctx.setting = setting
        ctx.mark_non_differentiable(winners)
        ctx.set_materialize_grads(False)
        answers = [(weight * value).clamp_min(0).to(setting.answer) for value in (loss, reconstruction, diversity)]
        return codes, q.to(setting.answer), winners, answers[0], answers[1], answers[2]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        tokens, prototypes, valid, temperature, q = ctx.saved_tensors
        if torch.is_grad_enabled():
            found = _through_plain_operations(ctx.setting, grads, tokens, prototypes, valid, temperature)
        else:
            found = _backward(ctx.setting, grads, tokens, prototypes, valid, temperature, q)
        return (*found, None, None, None)


def _backward(
    setting: Setting,
    grads: tuple[Tensor | None, ...],
    tokens: Tensor,
    prototypes: Tensor,
    valid: Tensor | None,
    temperature: Tensor,
    kept: Tensor,
) -> tuple[Tensor, Tensor]:
    """dz and dP as in the head of this file."""
    of_codes, of_q, _, *of_losses = grads
    bank, tau = _Bank(prototypes, setting.wide), temperature.to(setting.wide)
    weight = _weight(tokens, valid, setting.wide)
    zero = torch.zeros_like(weight)
    g_loss, g_reconstruction, g_diversity = (zero if g is None else weight * g.to(setting.wide) for g in of_losses)
    c, d = 2 * (g_loss + g_reconstruction), 2 * (g_reconstruction - g_diversity)
    spread = of_losses[1] is not None or of_losses[2] is not None
    level = (g_loss + g_diversity) * bank.norms
    gram = bank.points @ bank.points.mT if spread and bank.narrow else None
    dz = torch.empty_like(tokens)
    dp = torch.zeros_like(bank.points)
    of_scores, used = torch.zeros_like(bank.norms), torch.zeros_like(bank.norms)
    products = torch.zeros_like(gram) if gram is not None else None
    for start, stop in _blocks(tokens, len(bank.points), setting.keep):
        rows, own = slice(start, stop), None if valid is None else valid[start:stop]
        z = bank.tokens(tokens[rows], own)
        q = kept[rows] if setting.keep else _assigned(bank.scores(z), tau, own)
        b = (
            z * -c
            if of_codes is None
            else torch.addcmul(_of_valid(of_codes[rows], own).to(setting.wide), z, c, value=-1)
        )
        if spread and gram is None:
            b += (q @ bank.points).mul_(d)
        h = torch.addmm(level, b, bank.points.mT)
        if gram is not None and products is not None:
            h += (q @ gram).mul_(d)
            products += q.mT @ q
        if of_q is not None:
            h += of_q[rows]
        # times q before the division: what a tiny temperature blows up is then 0 already
        s = (h - (q * h).sum(dim=-1, keepdim=True)).mul_(q).div_(tau)
        dp += 2 * (s.mT @ z) + q.mT @ b
        of_scores += s.sum(dim=0)
        used += q.sum(dim=0)
        of_rows = dz[rows] if dz.dtype == setting.wide else None
        moved = torch.mm(torch.addcmul(2 * s, q, c, value=-1), bank.points, out=of_rows).addcmul_(z, c)
        if of_rows is None:
            dz[rows] = moved
    dp += (2 * ((g_loss + g_diversity) * used - of_scores)).unsqueeze(-1) * bank.points
    if products is not None:
        dp += d * (products @ bank.points)
    return dz, dp.to(prototypes.dtype)


def _of_valid(rows: Tensor, valid: Tensor | None) -> Tensor:
    return rows if valid is None else torch.where(valid.unsqueeze(-1), rows, 0)


def _variance(q: Tensor, mu: Tensor, bank: _Bank, pairs: Tensor, valid: Tensor | None) -> Tensor:
    """sum_n sum_k q_nk ||p_k - mu_n||^2, of differences between prototypes alone, however near they are.

    With few prototypes by all their pairs. With many about the most probable one, a, of each token:
    sum_k q_k M_ak - ||mu - p_a||^2, which cancels little since q_a is at least 1/K.
    """
    if bank.narrow:
        return _dot(q @ pairs, q) / 2
    winners = q.argmax(dim=-1)
    away = _of_valid(mu - bank.points[winners], valid)
    return _dot(q, pairs[winners]) - _dot(away, away)


def _weight(tokens: Tensor, valid: Tensor | None, wide: torch.dtype) -> Tensor:
    """One over the number of valid tokens, over 1 where there is none."""
    if valid is None:
        return tokens.new_tensor(1 / max(1, len(tokens)), dtype=wide)
    return 1 / valid.sum().clamp_min(1).to(wide)


def _blocks(tokens: Tensor, prototypes: int, keep: bool) -> list[tuple[int, int]]:
    count, dim = tokens.shape
    rows = max(LEAST_ROWS, BLOCK_ENTRIES // (dim + prototypes))
    if tokens.is_cuda and keep:
        # there a block is no gain in speed, and what blocks save in memory the assignments take anyway
        rows = max(1, count)
    return [(start, min(start + rows, count)) for start in range(0, count, rows)]


def _through_plain_operations(
    setting: Setting,
    grads: tuple[Tensor | None, ...],
    tokens: Tensor,
    prototypes: Tensor,
    valid: Tensor | None,
    temperature: Tensor,
) -> tuple[Tensor | None, ...]:
    """The gradient as a differentiable function of inputs and of the gradients that came."""
    found = quantise_plainly(tokens, prototypes, valid, temperature, setting.wide, setting.answer)
    pairs = [(output, grad) for output, grad in zip(found, grads, strict=True) if grad is not None]
    wanted = [tensor for tensor in (tokens, prototypes) if tensor.requires_grad]
    answers = iter(
        torch.autograd.grad(
            [output for output, _ in pairs],
            wanted,
            [grad for _, grad in pairs],
            create_graph=True,
            allow_unused=True,
        )
    )
    return tuple(next(answers) if tensor.requires_grad else None for tensor in (tokens, prototypes))
