"""The layer beside the two matrix products it cannot do without, and beside self-attention; how its cost grows.

All contestants do a forward and a backward pass on the same tokens. The products are tokens times prototypes and
assignments times prototypes with the four derivatives that they need, in the same precision and on tensors that are
given: no centring, no softmax, no loss.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.contest import Contest, Contestant
from benchmarks.machine import installed
from components.methods.ddcl import DDCLAttention, reference
from components.methods.ddcl.numerics import PRECISIONS

LENGTH, DIM, COUNT, HEADS = 4096, 256, 32, 4
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
# By precision: the largest relative error of a loss that is still called right.
LARGEST_ERROR = {"double": 1e-6, "single": 1e-4}
# Timings of one length, of which the fastest counts: what slows a run down is never the layer itself.
REPEATS = 7


class Layer:
    """One forward and backward pass of the layer, with a gradient for codes and loss."""

    def __init__(self, precision: str, length: int = LENGTH):
        generator = torch.Generator().manual_seed(0)
        self.layer = DDCLAttention(DIM, COUNT, DIM**0.5, precision=precision, generator=generator)
        self.tokens = torch.randn(1, length, DIM, generator=generator).requires_grad_()
        self.gradient = torch.randn(1, length, DIM, generator=generator)

    def __call__(self) -> None:
        output = self.layer(self.tokens)
        torch.autograd.backward([output.codes, output.loss], [self.gradient, torch.ones(())])
        self.tokens.grad = self.layer.prototypes.grad = None

    def error(self) -> float:
        tokens, bank = self.tokens.detach()[0], self.layer.prototypes.detach()
        found = self.layer(self.tokens)
        q = reference.assignments(tokens[:512], bank, float(self.layer.temperature))
        part = self.layer(self.tokens[:, :512])
        truths = (reference.loss(tokens[:512], bank, q), reference.reconstruction(tokens[:512], bank, q))
        finite = 0.0 if bool(found.codes.isfinite().all()) else math.inf
        return finite + max(abs(float(got) / float(want) - 1) for got, want in zip(part[2:4], truths, strict=True))


class Products:
    """z P^T and q P with their derivatives, and nothing else."""

    def __init__(self, dtype: torch.dtype):
        generator = torch.Generator().manual_seed(0)

        def drawn(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float32).to(dtype)

        self.tokens, self.bank, self.q = (
            drawn(LENGTH, DIM).requires_grad_(),
            drawn(COUNT, DIM).requires_grad_(),
            drawn(LENGTH, COUNT).softmax(dim=-1).requires_grad_(),
        )
        self.gradients = drawn(LENGTH, COUNT), drawn(LENGTH, DIM)

    def __call__(self) -> None:
        scores, codes = self.tokens @ self.bank.mT, self.q @ self.bank
        torch.autograd.backward([scores, codes], self.gradients)
        self.tokens.grad = self.bank.grad = self.q.grad = None


class SelfAttention(nn.Module):
    """torch's scaled-dot-product attention with projections, in float32."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.project, self.mix = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.tokens = torch.randn(1, LENGTH, DIM).requires_grad_()

    def step(self) -> None:
        heads = self.project(self.tokens).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        read = functional.scaled_dot_product_attention(heads[0], heads[1], heads[2])
        self.mix(read.transpose(1, 2).flatten(2)).square().sum().backward()
        self.zero_grad(set_to_none=True)
        self.tokens.grad = None


def contests() -> Iterator[Contest]:
    torch_name = f"torch {installed('torch')}"
    for precision, dtype in PRECISIONS.items():
        layer = Layer(precision)
        error = layer.error()
        fault = "" if error <= LARGEST_ERROR[precision] else f"its relative error is {error:.1e}"
        measures = {"error": f"{error:.1e}", "exponent of T": f"{exponent(precision):.2f}"}
        yield Contest(
            f"T, D, K = {LENGTH}, {DIM}, {COUNT}; {precision} precision",
            ("error", "exponent of T"),
            (
                Contestant("DDCL-Attention", layer, measures, fault),
                Contestant(f"its two matrix products alone ({torch_name})", Products(dtype), {}),
                Contestant(f"self-attention, {HEADS} heads, single precision ({torch_name})", SelfAttention().step, {}),
            ),
        )


def exponent(precision: str, clock: Callable[[], float] = time.perf_counter) -> float:
    """The slope of log time over log T, least squares over LENGTHS: 1 is linear."""
    fastest = []
    for length in LENGTHS:
        layer = Layer(precision, length)
        layer()
        times = []
        for _ in range(REPEATS):
            start = clock()
            layer()
            times.append(clock() - start)
        fastest.append(min(times))
    x, y = [math.log(length) for length in LENGTHS], [math.log(seconds) for seconds in fastest]
    return statistics.linear_regression(x, y).slope
