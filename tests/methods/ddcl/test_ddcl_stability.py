"""When collapse is unstable, and which energy falls: thresholds by Hessians, Lyapunov functions along trajectories."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from components.methods.ddcl import (
    DDCLAttention,
    critical_temperatures,
    free_energy,
    largest_variance,
    lyapunov,
    predicts_collapse,
    prototype_separation,
    reference,
    stable_temperature,
)

COUNT, DIM = 4, 3
some = settings(deadline=None, max_examples=30)


def cloud(seed: int = 0, rows: int = 150) -> Tensor:
    """Tokens (1, N, D) far from the origin, with variances near 4, 1 and 0.25."""
    generator = torch.Generator().manual_seed(seed)
    spread = torch.tensor([2.0, 1.0, 0.5], dtype=torch.float64)
    return torch.randn(1, rows, DIM, generator=generator, dtype=torch.float64) * spread + 7


def lowest_curvature(objective, tokens: Tensor) -> float:
    """Lowest Hessian eigenvalue of `objective(prototypes)` at the collapsed bank."""
    collapsed = tokens.mean(dim=(0, 1)).expand(COUNT, DIM).contiguous()
    hessian = torch.autograd.functional.hessian(objective, collapsed)
    return float(torch.linalg.eigvalsh(hessian.reshape(COUNT * DIM, COUNT * DIM))[0])


def term_of_layer(term: str, tokens: Tensor, temperature: float):
    layer = DDCLAttention(DIM, COUNT, temperature, dtype=torch.float64)
    return lambda p: getattr(torch.func.functional_call(layer, {"prototypes": p}, (tokens,)), term)


@pytest.mark.parametrize(("ratio", "published"), [(0.99, -0.00505), (1.01, 0.00495)])
def test_collapse_turns_unstable_at_the_critical_temperatures(ratio: float, published: float) -> None:
    tokens = cloud()
    critical = critical_temperatures(tokens)
    through = lowest_curvature(term_of_layer("loss", tokens, ratio * critical.loss), tokens)
    energy = lowest_curvature(lambda p: free_energy(tokens, p, ratio * critical.free_energy), tokens)
    exact = 2 / COUNT * (1 - 1 / ratio)
    for found in (through, energy):
        assert found == pytest.approx(exact, abs=1e-9)
        assert found == pytest.approx(published, abs=5e-6)
    assert predicts_collapse(ratio * critical.loss, tokens) == (ratio > 1)
    assert predicts_collapse(ratio * critical.free_energy, tokens, objective="free_energy") == (ratio > 1)


def test_reconstruction_repels_and_diversity_attracts_at_collapse() -> None:
    tokens, temperature = cloud(), 3.0
    variance = largest_variance(tokens)
    repelling = lowest_curvature(term_of_layer("reconstruction", tokens, temperature), tokens)
    assert repelling == pytest.approx(-8 * variance / (COUNT * temperature), rel=1e-9)
    collapsed = tokens.mean(dim=(0, 1)).expand(COUNT, DIM).contiguous()
    hessian = torch.autograd.functional.hessian(term_of_layer("diversity", tokens, temperature), collapsed)
    values = torch.linalg.eigvalsh(hessian.reshape(COUNT * DIM, COUNT * DIM))
    wanted = torch.tensor([0.0] * DIM + [2 / COUNT] * (COUNT - 1) * DIM, dtype=torch.float64)
    torch.testing.assert_close(values, wanted, rtol=0, atol=1e-10)


def test_detached_assignments_have_the_threshold_of_the_free_energy() -> None:
    """The gradient of F is that of L_q with q detached, also by the layer's arithmetic."""
    tokens = cloud()
    layer = DDCLAttention(DIM, COUNT, 1.3, dtype=torch.float64)
    (found,) = torch.autograd.grad(free_energy(tokens, layer.prototypes, 1.3), layer.prototypes)
    q = layer(tokens).assignments[0].detach()
    wanted = reference.gradient_of_loss_at_fixed_assignments(tokens[0], layer.prototypes.detach(), q)
    torch.testing.assert_close(found, wanted, rtol=1e-11, atol=1e-13)
    hessian = torch.autograd.functional.hessian(lambda p: free_energy(tokens, p, 1.3), layer.prototypes.detach())
    wanted = reference.hessian_of_free_energy(tokens[0], layer.prototypes.detach(), 1.3)
    torch.testing.assert_close(hessian, wanted, rtol=1e-9, atol=1e-11)


@some
@given(st.integers(0, 10**6), st.floats(0.1, 10), st.booleans())
def test_energies_equal_the_reference(seed: int, temperature: float, masked: bool) -> None:
    tokens = cloud(seed, rows=12)
    bank = torch.randn(COUNT, DIM, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 7
    mask = torch.arange(12)[None] % 3 > 0 if masked else None
    valid = tokens[0] if mask is None else tokens[mask]
    for ours, theirs in ((free_energy, reference.free_energy), (lyapunov, reference.lyapunov)):
        wanted = theirs(valid, bank, temperature)
        torch.testing.assert_close(ours(tokens, bank, temperature, mask), wanted, rtol=1e-11, atol=1e-11)
        narrow = ours(tokens.float(), bank.float(), temperature, mask)
        assert narrow.dtype == torch.float32
        torch.testing.assert_close(narrow.double(), wanted, rtol=1e-5, atol=1e-5)
    assert lyapunov(tokens, bank, temperature, mask) >= 0


def test_energies_of_nothing_and_under_autocast() -> None:
    tokens, bank = cloud().float(), torch.zeros(COUNT, DIM, requires_grad=True)
    energy = free_energy(tokens, bank, 1.0, torch.zeros(1, 150, dtype=torch.bool))
    energy.backward()
    assert float(energy) == 0
    assert not bank.grad.any()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = free_energy(tokens, bank, 1.0, precision="single")
    assert torch.equal(inside, free_energy(tokens, bank, 1.0, precision="single"))


def test_lyapunov_never_rises_under_descent_and_cooling() -> None:
    tokens = cloud(3, rows=60)
    generator = torch.Generator().manual_seed(0)
    bank = tokens.mean(dim=(0, 1)) + 0.1 * torch.randn(COUNT, DIM, generator=generator, dtype=torch.float64)
    temperature, phi, energies = 12.0, math.inf, []
    for _ in range(900):
        bank.requires_grad_()
        energy = free_energy(tokens, bank, temperature)
        energies.append(float(energy))
        (gradient,) = torch.autograd.grad(energy, bank)
        # the Hessian of F is at most 2, so this step is short of the stability limit of 1.
        bank = (bank - 0.1 * gradient).detach()
        temperature *= 0.995
        after = float(lyapunov(tokens, bank, temperature))
        assert 0 <= after <= phi + 1e-12
        phi = after
    # the free energy itself is no Lyapunov function under cooling, and the bank did spread out.
    assert max(later - earlier for earlier, later in itertools.pairwise(energies)) > 1e-4
    assert prototype_separation(bank).minimum > 0.5


@pytest.mark.parametrize(("ratio", "collapses"), [(1.1, True), (0.9, False)])
def test_descent_ends_on_the_predicted_side(ratio: float, collapses: bool) -> None:
    tokens = cloud(1, rows=80)
    temperature = ratio * critical_temperatures(tokens).free_energy
    generator = torch.Generator().manual_seed(0)
    bank = tokens.mean(dim=(0, 1)) + 1e-3 * torch.randn(COUNT, DIM, generator=generator, dtype=torch.float64)
    for _ in range(600):
        bank.requires_grad_()
        (gradient,) = torch.autograd.grad(free_energy(tokens, bank, temperature), bank)
        bank = (bank - 0.9 * gradient).detach()
    assert predicts_collapse(temperature, tokens, objective="free_energy") is collapses
    assert (prototype_separation(bank).mean < 1e-6) is collapses
    assert collapses or prototype_separation(bank).mean > 0.3


@pytest.mark.parametrize("rows", [2, 3, 40])
def test_stable_temperature_is_the_largest_eigenvalue(rows: int) -> None:
    """Also with fewer tokens than dimensions, with a mask, and in float32 far from the origin."""
    tokens = torch.randn(rows, 5, generator=torch.Generator().manual_seed(rows)) + 1000
    wanted = float(torch.linalg.eigvalsh(torch.cov(tokens.double().T, correction=0))[-1])
    assert stable_temperature(tokens) == pytest.approx(wanted, rel=1e-9)
    padded = torch.cat([tokens, torch.full((3, 5), math.nan)])[None]
    mask = (torch.arange(rows + 3) < rows)[None]
    assert stable_temperature(padded, mask) == pytest.approx(wanted, rel=1e-9)
    critical = critical_temperatures(padded, mask)
    assert (critical.free_energy, critical.loss) == pytest.approx((2 * wanted, 4 * wanted), rel=1e-9)
    assert not predicts_collapse(stable_temperature(tokens), tokens, objective="free_energy")


def test_refusals(unchecked_shapes) -> None:
    same = torch.ones(5, 3)
    with pytest.raises(ValueError, match="without spread no temperature is stable"):
        stable_temperature(same)
    with pytest.raises(ValueError, match="no valid token came"):
        stable_temperature(same, torch.zeros(5, dtype=torch.bool))
    with pytest.raises(ValueError, match="1 of 2 valid tokens are not finite"):
        largest_variance(torch.tensor([[1.0], [math.inf]]))
    with pytest.raises(ValueError, match="objective is 'entropy'; choose one of free_energy, loss"):
        predicts_collapse(1.0, same, objective="entropy")
    with pytest.raises(ValueError, match="temperature is 0"):
        free_energy(same, same, 0)
    with pytest.raises(ValueError, match="tokens are 3 wide and prototypes 2"):
        free_energy(same, same[:, :2], 1)
    with pytest.raises(ValueError, match="precision is 'half'"):
        free_energy(same, same, 1, precision="half")
