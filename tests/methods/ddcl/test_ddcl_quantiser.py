"""The soft codebook: the layer's numbers block by block, and the nearest codeword where it is cold or hard."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from components.methods.ddcl import DDCLAttention, SoftVectorQuantizer, parameter_groups, reference
from components.methods.interfaces.quantiser import VectorQuantizer


def quantiser(
    codes: int = 9, dim: int = 4, *, seed: int = 0, temperature: float = 0.5, **more: object
) -> SoftVectorQuantizer:
    return SoftVectorQuantizer(dim, codes, temperature, generator=torch.Generator().manual_seed(seed), **more)


def batch(size: int = 3, length: int = 7, dim: int = 4, seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randn(size, length, dim, generator=generator)
    mask = torch.rand(size, length, generator=generator) < 0.7
    mask[:, 0] = True
    return tokens, mask


def test_it_is_the_layer_without_its_assignments() -> None:
    soft, (tokens, mask) = quantiser(precision="double"), batch()
    layer = DDCLAttention(4, 9, 0.5)
    layer.load_state_dict(soft.state_dict())
    found, wanted = soft(tokens, mask), layer(tokens, mask)
    torch.testing.assert_close(found.codes, wanted.codes)
    for mine, name in ((found.loss, "loss"), (found.reconstruction, "reconstruction"), (found.diversity, "diversity")):
        torch.testing.assert_close(mine, getattr(wanted, name))
    assert torch.equal(found.loss, found.quantisation_loss)
    assert torch.equal(found.indices[mask], wanted.assignments[mask].argmax(dim=-1))
    assert set(found.indices[~mask].tolist()) == {-1}


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize(("dim", "codes"), [(4, 9), (64, 128), (1, 1), (3, 2)])
def test_values_and_gradients_equal_the_reference(dim: int, codes: int, precision: str) -> None:
    soft = quantiser(codes, dim, precision=precision, temperature=0.1 * dim)
    tokens, mask = batch(dim=dim)
    tokens.requires_grad_()
    found = soft(tokens, mask)
    rows, bank = tokens[mask], soft.codebook
    q = reference.assignments(rows, bank, 0.1 * dim)
    wanted = (reference.loss(rows, bank, q), reference.codes(q, bank).square().sum())
    ratio = 1e-4 if precision == "single" else 1e-6
    torch.testing.assert_close(found.loss.double(), wanted[0], rtol=ratio, atol=1e-12)
    torch.testing.assert_close(found.codes[mask].double(), reference.codes(q, bank), rtol=ratio, atol=1e-6)
    for mine, truth in zip((found.loss, found.codes.square().sum()), wanted, strict=True):
        got = torch.autograd.grad(mine, (tokens, bank), retain_graph=True)
        want = torch.autograd.grad(truth, (tokens, bank), retain_graph=True)
        for one, other in zip(got, want, strict=True):
            assert float((one - other).norm()) <= 10 * ratio * float(other.norm()) + 1e-6


def test_a_cold_codebook_gives_the_nearest_codeword() -> None:
    soft, (tokens, mask) = quantiser(temperature=1e-6), batch()
    found = soft(tokens, mask)
    nearest = torch.cdist(tokens, soft.codebook.expand(3, -1, -1)).argmin(dim=-1)
    assert torch.equal(found.indices[mask], nearest[mask])
    torch.testing.assert_close(found.codes[mask], soft.codebook[nearest[mask]])
    torch.testing.assert_close(found.loss, found.distortion)
    assert float(found.diversity) < 1e-12


def test_hard_mode_gives_codewords_and_no_gradient_to_tokens() -> None:
    soft, (tokens, mask) = quantiser(), batch()
    soft.hard = True
    found = soft(tokens.requires_grad_(), mask)
    assert torch.equal(found.codes, soft.lookup(found.indices))
    assert float(found.codes[~mask].abs().sum()) == 0
    assert not found.codes.requires_grad
    errors = (tokens - found.codes).square().sum(dim=-1)[mask].mean()
    torch.testing.assert_close(found.distortion, errors.detach())
    assert torch.equal(soft.eval()(tokens, mask).codes, found.codes)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), cold=st.floats(-2, 1))
def test_the_distortion_is_the_least_that_codewords_allow(seed: int, cold: float) -> None:
    soft, (tokens, _) = quantiser(seed=seed, temperature=10**cold), batch(seed=seed)
    found = soft(tokens)
    least = torch.cdist(tokens.double(), soft.codebook.double().expand(3, -1, -1)).square().amin(dim=-1).mean()
    assert float(found.distortion) == pytest.approx(float(least), rel=1e-5)
    # no mixture of codewords is assigned a smaller loss than the nearest one
    assert float(found.loss) >= float(found.distortion) * (1 - 1e-5)
    assert float(found.loss) == pytest.approx(float(found.reconstruction + found.diversity), rel=1e-5)


@pytest.mark.parametrize("shape", [(0, 5, 4), (2, 0, 4)])
def test_without_tokens_everything_is_zero(shape: tuple[int, ...]) -> None:
    soft = quantiser()
    found = soft(torch.zeros(shape))
    found.loss.backward()
    assert (float(found.loss), float(found.distortion)) == (0.0, 0.0)
    assert found.indices.shape == shape[:2]
    assert float(soft.codebook.grad.abs().sum()) == 0


def test_a_masked_token_may_be_anything_and_a_valid_one_that_is_not_finite_shows_in_the_loss() -> None:
    soft, (tokens, mask) = quantiser(), batch()
    spoilt = torch.where(mask.unsqueeze(-1), tokens, torch.nan)
    assert torch.equal(soft(spoilt, mask).codes, soft(tokens, mask).codes)
    assert torch.equal(soft(spoilt, mask).distortion, soft(tokens, mask).distortion)
    spoilt[0, 0] = torch.inf
    assert math.isnan(float(soft(spoilt, mask).loss.detach()))


def test_indices_and_codewords_go_back_and_forth() -> None:
    soft, (tokens, _) = quantiser(), batch()
    indices = soft(tokens).indices
    assert soft.lookup(indices).shape == tokens.shape
    assert torch.equal(soft.lookup(torch.tensor([0, -1])), torch.stack([soft.codebook[0], torch.zeros(4)]))
    for wrong in (9, -2):
        with pytest.raises(ValueError, match="allowed is 0 to 8, and -1"):
            soft.lookup(torch.tensor([wrong]))


def test_the_codebook_is_the_fast_variable_and_starts_from_data() -> None:
    soft, (tokens, mask) = quantiser(), batch()
    assert isinstance(soft, VectorQuantizer)
    (group,) = parameter_groups(soft, 0.1)
    assert group["params"] == [soft.codebook]
    soft.initialise(tokens, torch.Generator().manual_seed(0), mask)
    assert float(torch.cdist(soft.codebook.detach(), tokens[mask]).amin(dim=1).max()) < 1e-6


class LargestTensor(TorchDispatchMode):
    """Remembers the largest number of elements that any operation, forward or backward, returned."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in torch.utils._pytree.tree_leaves(result):
            if isinstance(leaf, Tensor):
                self.elements = max(self.elements, leaf.numel())
        return result


def test_no_tensor_of_all_tokens_by_all_codes_is_formed() -> None:
    length, codes = 20000, 300
    soft = quantiser(codes, 8)
    tokens = torch.randn(1, length, 8, generator=torch.Generator().manual_seed(3)).requires_grad_()
    with LargestTensor() as seen:
        found = soft(tokens)
        (found.loss + found.codes.square().sum() + found.diversity).backward()
    assert seen.elements < length * codes / 4
    # the count sees it where it is formed
    with LargestTensor() as seen:
        DDCLAttention(8, codes)(tokens).loss.backward()
    assert seen.elements == length * codes
