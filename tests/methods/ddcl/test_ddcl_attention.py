"""The layer against its float64 reference: values, gradients, curvature, extremes."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.methods.ddcl import DDCLAttention, numerics, reference
from components.methods.ddcl.numerics import PRECISIONS

TERMS = ("loss", "reconstruction", "diversity")
some = settings(deadline=None, max_examples=40)


def identity_error(output) -> float:
    loss, reconstruction, diversity = (getattr(output, term).item() for term in TERMS)
    return abs(loss - reconstruction - diversity) / max(1.0, abs(loss))


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_outputs_equal_the_reference(make_case, expected, assert_close, size, dtype, masked) -> None:
    case = make_case(size, dtype=dtype, masked=masked, temperature=0.7)
    output, wanted = case.layer(case.tokens, case.mask), expected(case)
    ratio = 1e-6 if dtype == torch.float32 else 1e-12
    keep = torch.ones(size[:2], dtype=torch.bool) if case.mask is None else case.mask
    assert_close("codes", output.codes[keep], wanted["codes"], ratio)
    assert_close("assignments", output.assignments[keep], wanted["assignments"], ratio)
    for term in TERMS:
        assert_close(term, getattr(output, term), wanted[term], ratio)
        assert getattr(output, term).dtype == dtype
    assert identity_error(output) <= (1e-6 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_gradients_equal_the_reference(make_case, expected, assert_close, size, dtype, masked) -> None:
    case = make_case(size, dtype=dtype, masked=masked, temperature=0.7)
    case.tokens.requires_grad_()
    weights = torch.linspace(-1, 1, size[2], dtype=dtype)
    keep = torch.ones(size[:2], dtype=torch.bool) if case.mask is None else case.mask
    output, wanted = case.layer(case.tokens, case.mask), expected(case)
    for term in TERMS:
        inputs = (case.tokens, case.layer.prototypes)
        found = torch.autograd.grad(getattr(output, term), inputs, retain_graph=True)
        truth = torch.autograd.grad(wanted[term], inputs, retain_graph=True, allow_unused=True, materialize_grads=True)
        for name, got, want in zip(("tokens", "prototypes"), found, truth, strict=True):
            # where the truth is 0, as for one prototype, what is left is rounding.
            floor = 1e-6 if dtype == torch.float32 else 1e-14
            if float(want.abs().max()) < floor:
                assert float(got.abs().max()) < floor, (term, name)
            else:
                assert_close(f"d{term}/d{name}", got, want, 1e-5 if dtype == torch.float32 else 1e-11)
    inputs = (case.tokens, case.layer.prototypes)
    found = torch.autograd.grad((output.codes[keep] @ weights).sum(), inputs)
    truth = torch.autograd.grad((wanted["codes"] @ weights.double()).sum(), inputs)
    assert_close("dcodes/dprototypes", found[1], truth[1], 1e-5)
    if size[3] > 1:
        assert_close("dcodes/dtokens", found[0], truth[0], 1e-5)


@pytest.mark.parametrize("shift", [0.0, 1e3, -1e6], ids=lambda value: f"shift{value:g}")
@pytest.mark.parametrize("temperature", [0.02, 0.5, 1e4])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_each_term_is_right_in_float32_at_any_scale_and_far_from_the_origin(
    make_case, expected, assert_close, scale, temperature, shift
) -> None:
    """The last shift leaves few bits of the smaller scales: the layer must be right about what is left."""
    for seed, size in enumerate([(4, 25, 2, 8), (4, 25, 64, 8), (2, 40, 768, 32)]):
        case = make_case(size, seed=seed, scale=scale, shift=shift, temperature=temperature)
        output, wanted = case.layer(case.tokens), expected(case)
        for term in TERMS:
            assert_close(term, getattr(output, term), wanted[term], 1e-5)
        assert identity_error(output) <= 1e-6
        assert torch.isfinite(output.codes).all()


@some
@given(st.floats(-3, 3), st.floats(-3, 2), st.integers(0, 10**6))
def test_unscaled_temperature_at_any_scale(make_case, expected, assert_close, magnitude, cold, seed) -> None:
    """A temperature that does not follow the scale: assignments from one-hot to uniform."""
    case = make_case((2, 9, 7, 5), seed=seed, scale=10**magnitude)
    case.layer.set_temperature(10**cold)
    output, wanted = case.layer(case.tokens), expected(case)
    for term in TERMS:
        assert_close(term, getattr(output, term), wanted[term], 1e-5)


def test_single_precision_shows_why_double_is_the_default(make_case, expected) -> None:
    """The positive control of the tests above: the same arithmetic in float32 misses the demanded accuracy."""
    errors = {}
    for precision in PRECISIONS:
        case = make_case((1, 200, 64, 8), temperature=0.05, precision=precision)
        wanted = expected(case)["diversity"]
        errors[precision] = abs(case.layer(case.tokens).diversity.item() / wanted.item() - 1)
    assert errors["double"] < 1e-6
    assert 1e-6 < errors["single"] < 1e-3


def test_single_precision_is_right_for_mild_inputs(make_case, expected, assert_close) -> None:
    for shift in (0.0, 1e3):
        case = make_case((3, 21, 16, 8), precision="single", shift=shift)
        output, wanted = case.layer(case.tokens), expected(case)
        for term in TERMS:
            assert_close(term, getattr(output, term), wanted[term], 1e-5)
        assert identity_error(output) <= 1e-6


def test_merged_pair_of_prototypes_keeps_its_diversity(make_case, expected, assert_close) -> None:
    """Two prototypes 1e-6 apart, far from the others: an expanded square would lose their distance."""
    case = make_case((2, 30, 8, 4), temperature=0.05)
    with torch.no_grad():
        case.layer.prototypes[1] = case.layer.prototypes[0]
        case.layer.prototypes[1, 0] += 1e-6
        case.layer.prototypes[2:] += 40
    output, wanted = case.layer(case.tokens), expected(case)
    assert 0 < float(wanted["diversity"]) < 1e-11
    assert_close("diversity", output.diversity, wanted["diversity"], 1e-5)


def test_prototype_on_a_token_keeps_its_gradient_and_curvature(make_case) -> None:
    """A distance clamped at 0 would lose both."""
    case = make_case((1, 12, 4, 12), dtype=torch.float64, temperature=0.5)
    tokens, bank = case.tokens, case.tokens[0].clone()
    # the case is of use only if rounding makes one of these squares negative.
    z, centred = tokens[0] - bank.mean(dim=0), bank - bank.mean(dim=0)
    assert (z.square().sum(dim=-1, keepdim=True) - numerics.similarity_scores(z, centred)).min() < 0

    def by_layer(p):
        return torch.func.functional_call(case.layer, {"prototypes": p}, (tokens,)).loss

    def by_reference(p):
        return reference.loss(tokens[0], p, reference.assignments(tokens[0], p, 0.5))

    found = torch.autograd.functional.hessian(by_layer, bank)
    wanted = torch.autograd.functional.hessian(by_reference, bank)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)
    with torch.no_grad():
        case.layer.prototypes.copy_(bank)
    case.layer.set_temperature(1e-4)
    assert 0 <= case.layer(tokens).loss.item() < 1e-15


@pytest.mark.parametrize("term", TERMS)
def test_second_derivatives_equal_the_reference(make_case, term) -> None:
    case = make_case((2, 5, 3, 4), dtype=torch.float64, temperature=0.6)

    def by_layer(tokens, p):
        return getattr(torch.func.functional_call(case.layer, {"prototypes": p}, (tokens,)), term)

    def by_reference(tokens, p):
        flat = tokens.flatten(0, 1)
        q = reference.assignments(flat, p, float(case.layer.temperature))
        return {
            "loss": lambda: reference.loss(flat, p, q),
            "reconstruction": lambda: reference.reconstruction(flat, p, q),
            "diversity": lambda: reference.diversity(p, q),
        }[term]()

    inputs = (case.tokens, case.layer.prototypes.detach())
    found = torch.autograd.functional.hessian(by_layer, inputs)
    wanted = torch.autograd.functional.hessian(by_reference, inputs)
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        torch.testing.assert_close(found[row][column], wanted[row][column], rtol=1e-8, atol=1e-10)


@some
@given(st.integers(0, 10**6), st.floats(0.05, 20))
def test_symmetries(make_case, seed, temperature) -> None:
    """Reordered prototypes reorder assignments; moved and rotated inputs move and rotate the codes alone."""
    case = make_case((2, 6, 4, 5), seed=seed, temperature=temperature, dtype=torch.float64, masked=True)
    generator = torch.Generator().manual_seed(seed)
    output = case.layer(case.tokens, case.mask)
    bank = case.layer.prototypes.detach()

    order = torch.randperm(5, generator=generator)
    reordered = torch.func.functional_call(case.layer, {"prototypes": bank[order]}, (case.tokens, case.mask))
    torch.testing.assert_close(reordered.assignments, output.assignments[..., order], rtol=1e-10, atol=1e-13)
    torch.testing.assert_close(reordered.codes, output.codes, rtol=1e-10, atol=1e-12)

    rotation, _ = torch.linalg.qr(torch.randn(4, 4, generator=generator, dtype=torch.float64))
    shift = 100 * torch.randn(4, generator=generator, dtype=torch.float64)
    moved = torch.func.functional_call(
        case.layer, {"prototypes": bank @ rotation + shift}, (case.tokens @ rotation + shift, case.mask)
    )
    torch.testing.assert_close(moved.assignments, output.assignments, rtol=1e-7, atol=1e-10)
    wanted = torch.where(case.mask[..., None], output.codes @ rotation + shift, 0)
    torch.testing.assert_close(moved.codes, wanted, rtol=1e-9, atol=1e-9)
    for term in TERMS:
        torch.testing.assert_close(getattr(moved, term), getattr(output, term), rtol=1e-8, atol=1e-10)


@some
@given(st.integers(0, 10**6), st.floats(1e-4, 1e4))
def test_codes_lie_in_the_convex_hull_of_the_prototypes(make_case, seed, temperature) -> None:
    case = make_case((2, 6, 3, 5), seed=seed, temperature=temperature)
    output = case.layer(case.tokens)
    assert (output.assignments >= 0).all()
    torch.testing.assert_close(output.assignments.sum(dim=-1), torch.ones(2, 6), rtol=0, atol=1e-6)
    torch.testing.assert_close(output.codes, output.assignments @ case.layer.prototypes, rtol=1e-5, atol=1e-6)
    assert float(output.diversity) >= 0
    assert float(output.reconstruction) >= 0


def test_limits_of_the_temperature(make_case) -> None:
    case = make_case((2, 50, 6, 5), dtype=torch.float64)
    distances = torch.cdist(case.valid, case.layer.prototypes).square()
    case.layer.set_temperature(1e-30)
    cold = case.layer(case.tokens)
    nearest = distances.min(dim=-1)
    assert torch.equal(cold.assignments.flatten(0, 1), torch.eye(5, dtype=torch.float64)[nearest.indices])
    torch.testing.assert_close(cold.codes.flatten(0, 1), case.layer.prototypes[nearest.indices], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(cold.loss, nearest.values.mean(), rtol=1e-10, atol=0)
    assert cold.diversity == 0
    case.layer.set_temperature(1e30)
    hot = case.layer(case.tokens)
    torch.testing.assert_close(hot.assignments, torch.full_like(hot.assignments, 0.2), rtol=1e-12, atol=0)
    variance = (case.layer.prototypes - case.layer.prototypes.mean(dim=0)).square().sum(dim=-1).mean()
    torch.testing.assert_close(hot.diversity, variance, rtol=1e-12, atol=0)


@pytest.mark.parametrize("precision", sorted(PRECISIONS))
@pytest.mark.parametrize("temperature", [2e-38, 1.0, 3e38])
@pytest.mark.parametrize("scale", [1e-3, 1e3, 1e8])
def test_no_overflow_at_any_allowed_temperature(make_case, precision, temperature, scale) -> None:
    case = make_case((2, 9, 7, 5), precision=precision)
    case.layer.set_temperature(temperature)
    with torch.no_grad():
        case.layer.prototypes.mul_(scale)
    tokens = (case.tokens * scale).requires_grad_()
    output = case.layer(tokens)
    output.loss.backward()
    for tensor in (*output, tokens.grad, case.layer.prototypes.grad):
        assert torch.isfinite(tensor).all()


def test_ties_are_shared_equally() -> None:
    layer = DDCLAttention(2, 4, 0.1)
    with torch.no_grad():
        layer.prototypes.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]) + 1000)
    tokens = torch.full((1, 1, 2), 1000.0, requires_grad=True)
    output = layer(tokens)
    assert output.assignments.flatten().tolist() == [0.25] * 4
    assert output.codes.flatten().tolist() == [1000.0, 1000.0]
    assert (float(output.loss), float(output.reconstruction), float(output.diversity)) == (1.0, 0.0, 1.0)
    output.loss.backward()
    assert torch.isfinite(layer.prototypes.grad).all()


def test_one_prototype_has_no_diversity(make_case) -> None:
    case = make_case((2, 5, 3, 1))
    output = case.layer(case.tokens)
    assert float(output.diversity) == 0
    assert float(output.loss) == pytest.approx(float(output.reconstruction), rel=1e-6)
    assert torch.equal(output.assignments, torch.ones(2, 5, 1))


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0), (2, 4)], ids=["no-batch", "no-tokens", "nothing", "masked"])
def test_nothing_valid_gives_zero_losses_and_zero_gradients(shape) -> None:
    layer = DDCLAttention(6, 3)
    tokens = torch.full((*shape, 6), math.nan, requires_grad=True)
    output = layer(tokens, torch.zeros(shape, dtype=torch.bool))
    assert [float(getattr(output, term)) for term in TERMS] == [0, 0, 0]
    assert output.codes.shape == (*shape, 6)
    assert output.assignments.shape == (*shape, 3)
    assert not output.codes.any()
    assert not output.assignments.any()
    (output.loss + output.reconstruction + output.diversity + output.codes.sum()).backward()
    assert not layer.prototypes.grad.any()
    assert not tokens.grad.any()


@pytest.mark.parametrize("garbage", [math.nan, math.inf, 3e38])
def test_masked_tokens_touch_nothing(make_case, garbage) -> None:
    case = make_case((3, 21, 16, 8), masked=True)
    clean = case.layer(case.tokens, case.mask)
    tokens = torch.where(case.mask[..., None], case.tokens, garbage).requires_grad_()
    output = case.layer(tokens, case.mask)
    for got, wanted in zip(output, clean, strict=True):
        assert torch.equal(got, wanted)
    assert not output.codes[~case.mask].any()
    assert not output.assignments[~case.mask].any()
    (output.loss + output.codes.sum()).backward()
    assert torch.isfinite(layer_gradient := case.layer.prototypes.grad).all()
    assert layer_gradient.any()
    assert not tokens.grad[~case.mask].any()


@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
def test_autocast_and_half_tokens_do_not_narrow_the_layer(make_case, narrow) -> None:
    case = make_case((3, 21, 64, 8), shift=100.0)
    plain = case.layer(case.tokens)
    plain.loss.backward()
    gradient = case.layer.prototypes.grad.clone()
    case.layer.zero_grad()
    with torch.autocast("cpu", dtype=narrow):
        # proof that autocast is on here
        assert (case.tokens @ case.layer.prototypes.mT).dtype == narrow
        inside = case.layer(case.tokens)
        from_half = case.layer(case.tokens.to(narrow))
    inside.loss.backward()
    assert torch.equal(case.layer.prototypes.grad, gradient)
    for got, wanted in zip(inside, plain, strict=True):
        assert got.dtype == torch.float32
        assert torch.equal(got, wanted)
    exactly = case.layer(case.tokens.to(narrow).float())
    for got, wanted in zip(from_half, exactly, strict=True):
        assert got.dtype == torch.float32
        assert torch.equal(got, wanted)


def test_single_precision_under_autocast(make_case) -> None:
    case = make_case((3, 21, 64, 8), precision="single")
    plain = case.layer(case.tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = case.layer(case.tokens)
    for got, wanted in zip(inside, plain, strict=True):
        assert torch.equal(got, wanted)


def test_a_non_finite_valid_token_is_loud_and_stays_in_its_row(make_case) -> None:
    case = make_case((2, 5, 3, 4))
    clean = case.layer(case.tokens)
    for value in (math.nan, math.inf, -math.inf):
        tokens = case.tokens.clone()
        tokens[1, 3, 0] = value
        output = case.layer(tokens)
        others = torch.ones(2, 5, dtype=torch.bool)
        others[1, 3] = False
        assert torch.equal(output.codes[others], clean.codes[others])
        assert torch.isnan(output.codes[1, 3]).all()
        assert all(torch.isnan(getattr(output, term)) for term in TERMS)
        with pytest.raises(ValueError, match=r"1 of 10 valid tokens are not finite \(first: batch 1, token 3\)"):
            case.layer.check_finite(tokens)
        case.layer.check_finite(tokens, others)


def test_a_non_finite_prototype_is_named(make_case) -> None:
    case = make_case((2, 5, 3, 4))
    case.layer.check_finite(case.tokens)
    with torch.no_grad():
        case.layer.prototypes[2, 1] = math.nan
    assert torch.isnan(case.layer(case.tokens).loss)
    with pytest.raises(ValueError, match=r"1 of 4 prototypes are not finite \(first: 2\)"):
        case.layer.check_finite(case.tokens)


def test_temperature_goes_with_the_state_exactly() -> None:
    layer = DDCLAttention(3, 2, 0.1)
    assert float(layer.temperature) == 0.1
    layer.set_temperature(1 / 3)
    other = DDCLAttention(3, 2)
    other.load_state_dict(layer.state_dict())
    assert float(other.temperature) == 1 / 3
    assert sorted(layer.state_dict()) == ["prototypes", "temperature"]


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, 1e-60, 1e39, True])
def test_bad_temperatures_are_refused(value) -> None:
    layer = DDCLAttention(3, 2, 0.5)
    with pytest.raises(ValueError, match="temperature is"):
        layer.set_temperature(value)
    with pytest.raises(ValueError, match="temperature is"):
        DDCLAttention(3, 2, value)
    assert float(layer.temperature) == 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 0, "num_prototypes": 2}, "dim is 0; it must be an integer of at least 1"),
        ({"dim": 3, "num_prototypes": -1}, "num_prototypes is -1"),
        ({"dim": 3, "num_prototypes": True}, "num_prototypes is True"),
        ({"dim": 3, "num_prototypes": 2, "precision": "half"}, "precision is 'half'; choose one of double, single"),
    ],
)
def test_bad_sizes_are_refused(arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        DDCLAttention(**arguments)


@pytest.mark.parametrize(
    ("tokens", "mask", "message"),
    [
        (torch.zeros(2, 3), None, r"tokens have shape \(2, 3\); this layer reads \(batch, tokens, 3\)"),
        (torch.zeros(2, 4, 5), None, r"tokens have shape \(2, 4, 5\)"),
        (torch.zeros(2, 4, 3, dtype=torch.int64), None, "tokens are torch.int64; they must be floating"),
        (torch.zeros(2, 4, 3), torch.ones(2, 4), "mask is torch.float32; it must be torch.bool"),
        (torch.zeros(2, 4, 3), torch.ones(2, 5, dtype=torch.bool), r"mask has shape \(2, 5\) and tokens \(2, 4, 3\)"),
        (torch.zeros(2, 4, 3), torch.ones(2, 4, 3, dtype=torch.bool), r"mask has shape \(2, 4, 3\)"),
    ],
)
def test_bad_inputs_are_refused(unchecked_shapes, tokens, mask, message) -> None:
    layer = DDCLAttention(3, 2)
    for call in (layer, layer.check_finite):
        with pytest.raises(ValueError, match=message):
            call(tokens, mask)


def test_initial_prototypes_come_from_the_given_generator() -> None:
    first, second = (DDCLAttention(5, 4, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first.prototypes, second.prototypes)
    assert not torch.equal(first.prototypes, DDCLAttention(5, 4, generator=torch.Generator().manual_seed(4)).prototypes)
    assert DDCLAttention(5, 4, dtype=torch.float64).prototypes.dtype == torch.float64


def test_no_uninitialised_memory_is_read(make_case) -> None:
    """Deterministic mode fills fresh memory with NaN; it must show nowhere."""
    case = make_case((3, 21, 16, 8), masked=True)
    wanted = case.layer(case.tokens, case.mask)
    torch.use_deterministic_algorithms(True)
    try:
        fresh = DDCLAttention(16, 8)
        output = case.layer(case.tokens, case.mask)
        output.loss.backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.isfinite(fresh.prototypes).all()
    for got, want in zip(output, wanted, strict=True):
        assert torch.equal(got, want)


def test_the_layer_learns_blobs() -> None:
    """From prototypes of k-means++ on four separate blobs, the prototypes end at the four centres."""
    generator = torch.Generator().manual_seed(0)
    centres = 10 * torch.eye(4)[:, :3] + 5
    tokens = (centres[torch.arange(200) % 4] + 0.1 * torch.randn(200, 3, generator=generator))[:, None, :]
    layer = DDCLAttention(3, 4, 0.5)
    layer.initialise(tokens, generator)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    for _ in range(60):
        optimizer.zero_grad()
        layer(tokens).loss.backward()
        optimizer.step()
    found = torch.cdist(centres, layer.prototypes.detach()).min(dim=0)
    assert sorted(found.indices.tolist()) == [0, 1, 2, 3]
    assert float(found.values.max()) < 0.05
