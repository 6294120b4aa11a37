"""Linear cost, counted and not timed: the largest tensor of a step, and its multiply-adds."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from components.methods.ddcl import DDCLAttention, free_energy, numerics, reference

LENGTH, COUNT, DIM = 400, 24, 32


class LargestTensor(TorchDispatchMode):
    """Remembers the largest number of elements that any operation, forward or backward, returned."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.elements = max(self.elements, leaf.numel())
        return result


def inputs() -> tuple[DDCLAttention, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (
        DDCLAttention(DIM, COUNT, generator=generator),
        torch.randn(2, LENGTH // 2, DIM, generator=generator).requires_grad_(),
    )


def test_neither_direction_forms_tokens_by_prototypes_by_dim() -> None:
    layer, tokens = inputs()
    with LargestTensor() as seen:
        output = layer(tokens, torch.ones(2, LENGTH // 2, dtype=torch.bool))
        (output.loss + output.reconstruction + output.diversity + output.codes.sum()).backward()
    assert seen.elements <= max(LENGTH * DIM, LENGTH * COUNT, COUNT * COUNT * DIM)
    assert seen.elements * 8 < LENGTH * COUNT * DIM

    with LargestTensor() as seen:
        free_energy(tokens, layer.prototypes, 1.0).backward()
    assert seen.elements <= max(LENGTH * DIM, LENGTH * COUNT)


def test_the_count_sees_the_reference_do_it() -> None:
    layer, tokens = inputs()
    with LargestTensor() as seen:
        reference.assignments(tokens.flatten(0, 1), layer.prototypes, 1.0)
    assert seen.elements == LENGTH * COUNT * DIM


def test_pairs_of_prototypes_are_taken_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    bank = torch.randn(COUNT, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    weights = torch.linspace(-1, 1, COUNT * COUNT, dtype=torch.float64).reshape(COUNT, COUNT)
    wanted = reference.squared_distances(bank, bank)
    (wanted_gradient,) = torch.autograd.grad((wanted * weights).sum(), bank)
    for block in (1, 5 * COUNT * DIM, 2**22):
        monkeypatch.setattr(numerics, "BLOCK_ELEMENTS", block)
        with LargestTensor() as seen:
            found = numerics.pairwise_squared_distances(bank)
            (gradient,) = torch.autograd.grad((found * weights).sum(), bank)
        assert seen.elements <= max(block, COUNT * DIM)
        torch.testing.assert_close(found, wanted, rtol=1e-14, atol=0)
        torch.testing.assert_close(gradient, wanted_gradient, rtol=1e-11, atol=1e-12)


def test_work_grows_linearly_with_tokens() -> None:
    layer, _ = inputs()

    def operations(length: int) -> int:
        with FlopCounterMode(display=False) as counter:
            layer(torch.zeros(1, length, DIM)).loss.backward()
        return counter.get_total_flops()

    first, second, third = operations(100), operations(200), operations(300)
    assert third - second == second - first
    # forward: scores and codes; backward of the loss: twice the scores
    assert second - first <= 100 * COUNT * (2 * DIM * 6 + 2 * COUNT * 3)
