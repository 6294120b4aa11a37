"""The prototype readout beside other ways to read a bag of tokens (B, T, D) into one vector, forward and backward.

Two accuracies stand beside the times. `error` is the largest relative error of loss, reconstruction and diversity
against the float64 reference, for contestants that have them. `digits` is how well a small classifier with this readout
tells handwritten digits apart, see digits.py: the same encoder, steps and seeds for all, median and range over seeds.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.contest import Contest, Contestant
from benchmarks.digits import SEEDS, accuracies
from benchmarks.readouts import READOUTS, Readout, available
from components.methods.ddcl import DDCLOutput, reference

# batch, tokens, dim, prototypes: rows of a table, short documents, the width of BERT-base
SHAPES = ((256, 1, 7, 8), (8, 128, 64, 16), (8, 128, 768, 64))
# A tenth is what guessing gets. Asked of our own layer alone: how well a peer does is a result, whatever it is.
LEARNT = 0.3
DIGITS = f"digits ({len(SEEDS)} seeds)"


def contests() -> Iterator[Contest]:
    found = available()
    digits = {name: accuracies(READOUTS[name].make) for name in found}
    for shape in SHAPES:
        batch, length, dim, count = shape
        tokens = torch.randn(batch, length, dim, generator=torch.Generator().manual_seed(1)).requires_grad_()
        # distances between normal tokens spread with the root of the width: no softmax is one-hot, none is flat
        temperature = dim**0.5
        yield Contest(
            f"B, T, D, K = {batch}, {length}, {dim}, {count}; tau = {temperature:.3g}",
            ("error", DIGITS),
            tuple(_contestant(name, tokens, count, temperature, digits[name]) for name in found),
        )


def _contestant(name: str, tokens: Tensor, count: int, temperature: float, digits: tuple[float, ...]) -> Contestant:
    kind = READOUTS[name]
    torch.manual_seed(0)
    readout = kind.make(tokens.shape[-1], count)
    readout.prepare(tokens.detach(), temperature)
    error = _error(readout, tokens, temperature)
    accuracy = {DIGITS: f"{sorted(digits)[1]:.3f} ({min(digits):.3f} to {max(digits):.3f})"}
    fault = ""
    if error is not None:
        accuracy["error"] = f"{error:.1e}"
        if not error <= kind.largest_error:
            fault = f"its relative error is {error:.1e}, allowed is {kind.largest_error:.0e}"
        elif min(digits) <= LEARNT:
            fault = f"it learns nothing: {min(digits):.2f} of its digits are right"
    return Contestant(kind.title(name), Step(readout, tokens), accuracy, fault)


class Step:
    """Forward and backward; gradients are dropped, so that none is added to the next."""

    def __init__(self, readout: Readout, tokens: Tensor):
        self.readout = readout
        self.tokens = tokens

    def __call__(self) -> None:
        vector, loss, _ = self.readout(self.tokens)
        (vector.square().sum() + loss).backward()
        self.readout.zero_grad(set_to_none=True)
        self.tokens.grad = None


@torch.no_grad()
def _error(readout: Readout, tokens: Tensor, temperature: float) -> float | None:
    output: DDCLOutput | None = readout(tokens)[2]
    if output is None:
        return None
    flat, bank = tokens.flatten(0, 1), readout.bank()
    q = reference.assignments(flat, bank, temperature)
    truths = (
        reference.loss(flat, bank, q),
        reference.reconstruction(flat, bank, q),
        reference.diversity(bank, q),
    )
    return max(abs(got.item() / truth.item() - 1) for got, truth in zip(output[2:], truths, strict=True))
