"""Inputs and oracles that the tests of this folder share."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import jaxtyping
import pytest
import torch
from torch import Tensor

from components.methods.ddcl import DDCLAttention, reference

# batch, tokens, dim, prototypes: single entries, odd sizes, more prototypes than tokens, blocks that no kernel likes.
SIZES = [(1, 1, 1, 1), (1, 2, 3, 2), (2, 1, 7, 4), (3, 21, 16, 8), (1, 63, 5, 64), (5, 100, 64, 8)]


class Case(NamedTuple):
    """A layer with tokens and a mask that leaves out about a third of them, or None."""

    layer: DDCLAttention
    tokens: Tensor
    mask: Tensor | None

    @property
    def valid(self) -> Tensor:
        """The valid tokens as the list (N, D) that the reference takes."""
        return self.tokens.flatten(0, 1) if self.mask is None else self.tokens[self.mask]


@pytest.fixture(scope="session")
def make_case() -> Callable[..., Case]:
    def make(
        size: tuple[int, int, int, int] = (3, 21, 16, 8),
        *,
        seed: int = 0,
        temperature: float = 1.0,
        scale: float = 1.0,
        shift: float = 0.0,
        masked: bool = False,
        dtype: torch.dtype = torch.float32,
        precision: str = "double",
    ) -> Case:
        batch, length, dim, count = size
        generator = torch.Generator().manual_seed(seed)
        layer = DDCLAttention(dim, count, temperature * scale**2, precision=precision, dtype=dtype)
        bank = torch.randn(count, dim, generator=generator, dtype=torch.float64)
        tokens = torch.randn(batch, length, dim, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            layer.prototypes.copy_(bank * scale + shift)
        mask = torch.rand(batch, length, generator=generator) < 0.67 if masked else None
        if mask is not None:
            mask[0, 0] = True
        return Case(layer, (tokens * scale + shift).to(dtype), mask)

    return make


@pytest.fixture(scope="session")
def expected() -> Callable[[Case], dict[str, Tensor]]:
    """Every output of the layer by the reference, in float64 and from the very numbers that the layer gets."""

    def calculate(case: Case) -> dict[str, Tensor]:
        bank, tokens = case.layer.prototypes, case.valid
        q = reference.assignments(tokens, bank, float(case.layer.temperature))
        return {
            "codes": reference.codes(q, bank),
            "assignments": q,
            "loss": reference.loss(tokens, bank, q),
            "reconstruction": reference.reconstruction(tokens, bank, q),
            "diversity": reference.diversity(bank, q),
        }

    return calculate


def _distance(got: Tensor, wanted: Tensor) -> float:
    """RMS of the error over RMS of the truth; numbers that float32 cannot hold count as 0."""
    truth = wanted.detach().double()
    error = (got.detach().double() - truth).square().mean().sqrt()
    return float(error / truth.square().mean().sqrt().clamp_min(torch.finfo(torch.float32).tiny))


@pytest.fixture(scope="session")
def assert_close() -> Callable[..., None]:
    def check(name: str, got: Tensor, wanted: Tensor, ratio: float) -> None:
        assert got.shape == wanted.shape, f"{name}: shape {tuple(got.shape)}, expected {tuple(wanted.shape)}"
        if got.numel() == 0:
            return
        found = _distance(got, wanted)
        print(f"{name}: relative error {found:.2e}, allowed {ratio:.2e}")
        assert found <= ratio, f"{name}: relative error {found:.3e} exceeds {ratio:.1e}"

    return check


@pytest.fixture
def unchecked_shapes() -> Iterator[None]:
    """Without the tests' own shape checks, so that a bad call meets the message that a user gets."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "size" in metafunc.fixturenames:
        metafunc.parametrize("size", SIZES, ids=["x".join(map(str, size)) for size in SIZES])
