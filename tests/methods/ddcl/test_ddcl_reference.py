"""The paper's identities, on the slow reference: whatever is wrong here is wrong everywhere."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from components.methods.ddcl import reference

sizes = st.tuples(st.integers(1, 12), st.integers(1, 6), st.integers(1, 5))  # tokens, prototypes, dim
seeds = st.integers(0, 2**32 - 1)
some = settings(deadline=None, max_examples=40)


def draw(size: tuple[int, int, int], seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, prototypes and *arbitrary* assignments, which need not be of the Boltzmann rule."""
    tokens, count, dim = size
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(tokens, dim, generator=generator, dtype=torch.float64)
    bank = torch.randn(count, dim, generator=generator, dtype=torch.float64)
    q = torch.softmax(3 * torch.randn(tokens, count, generator=generator, dtype=torch.float64), dim=-1)
    return z, bank, q


@some
@given(sizes, seeds)
def test_loss_splits_exactly_for_any_assignments(size: tuple[int, int, int], seed: int) -> None:
    z, bank, q = draw(size, seed)
    parts = reference.reconstruction(z, bank, q) + reference.diversity(bank, q)
    assert abs(reference.loss(z, bank, q) - parts) <= 1e-12 * max(1.0, float(parts))


@some
@given(sizes, seeds)
def test_three_forms_of_diversity_agree_within_their_bounds(size: tuple[int, int, int], seed: int) -> None:
    _, bank, q = draw(size, seed)
    value = reference.diversity(bank, q)
    torch.testing.assert_close(reference.diversity_by_covariance(bank, q), value, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(reference.diversity_by_pairs(bank, q), value, rtol=1e-12, atol=1e-12)
    widest = reference.squared_distances(bank, bank).max()
    assert -1e-15 <= value <= (1 - 1 / len(bank)) * widest / 2 + 1e-12


def test_diversity_vanishes_exactly_where_it_should() -> None:
    _, bank, q = draw((6, 4, 3), 1)
    one_hot = torch.eye(4, dtype=torch.float64)[[0, 1, 2, 3, 0, 0]]
    coincident = bank[:1].expand(4, 3)
    assert reference.diversity(bank, one_hot) == 0
    assert abs(reference.diversity(coincident, q)) < 1e-30
    assert reference.diversity(bank[:1], torch.ones(6, 1, dtype=torch.float64)) == 0
    assert reference.diversity(bank, q) > 0.1


@some
@given(sizes, seeds)
def test_gradients_at_fixed_assignments(size: tuple[int, int, int], seed: int) -> None:
    z, bank, q = draw(size, seed)
    bank.requires_grad_()
    for objective, wanted in (
        (reference.loss(z, bank, q), reference.gradient_of_loss_at_fixed_assignments(z, bank, q)),
        (reference.reconstruction(z, bank, q), reference.gradient_of_reconstruction_at_fixed_assignments(z, bank, q)),
        (reference.diversity(bank, q), reference.gradient_of_diversity_at_fixed_assignments(bank, q)),
    ):
        (found,) = torch.autograd.grad(objective, bank)
        torch.testing.assert_close(found, wanted.detach(), rtol=1e-10, atol=1e-12)


@some
@given(sizes, seeds, st.floats(0.3, 5.0))
def test_gradient_through_boltzmann_assignments(size: tuple[int, int, int], seed: int, temperature: float) -> None:
    z, bank, _ = draw(size, seed)
    bank.requires_grad_()
    objective = reference.loss(z, bank, reference.assignments(z, bank, temperature))
    (found,) = torch.autograd.grad(objective, bank)
    wanted = reference.gradient_of_loss(z, bank, temperature)
    torch.testing.assert_close(found, wanted.detach(), rtol=1e-9, atol=1e-11)


@some
@given(sizes, seeds, st.floats(0.3, 5.0))
def test_free_energy_is_loss_less_entropy_and_has_the_gradient_of_detached_assignments(
    size: tuple[int, int, int], seed: int, temperature: float
) -> None:
    z, bank, _ = draw(size, seed)
    bank.requires_grad_()
    q = reference.assignments(z, bank, temperature).detach()
    energy = reference.free_energy(z, bank, temperature)
    by_parts = reference.loss(z, bank, q) - temperature * reference.entropy(q)
    torch.testing.assert_close(energy, by_parts, rtol=1e-12, atol=1e-12)
    (found,) = torch.autograd.grad(energy, bank)
    (wanted,) = torch.autograd.grad(reference.loss(z, bank, q), bank)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-13)
    assert reference.lyapunov(z, bank, temperature) >= 0


@pytest.mark.parametrize("temperature", [0.4, 2.0])
def test_hessian_of_free_energy(temperature: float) -> None:
    z, bank, _ = draw((20, 4, 3), 5)
    found = torch.autograd.functional.hessian(lambda p: reference.free_energy(z, p, temperature), bank)
    wanted = reference.hessian_of_free_energy(z, bank, temperature)
    torch.testing.assert_close(wanted, found, rtol=1e-10, atol=1e-12)


def test_descent_on_diversity_draws_prototypes_together() -> None:
    """The papers speak of a separation force; the sign says otherwise, and nothing here may assume the opposite."""
    _, bank, q = draw((50, 5, 3), 2)
    step = 0.05 * reference.gradient_of_diversity_at_fixed_assignments(bank, q)
    assert torch.pdist(bank - step).mean() < torch.pdist(bank).mean() < torch.pdist(bank + step).mean()


def test_limits_of_the_temperature() -> None:
    z, bank, _ = draw((30, 4, 3), 3)
    cold = reference.assignments(z, bank, 1e-9)
    nearest = reference.squared_distances(z, bank).min(dim=-1)
    assert torch.equal(cold.argmax(dim=-1), nearest.indices)
    torch.testing.assert_close(reference.loss(z, bank, cold), nearest.values.mean(), rtol=1e-12, atol=0)
    hot = reference.assignments(z, bank, 1e12)
    variance = (bank - bank.mean(dim=0)).square().sum(dim=-1).mean()
    torch.testing.assert_close(reference.diversity(bank, hot), variance, rtol=1e-10, atol=0)
