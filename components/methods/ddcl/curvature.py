"""The extreme eigenvalues of the free energy's Hessian in the prototypes, without forming it where it is large."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from components.methods.ddcl.numerics import Number
from components.methods.ddcl.stability import free_energy

# Up to this many coordinates K D the Hessian is formed and its eigenvalues are exact.
EXACT_UP_TO = 64
LANCZOS_STEPS = 40


class Curvature(NamedTuple):
    """Least and largest eigenvalue of d2F/dP2.

    Theorem 1 asks for the least to be positive, and explicit steps for a rate below 2 over the largest.
    """

    least: float
    largest: float


def free_energy_curvature(
    tokens: Float[Tensor, "batch tokens dim"],
    prototypes: Float[Tensor, "prototypes dim"],
    temperature: Number,
    mask: Bool[Tensor, "batch tokens"] | None = None,
) -> Curvature:
    """The extreme eigenvalues at `prototypes`, in float64 on the CPU.

    A bank of K D <= 64 coordinates has them from the whole Hessian. A larger one from 40 steps of Lanczos (with full
    reorthogonalisation and a fixed first vector), each of which is one product of the Hessian with a vector: at most 40
    times the cost of a gradient. Lanczos answers from inside the spectrum, so the least may be somewhat too large and
    the largest somewhat too small.

    Raises ValueError when shapes, types or temperature do not fit.
    """
    rows, bank = tokens.detach().to("cpu", torch.float64), prototypes.detach().to("cpu", torch.float64)
    valid = None if mask is None else mask.cpu()
    where = bank.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(free_energy(rows, where, temperature, valid), where, create_graph=True)

    def product(vector: Tensor) -> Tensor:
        answer: Tensor = torch.autograd.grad(gradient, where, vector.reshape(bank.shape), retain_graph=True)[0]
        return answer.flatten()

    size = bank.numel()
    if size <= EXACT_UP_TO:
        hessian = torch.stack([product(row) for row in torch.eye(size, dtype=torch.float64)])
        values = torch.linalg.eigvalsh((hessian + hessian.mT) / 2)
    else:
        values = _lanczos(product, size)
    return Curvature(least=float(values[0]), largest=float(values[-1]))


def _lanczos(product: Callable[[Tensor], Tensor], size: int) -> Tensor:
    """Ritz values in rising order."""
    start = torch.randn(size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    basis = [start / start.norm()]
    diagonal: list[float] = []
    beside: list[float] = []
    for step in range(min(LANCZOS_STEPS, size)):
        vector = product(basis[-1])
        diagonal.append(float(vector @ basis[-1]))
        for _ in range(2):
            for other in basis:
                vector = vector - (vector @ other) * other
        length = float(vector.norm())
        if length < 1e-10 or step == min(LANCZOS_STEPS, size) - 1:
            break
        beside.append(length)
        basis.append(vector / length)
    inner = torch.tensor(beside[: len(diagonal) - 1], dtype=torch.float64)
    matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64)) + torch.diag(inner, 1) + torch.diag(inner, -1)
    values: Tensor = torch.linalg.eigvalsh(matrix)
    return values
