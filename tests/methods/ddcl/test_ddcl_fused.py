"""The blocked arithmetic with its own backward pass, against the reference and against plain operations."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from components.methods.ddcl import fused, reference
from components.methods.ddcl.fused import Setting, quantise
from components.methods.ddcl.plain import quantise_plainly

DOUBLE = torch.float64
# more prototypes than dimensions and fewer, which take different ways to the diversity
SIZES = [(1, 1, 1), (2, 3, 1), (63, 5, 7), (500, 4, 19), (63, 9, 2), (130, 3, 3)]
GRADED = (0, 1, 3, 4, 5)


def inputs(count: int, dim: int, prototypes: int, seed: int = 0, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randn(count, dim, generator=generator, dtype=DOUBLE) * scale
    bank = torch.randn(prototypes, dim, generator=generator, dtype=DOUBLE) * scale
    valid = torch.rand(count, generator=generator) < 0.7
    valid[0] = True
    return tokens.requires_grad_(), bank.requires_grad_(), valid


def weighted(found: tuple[Tensor, ...], weights: list[float], keep: bool = True) -> Tensor:
    """One scalar of all outputs, each times its weight; tensors with a pattern, so that no sum is 0 by itself."""
    total = found[3].new_zeros(())
    for place, weight in zip(GRADED, weights, strict=True):
        if weight and (keep or place != 1):
            value = found[place]
            pattern = torch.linspace(-1, 1, value.numel(), dtype=value.dtype).reshape(value.shape)
            total = total + weight * ((value * pattern).sum() if value.ndim else value)
    return total


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("keep", [True, False], ids=["kept", "recomputed"])
@pytest.mark.parametrize("shape", SIZES, ids=["x".join(map(str, shape)) for shape in SIZES])
def test_values_and_gradients_equal_those_of_plain_operations(
    shape: tuple[int, int, int], keep: bool, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused, "BLOCK_ENTRIES", 0)  # blocks of 64 rows: 500 tokens are eight of them
    tokens, bank, mask = inputs(*shape)
    valid, tau = mask if masked else None, torch.tensor(0.6, dtype=DOUBLE)
    found = quantise(tokens, bank, valid, tau, Setting(DOUBLE, DOUBLE, keep))
    wanted = quantise_plainly(tokens, bank, valid, tau, DOUBLE, DOUBLE)
    assert torch.equal(found.winners, wanted.winners) or (keep and len(found.winners) == 0)
    for place in GRADED:
        if keep or place != 1:
            torch.testing.assert_close(found[place], wanted[place], rtol=1e-11, atol=1e-13)
    each = [[float(place == other) for other in range(5)] for place in range(5)]
    for weights in (*each, [1.0, -0.5, 0.7, 2.0, -1.3]):
        if not keep and weights[1] and sum(map(abs, weights)) == 1:
            continue
        got = torch.autograd.grad(weighted(found, weights, keep), (tokens, bank), retain_graph=True)
        want = torch.autograd.grad(weighted(wanted, weights, keep), (tokens, bank), retain_graph=True)
        for one, other in zip(got, want, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_the_backward_pass_is_the_one_written_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The positive control of the test above: with a term left out of it, gradients differ."""
    tokens, bank, _ = inputs(63, 5, 7)
    tau = torch.tensor(0.6, dtype=DOUBLE)
    found = quantise(tokens, bank, None, tau, Setting(DOUBLE, DOUBLE))
    (wanted,) = torch.autograd.grad(quantise_plainly(tokens, bank, None, tau, DOUBLE, DOUBLE).diversity, bank)
    monkeypatch.setattr(torch, "addmm", lambda level, *_, **__: level.expand(63, 7).clone())
    (spoilt,) = torch.autograd.grad(found.diversity, bank)
    assert not torch.allclose(spoilt, wanted)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    magnitude=st.floats(-3, 3),
    cold=st.floats(-2, 2),
    wide=st.booleans(),
    offset=st.sampled_from([0.0, 1e3]),
)
def test_losses_of_many_prototypes_equal_the_reference_at_any_scale(
    seed: int, magnitude: float, cold: float, wide: bool, offset: float
) -> None:
    scale = 10**magnitude
    tokens, bank, _ = inputs(40, 3, 11 if wide else 3, seed, scale)
    tokens, bank = (tokens.detach() + offset).requires_grad_(), (bank.detach() + offset).requires_grad_()
    tau = 10**cold * scale**2
    found = quantise(tokens, bank, None, torch.tensor(tau, dtype=DOUBLE), Setting(DOUBLE, DOUBLE, keep=False))
    q = reference.assignments(tokens, bank, tau)
    for got, want in (
        (found.loss, reference.loss(tokens, bank, q)),
        (found.reconstruction, reference.reconstruction(tokens, bank, q)),
        (found.diversity, reference.diversity(bank, q)),
    ):
        # an offset of 1e3 leaves ten digits of numbers of size 1e-3
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-9 * scale**2)


@pytest.mark.parametrize("prototypes", [3, 12])
def test_merged_prototypes_keep_their_diversity(prototypes: int) -> None:
    """Two of them 1e-6 apart and the rest far away, by either way to the diversity."""
    tokens, bank, _ = inputs(30, 4, prototypes)
    with torch.no_grad():
        bank[1] = bank[0]
        bank[1, 0] += 1e-6
        bank[2:] += 40
    tau = 0.05
    found = quantise(tokens, bank, None, torch.tensor(tau, dtype=DOUBLE), Setting(DOUBLE, DOUBLE))
    wanted = reference.diversity(bank, reference.assignments(tokens, bank, tau)).detach()
    assert 0 < float(wanted) < 1e-11
    torch.testing.assert_close(found.diversity.detach(), wanted, rtol=1e-5, atol=0)


@pytest.mark.parametrize("keep", [True, False])
def test_second_derivatives_go_through(keep: bool) -> None:
    tokens, bank, _ = inputs(12, 3, 4)
    tau = torch.tensor(0.6, dtype=DOUBLE)

    def loss(p: Tensor) -> Tensor:
        return quantise(tokens, p, None, tau, Setting(DOUBLE, DOUBLE, keep)).loss

    def wanted(p: Tensor) -> Tensor:
        return reference.loss(tokens, p, reference.assignments(tokens, p, 0.6))

    found = torch.autograd.functional.hessian(loss, bank.detach())
    torch.testing.assert_close(found, torch.autograd.functional.hessian(wanted, bank.detach()), rtol=1e-9, atol=1e-11)


def test_an_input_that_needs_no_gradient_gets_none() -> None:
    tokens, bank, _ = inputs(12, 3, 4)
    tau, setting = torch.tensor(0.6, dtype=DOUBLE), Setting(DOUBLE, DOUBLE)
    quantise(tokens.detach(), bank, None, tau, setting).loss.backward()
    only = bank.grad.clone()
    bank.grad = None
    quantise(tokens, bank, None, tau, setting).loss.backward()
    torch.testing.assert_close(bank.grad, only)


def test_half_precision_gradients_that_come_are_taken() -> None:
    """Codes in float32 of tokens in half precision, inside float64: three types in one backward pass."""
    tokens, bank, _ = inputs(20, 3, 4)
    small = tokens.detach().half().requires_grad_()
    found = quantise(
        small, bank.detach().float().requires_grad_(), None, torch.tensor(0.6), Setting(DOUBLE, torch.float32)
    )
    found.codes.square().sum().backward()
    assert small.grad is not None
    assert small.grad.dtype == torch.float16
    wanted = quantise_plainly(tokens, bank, None, torch.tensor(0.6), DOUBLE, DOUBLE)
    (truth,) = torch.autograd.grad(wanted.codes.square().sum(), tokens)
    torch.testing.assert_close(small.grad.double(), truth, rtol=2e-2, atol=2e-2)
