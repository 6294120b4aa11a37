"""Stacked levels: each keeps the decomposition, and the second reads the codes of the first."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from components.methods.ddcl import parameter_groups, reference
from components.methods.ddcl.hierarchy import HierarchicalDDCL

TERMS = ("loss", "reconstruction", "diversity")


def case(
    counts: tuple[int, ...] = (6, 3), *, seed: int = 0, scale: float = 1.0, dtype: torch.dtype = torch.float64
) -> tuple[HierarchicalDDCL, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tokens = (torch.randn(3, 7, 4, generator=generator, dtype=torch.float64) * scale).to(dtype)
    mask = torch.rand(3, 7, generator=generator) < 0.7
    mask[:, 0] = True
    stack = HierarchicalDDCL(4, counts, temperature=0.8 * scale**2, dtype=dtype, generator=generator)
    with torch.no_grad():
        for level in stack.levels:
            level.prototypes.mul_(scale)
    return stack, tokens, mask


@pytest.mark.parametrize("counts", [(6, 3), (1, 1), (8, 4, 2), (2, 5)])
def test_every_level_equals_the_reference_in_values_and_gradients(counts: tuple[int, ...]) -> None:
    stack, tokens, mask = case(counts)
    tokens.requires_grad_()
    output = stack(tokens, mask)
    below = tokens[mask]
    inputs = [tokens, *(level.prototypes for level in stack.levels)]
    for level, found in zip(stack.levels, output.levels, strict=True):
        q = reference.assignments(below, level.prototypes, float(level.temperature))
        wanted = {
            "loss": reference.loss(below, level.prototypes, q),
            "reconstruction": reference.reconstruction(below, level.prototypes, q),
            "diversity": reference.diversity(level.prototypes, q),
        }
        for term, value in wanted.items():
            torch.testing.assert_close(getattr(found, term), value, rtol=1e-10, atol=1e-12)
            got = torch.autograd.grad(
                getattr(found, term), inputs, retain_graph=True, materialize_grads=True, allow_unused=True
            )
            want = torch.autograd.grad(value, inputs, retain_graph=True, materialize_grads=True, allow_unused=True)
            for one, other in zip(got, want, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-11)
        below = reference.codes(q, level.prototypes)
    torch.testing.assert_close(output.codes[mask], below, rtol=1e-10, atol=1e-12)
    assert float(output.codes.detach()[~mask].abs().sum()) == 0


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), magnitude=st.floats(-3, 3), weight=st.floats(0, 10))
def test_the_decomposition_holds_on_every_level_and_of_the_sum(seed: int, magnitude: float, weight: float) -> None:
    stack, tokens, mask = case(seed=seed, scale=10**magnitude, dtype=torch.float32)
    stack.level_weights = (1.0, weight)
    output = stack(tokens, mask)
    for part in (*output.levels, output):
        loss, reconstruction, diversity = (float(getattr(part, term)) for term in TERMS)
        assert abs(loss - reconstruction - diversity) <= 1e-6 * max(loss, 1e-30)
        assert diversity >= 0
    assert float(output.loss) == pytest.approx(float(output.levels[0].loss) + weight * float(output.levels[1].loss))


def test_the_decomposition_holds_through_a_training() -> None:
    stack, tokens, mask = case((6, 3))
    stack.initialise(tokens, torch.Generator().manual_seed(1), mask)
    optimizer = torch.optim.Adam(parameter_groups(stack, 0.02))
    losses = []
    for _ in range(200):
        output = stack(tokens, mask)
        for level in output.levels:
            assert abs(float(level.loss - level.reconstruction - level.diversity)) < 1e-12
            assert float(level.diversity) >= 0
        losses.append(float(output.loss))
        optimizer.zero_grad()
        output.loss.backward()
        optimizer.step()
    assert losses[-1] < 0.7 * losses[0]


def test_levels_start_on_tokens_and_on_codes() -> None:
    stack, tokens, mask = case((6, 3))
    stack.initialise(tokens, torch.Generator().manual_seed(1), mask)
    first, second = stack.levels
    assert float(torch.cdist(first.prototypes, tokens[mask]).amin(dim=1).max()) < 1e-12
    codes = first(tokens, mask).codes[mask]
    assert float(torch.cdist(second.prototypes, codes).amin(dim=1).max()) < 1e-12


def test_the_tree_is_the_assignment_of_prototypes_to_those_above() -> None:
    stack, _, _ = case((8, 4, 2))
    tree = stack.tree()
    assert [tuple(part.shape) for part in tree] == [(8, 4), (4, 2)]
    for part, lower, upper in zip(tree, stack.levels, stack.levels[1:], strict=False):
        wanted = reference.assignments(lower.prototypes, upper.prototypes, float(upper.temperature))
        torch.testing.assert_close(part, wanted.detach())


def test_temperatures_of_all_levels_and_of_each() -> None:
    stack, _, _ = case((8, 4, 2))
    stack.set_temperatures(0.3)
    assert [float(level.temperature) for level in stack.levels] == [0.3] * 3
    stack.set_temperatures((0.3, 0.2, 0.1))
    assert [float(level.temperature) for level in stack.levels] == [0.3, 0.2, 0.1]
    with pytest.raises(ValueError, match="temperature has 2 values for 3 levels"):
        stack.set_temperatures((0.3, 0.2))


def test_both_banks_are_fast_variables() -> None:
    stack, _, _ = case()
    (group,) = parameter_groups(stack, 0.1)
    assert {id(bank) for bank in group["params"]} == {id(level.prototypes) for level in stack.levels}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_prototypes": (4,)}, r"num_prototypes is \(4,\), one number a level; a hierarchy has two"),
        ({"num_prototypes": (4, 0)}, "num_prototypes is 0"),
        ({"num_prototypes": (4, 2), "level_weights": (1.0,)}, "level_weights has 1 values for 2 levels"),
        ({"num_prototypes": (4, 2), "level_weights": (1.0, -1.0)}, "each must be at least 0"),
        ({"num_prototypes": (4, 2), "temperature": (1.0, 0.0)}, "temperature is 0.0"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HierarchicalDDCL(3, **arguments)


def test_no_valid_token_gives_zero_losses_and_gradients() -> None:
    stack, tokens, mask = case()
    output = stack(tokens, torch.zeros_like(mask))
    output.loss.backward()
    assert float(output.loss) == 0
    assert all(float(level.prototypes.grad.abs().max()) == 0 for level in stack.levels)
