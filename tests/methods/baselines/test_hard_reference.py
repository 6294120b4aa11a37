"""The hard quantiser against its slow float64 reference, and the reference against its own closed forms."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from components.methods.baselines import hard_quantiser, hard_reference
from components.methods.baselines.hard_quantiser import SMOOTHING, HardVectorQuantizer, nearest


def relative_error(got: Tensor, wanted: Tensor) -> float:
    """Norm of the error over norm of the truth; 0 where both are 0."""
    error = float((got.detach().double() - wanted.detach().double()).norm())
    return error / max(float(wanted.detach().double().norm()), 1e-300) if error else 0.0


@pytest.mark.parametrize(("scale", "shift"), [(1e-3, 0.0), (1.0, 0.0), (1e3, 0.0), (1.0, 1e3)])
@pytest.mark.parametrize("size", [(1, 1, 1, 1), (1, 2, 3, 2), (2, 1, 7, 4), (1, 63, 5, 64), (1, 500, 64, 8)])
@pytest.mark.parametrize("update", ["gradient", "ema"])
def test_values_gradients_and_averages_equal_the_reference(
    update: str, size: tuple[int, int, int, int], scale: float, shift: float
) -> None:
    """One step of training from the very numbers that the layer gets, with about a third of the tokens masked."""
    rows, length, dim, codes = size
    generator = torch.Generator().manual_seed(3)
    layer = HardVectorQuantizer(dim, codes, update=update, decay=0.9, commitment=0.4)
    tokens = torch.randn(rows, length, dim, generator=generator) * scale + shift
    mask = torch.rand(rows, length, generator=generator) < 0.67
    mask[0, 0] = True
    with torch.no_grad():
        layer.words.copy_(torch.randn(codes, dim, generator=generator) * scale + shift)
        if update == "ema":
            layer.num_wins.copy_(1 + torch.rand(codes, generator=generator))
            layer.sums.copy_(layer.words * layer.num_wins[:, None])
    before = copy.deepcopy(layer)
    tokens.requires_grad_()
    found = layer(tokens, mask)
    valid, words, chosen = tokens[mask], before.words, found.indices[mask]

    distances = hard_reference.squared_distances(valid, words)
    least = distances.gather(1, hard_reference.nearest(valid, words)[:, None])
    assert float((distances.gather(1, chosen[:, None]) - least).detach().max()) <= 1e-5 * float(
        distances.detach().max()
    )
    commitment = hard_reference.commitment_loss(valid, words, chosen)
    assert relative_error(found.distortion, commitment) < 1e-5
    assert relative_error(found.codes[mask], hard_reference.codes(valid, words, chosen)) < 1e-6
    wanted = 0.4 * hard_reference.gradient_of_commitment_loss(valid, words, chosen)
    (got,) = torch.autograd.grad(found.loss, tokens, retain_graph=True)
    assert relative_error(got[mask], wanted) < 1e-5
    assert float(got[~mask].abs().sum()) == 0
    if update == "gradient":
        wanted_loss = 0.4 * commitment + hard_reference.codebook_loss(valid, words, chosen)
        wanted = hard_reference.gradient_of_codebook_loss(valid, words, chosen)
        (got,) = torch.autograd.grad(found.loss, layer.words)
        assert relative_error(got, wanted) < 1e-5
    else:
        wanted_loss = 0.4 * commitment
        state = hard_reference.Averages(before.num_wins, before.sums, before.words)
        moved = hard_reference.moved(state, valid, chosen, 0.9, SMOOTHING)
        for got, wanted in ((layer.num_wins, moved.num_wins), (layer.sums, moved.sums), (layer.words, moved.words)):
            assert relative_error(got, wanted) < 1e-6
        assert codes == 1 or not torch.equal(layer.words, before.words)
    assert relative_error(found.loss, wanted_loss) < 1e-5


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 30), codes=st.integers(1, 9))
def test_the_reference_is_its_own_closed_forms(seed: int, count: int, codes: int) -> None:
    """Stop-gradients written as detach give the gradients that the equations have, and coincident codes the first."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randn(count, 3, dtype=torch.float64, generator=generator).requires_grad_()
    words = torch.randn(codes, 3, dtype=torch.float64, generator=generator)
    words = torch.cat([words, words]).requires_grad_()
    chosen = hard_reference.nearest(tokens, words)
    assert int(chosen.max()) < codes
    codebook = hard_reference.codebook_loss(tokens, words, chosen)
    commitment = hard_reference.commitment_loss(tokens, words, chosen)
    torch.testing.assert_close(codebook, commitment, rtol=1e-14, atol=0)
    through = torch.autograd.grad(codebook + commitment, (tokens, words))
    torch.testing.assert_close(through[0], hard_reference.gradient_of_commitment_loss(tokens, words, chosen))
    torch.testing.assert_close(through[1], hard_reference.gradient_of_codebook_loss(tokens, words, chosen))
    coded = hard_reference.codes(tokens, words, chosen)
    torch.testing.assert_close(coded, words[chosen])
    assert torch.equal(torch.autograd.grad(coded.sum(), tokens)[0], torch.ones_like(tokens))
    # both halves of one loss with its gradients let through: the plain squared error has the two of them
    plain = (tokens - words[chosen]).square().sum(dim=-1).mean()
    for one, other in zip(torch.autograd.grad(plain, (tokens, words)), through, strict=True):
        torch.testing.assert_close(one, other)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), outlier=st.floats(0, 1e3), codes=st.integers(1, 40))
def test_a_codeword_other_than_the_nearest_costs_no_more_than_rounding(seed: int, outlier: float, codes: int) -> None:
    """Also where one codeword lies far off, which puts the codebook's mean far from all others."""
    generator = torch.Generator().manual_seed(seed)
    tokens, words = torch.randn(50, 3, generator=generator), torch.randn(codes, 3, generator=generator)
    words[0] += outlier
    found, distances = nearest(tokens, words), hard_reference.squared_distances(tokens, words)
    largest = hard_reference.squared_distances(torch.cat([tokens, words]), words.mean(dim=0, keepdim=True)).max()
    excess = distances.gather(1, found[:, None]).squeeze(1) - distances.min(dim=1).values
    assert float(excess.max()) <= 8 * torch.finfo(torch.float32).eps * float(largest)


def test_coincident_codewords_give_the_first_in_every_column_of_the_product() -> None:
    generator = torch.Generator().manual_seed(0)
    for codes in (1, 3, 8, 17, 33):
        words = torch.randn(codes, 5, generator=generator)
        repeated = torch.cat([words, words, words])[torch.randperm(3 * codes, generator=generator)]
        found = nearest(torch.randn(200, 5, generator=generator), repeated)
        firsts = (repeated[:, None] == repeated[None]).all(dim=-1).int().argmax(dim=1)
        assert torch.equal(firsts[found], found)


def test_long_lists_go_by_blocks_and_no_tensor_of_tokens_by_codes_is_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Largest(TorchDispatchMode):
        elements = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            if isinstance(result, Tensor):
                self.elements = max(self.elements, result.numel())
            return result

    tokens, words = torch.randn(4001, 8), torch.randn(70, 8)
    whole = nearest(tokens, words)
    monkeypatch.setattr(hard_quantiser, "BLOCK_ELEMENTS", 70 * 100)
    with Largest() as seen:
        assert torch.equal(nearest(tokens, words), whole)
    assert seen.elements == 70 * 100
    layer = HardVectorQuantizer(8, 70)
    with Largest() as seen:
        layer(tokens[None].requires_grad_()).loss.backward()
    assert seen.elements == tokens.numel()
