"""Separation, usage, the diversity's gradient and the sequence readout, by closed forms."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.methods.ddcl import (
    codebook_usage,
    diversity_gradient,
    pool,
    prototype_separation,
    reference,
    usage_counts,
)


def test_separation_of_a_triangle() -> None:
    found = prototype_separation(torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]]) + 1000)
    assert (found.minimum, found.mean) == (3.0, 4.0)


def test_separation_of_a_collapsed_bank_is_zero_and_of_a_nearly_merged_pair_exact() -> None:
    assert prototype_separation(torch.full((5, 3), 0.1)) == (0.0, 0.0)
    pair = torch.tensor([[1.0, 1.0], [1.0, 1.0 + 2**-20], [5.0, 5.0]])
    assert prototype_separation(pair).minimum == 2**-20
    with pytest.raises(ValueError, match="the bank has 1 prototype"):
        prototype_separation(torch.zeros(1, 3))


def test_usage_counts_winners_among_valid_tokens() -> None:
    assignments = torch.tensor([[[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]], [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]])
    mask = torch.tensor([[True, True], [True, False]])
    assert usage_counts(assignments, mask).tolist() == [2, 0, 1]
    assert usage_counts(assignments[..., :2].flatten(0, 1)[:1]).tolist() == [1, 0]
    assert usage_counts(assignments, torch.zeros(2, 2, dtype=torch.bool)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_utilisation_and_perplexity(dtype) -> None:
    def usage(*counts: int) -> tuple[float, float]:
        return codebook_usage(torch.tensor(counts, dtype=dtype))

    assert usage(7, 7, 7, 7) == pytest.approx((1.0, 4.0))
    assert usage(0, 9, 0, 0) == pytest.approx((0.25, 1.0))
    assert usage(5, 5, 0, 0) == pytest.approx((0.5, 2.0))
    assert usage(3, 1) == pytest.approx((1.0, math.exp(-0.75 * math.log(0.75) - 0.25 * math.log(0.25))))


@pytest.mark.parametrize("counts", [[0, 0], [3, -1], [math.nan, 1.0]])
def test_usage_of_nothing_is_refused(counts) -> None:
    with pytest.raises(ValueError, match="usage counts are"):
        codebook_usage(torch.tensor(counts))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.booleans())
def test_diversity_gradient_equals_the_reference(seed: int, masked: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    bank = torch.randn(5, 3, generator=generator, dtype=torch.float64) + 50
    q = torch.softmax(torch.randn(2, 7, 5, generator=generator, dtype=torch.float64), dim=-1)
    mask = torch.arange(14).reshape(2, 7) % 3 > 0 if masked else None
    valid = q.flatten(0, 1) if mask is None else q[mask]
    wanted = reference.gradient_of_diversity_at_fixed_assignments(bank, valid)
    torch.testing.assert_close(diversity_gradient(bank, q, mask), wanted, rtol=1e-10, atol=1e-13)


def test_diversity_gradient_of_nothing_and_of_strangers(unchecked_shapes) -> None:
    bank, q = torch.ones(4, 3), torch.full((2, 5, 4), 0.25)
    assert not diversity_gradient(bank, q, torch.zeros(2, 5, dtype=torch.bool)).any()
    with pytest.raises(ValueError, match="assignments are to 4 prototypes and the bank has 3"):
        diversity_gradient(bank[:3], q)


def test_pool_is_the_mean_over_valid_tokens(make_case) -> None:
    case = make_case((3, 9, 4, 5), masked=True)
    case.mask[1] = False
    output = case.layer(case.tokens, case.mask)
    code, histogram = pool(output.codes, output.assignments, case.mask)
    for row in (0, 2):
        keep = case.mask[row]
        torch.testing.assert_close(code[row], output.codes[row][keep].mean(dim=0))
        torch.testing.assert_close(histogram[row], output.assignments[row][keep].mean(dim=0))
        torch.testing.assert_close(code[row], histogram[row] @ case.layer.prototypes, rtol=1e-5, atol=1e-6)
        assert float(histogram[row].sum()) == pytest.approx(1, abs=1e-6)
    assert not code[1].any()
    assert not histogram[1].any()
    (code.sum() + histogram.square().sum()).backward()
    assert torch.isfinite(case.layer.prototypes.grad).all()


def test_pool_without_a_mask_without_tokens_and_in_half_precision(unchecked_shapes, make_case) -> None:
    case = make_case((3, 9, 4, 5))
    output = case.layer(case.tokens)
    code, histogram = pool(output.codes, output.assignments)
    torch.testing.assert_close(code, output.codes.mean(dim=1))
    torch.testing.assert_close(histogram, output.assignments.mean(dim=1))
    code, histogram = pool(torch.zeros(2, 0, 4), torch.zeros(2, 0, 5))
    assert (code.shape, histogram.shape) == ((2, 4), (2, 5))
    assert not code.any()
    with pytest.raises(ValueError, match=r"mask has shape \(3, 8\) and tokens \(3, 9, 4\)"):
        pool(output.codes, output.assignments, torch.ones(3, 8, dtype=torch.bool))
    code, _ = pool(output.codes.bfloat16(), output.assignments.bfloat16())
    assert code.dtype == torch.float32
    torch.testing.assert_close(code, output.codes.bfloat16().float().mean(dim=1))


def test_pool_ignores_what_stands_at_masked_places(make_case) -> None:
    case = make_case((3, 9, 4, 5), masked=True)
    output = case.layer(case.tokens, case.mask)
    dirty = torch.where(case.mask[..., None], output.codes, math.nan)
    assert torch.equal(
        pool(dirty, output.assignments, case.mask)[0], pool(output.codes, output.assignments, case.mask)[0]
    )
