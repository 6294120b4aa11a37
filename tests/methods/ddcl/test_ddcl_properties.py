"""Where each property of the method is tested, and those that are not tested elsewhere.

| property | where |
|---|---|
| L_q = L_OLS + V for any assignments, masked, and on every level of a stack | reference, attention, hierarchy |
| V >= 0, its three forms agree, and where it vanishes | reference; one prototype: attention |
| gradients of L_q, L_OLS and V at fixed assignments, and of L_q through them | reference, attention, fused |
| F = L_q - tau H, with the gradient of L_q at detached assignments | reference |
| the Hessian at a collapsed bank changes sign at 2 lambda (F) and 4 lambda (L_q) | stability |
| Phi >= 0 never rises under descent and cooling | stability; on real tokens: here |
| permutation, translation and rotation | attention |
| codes lie in the convex hull of the prototypes | attention |
| the cost is linear in the number of tokens | cost; in time: benchmarks/attention.py |
| a cold layer is the nearest-prototype quantiser | attention, quantiser; soft use at least hard use: autoencoder |
| no term may be had from the two others | here |
| half precision, one prototype, one token, coincident ones, scales, offsets | attention, fused |
"""

import itertools

import pytest
import torch

from benchmarks.codebook import orbital_tokens
from components.methods.ddcl import (
    ExponentialTemperature,
    free_energy,
    kmeans_plus_plus,
    largest_variance,
    lyapunov,
    reference,
)


def test_a_diversity_that_is_loss_minus_reconstruction_is_found_out(make_case, expected) -> None:
    """The mutant meets the identity exactly, and misses the accuracy that the layer is held to."""
    misses = []
    for shift, temperature in ((0.0, 0.02), (0.0, 0.01), (1e3, 0.05)):
        case = make_case((4, 25, 64, 8), shift=shift, temperature=temperature)
        output, wanted = case.layer(case.tokens), expected(case)
        truth = float(wanted["diversity"])
        assert abs(float(output.diversity) - truth) <= 1e-5 * truth
        mutant = output.loss - output.reconstruction
        assert float(output.loss - output.reconstruction - mutant) == 0
        misses.append(abs(float(mutant) - truth) > 1e-5 * truth)
    assert all(misses)


@pytest.mark.parametrize(("start", "end"), [(3.0, 0.05), (0.5, 0.5)])
def test_the_lyapunov_function_never_rises_on_real_tokens(start: float, end: float) -> None:
    """600 orbits, 12 prototypes, plain descent on the free energy while the temperature falls."""
    tokens = orbital_tokens()[:600].double()
    bank = kmeans_plus_plus(tokens, 12, torch.Generator().manual_seed(0))
    schedule = ExponentialTemperature(start * largest_variance(tokens), end * largest_variance(tokens), 300)
    values = [float(lyapunov(tokens, bank, schedule(0)))]
    energies = []
    for step in range(300):
        bank.requires_grad_()
        energy = free_energy(tokens, bank, schedule(step))
        (gradient,) = torch.autograd.grad(energy, bank)
        bank = (bank - 0.3 * gradient).detach()
        energies.append(float(energy.detach()))
        values.append(float(lyapunov(tokens, bank, schedule(step + 1))))
    assert min(values) >= 0
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(values))
    assert values[-1] < 0.9 * values[0]
    # the free energy itself does rise where the temperature falls, so a monitor must not watch that one
    assert any(later > earlier for earlier, later in itertools.pairwise(energies)) == (start != end)


def test_every_prototype_of_real_tokens_stays_in_use() -> None:
    """Descent on the free energy at half the critical temperature keeps every prototype of k-means++ in use."""
    tokens = orbital_tokens()[:600].double()
    bank = kmeans_plus_plus(tokens, 6, torch.Generator().manual_seed(0))
    tau = 0.1 * largest_variance(tokens)
    for _ in range(300):
        bank.requires_grad_()
        (gradient,) = torch.autograd.grad(free_energy(tokens, bank, tau), bank)
        bank = (bank - 0.3 * gradient).detach()
    wins = torch.bincount(reference.assignments(tokens, bank, tau).argmax(dim=-1), minlength=6)
    assert int((wins > 0).sum()) == 6
