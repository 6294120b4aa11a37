"""The classifier: scaling inside the model, padding that may hold anything, decisions that know no order."""

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from components.methods.ddcl.classifier import ReadoutClassifier, ServableClassifier
from components.methods.ddcl.encoders import PerceptronEncoder
from components.methods.ddcl.readouts import PrototypeReadout
from components.methods.ddcl.scaler import SMALLEST_POSITIVE, FeatureScaler

FEATURES, CLASSES, DIM, COUNT = 4, 3, 6, 5
NONE = torch.zeros(FEATURES, dtype=torch.bool)


def classifier(seed: int = 0) -> ReadoutClassifier:
    torch.manual_seed(seed)
    model = ReadoutClassifier(FEATURES, CLASSES, PerceptronEncoder(FEATURES, DIM, 8), PrototypeReadout(DIM, COUNT))
    model.scaler.fit([torch.rand(50, FEATURES) * 100 + 1], torch.tensor([True, False, False, True]))
    return model.eval()


def batch(size: int = 4, length: int = 6, seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.rand(size, length, FEATURES, generator=generator) * 100
    mask = torch.rand(size, length, generator=generator) < 0.6
    mask[:, 0] = True
    return tokens, mask


def test_the_scaler_gives_zero_mean_and_unit_variance() -> None:
    rows = torch.randn(200, FEATURES, generator=torch.Generator().manual_seed(3)) * torch.tensor([1.0, 1e3, 1e-3, 5])
    scaler = FeatureScaler(FEATURES)
    scaler.fit([rows + 7], NONE)
    scaled = scaler(rows + 7).double()
    assert scaled.mean(dim=0).abs().max() < 5e-4
    torch.testing.assert_close(scaled.std(dim=0, correction=0), torch.ones(FEATURES).double(), rtol=1e-3, atol=0)


def test_the_scaler_by_hand() -> None:
    scaler = FeatureScaler(2)
    scaler.fit([torch.tensor([[1.0, 2.0], [math.e**2, 4.0]])], torch.tensor([True, False]))
    # logarithms 0 and 2, values 2 and 4; the population's deviation, not the sample's
    torch.testing.assert_close(scaler.mean, torch.tensor([1.0, 3.0]))
    torch.testing.assert_close(scaler.std, torch.tensor([1.0, 1.0]))
    torch.testing.assert_close(scaler(torch.tensor([[math.e**3, 2.0]])), torch.tensor([[2.0, -1.0]]))


def test_the_scaler_is_fitted_in_float64() -> None:
    """To the last bit of float32, which sums in float32 do not reach."""
    rows = torch.rand(4000, 16, generator=torch.Generator().manual_seed(5)) * 1e4 + 1e4
    scaler = FeatureScaler(16)
    scaler.fit([rows], torch.arange(16) < 8)
    values = rows.double()
    values[:, :8] = values[:, :8].log()
    assert torch.equal(scaler.mean, values.mean(dim=0).float())
    assert torch.equal(scaler.std, values.std(dim=0, correction=0).float())


@pytest.mark.parametrize("logarithmic", [True, False])
def test_a_constant_feature_keeps_unit_scale(logarithmic: bool) -> None:
    scaler = FeatureScaler(1)
    scaler.fit([torch.full((5, 1), 3.0)], torch.tensor([logarithmic]))
    assert scaler.std.tolist() == [1.0]
    assert scaler(torch.full((2, 1), 3.0)).abs().max() < 1e-6


def test_a_single_row_is_enough() -> None:
    scaler = FeatureScaler(FEATURES)
    scaler.fit([torch.ones(1, FEATURES)], NONE)
    assert bool(scaler(torch.ones(1, FEATURES)).isfinite().all())


def test_the_logarithm_of_what_is_not_positive_is_that_of_a_small_number() -> None:
    scaler = FeatureScaler(1)
    scaler.fit([torch.tensor([[1.0], [10.0]])], torch.tensor([True]))
    at_floor = scaler(torch.tensor([[SMALLEST_POSITIVE]]))
    for value in (0.0, -5.0, SMALLEST_POSITIVE / 2, -float("inf")):
        assert torch.equal(scaler(torch.tensor([[value]])), at_floor)
    assert scaler(torch.tensor([[2 * SMALLEST_POSITIVE]])) > at_floor


def test_a_feature_that_is_not_logarithmic_may_be_negative() -> None:
    """And its gradient is no NaN, although the logarithm of it is calculated beside it."""
    scaler = FeatureScaler(2)
    scaler.fit([torch.tensor([[-1.0, 1.0], [1.0, 2.0]])], torch.tensor([False, True]))
    tokens = torch.tensor([[-3.0, -3.0]], requires_grad=True)
    scaled = scaler(tokens)
    assert scaled[0, 0] == -3.0
    scaled.sum().backward()
    assert tokens.grad is not None
    assert tokens.grad.tolist() == [[1.0, 0.0]]


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("shape", [(3, FEATURES + 1), (FEATURES,), (2, 3, FEATURES)])
def test_rows_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=rf"shape \(rows, {FEATURES}\); got"):
        FeatureScaler(FEATURES).fit([torch.zeros(shape)], NONE)


@pytest.mark.parametrize("batches", [[], [torch.zeros(0, FEATURES)]])
def test_a_scale_needs_a_row(batches: list[Tensor]) -> None:
    with pytest.raises(ValueError, match="no row came"):
        FeatureScaler(FEATURES).fit(batches, NONE)


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 60), max_size=4), offset=st.floats(-1e3, 1e3))
def test_batches_give_the_scale_of_all_their_rows(cuts: list[int], offset: float) -> None:
    rows = torch.randn(60, FEATURES, generator=torch.Generator().manual_seed(8)) * 3 + offset
    whole, parts = FeatureScaler(FEATURES), FeatureScaler(FEATURES)
    whole.fit([rows], NONE)
    parts.fit(torch.tensor_split(rows, sorted(cuts)), NONE)
    torch.testing.assert_close(parts.mean, whole.mean, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(parts.std, whole.std, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("filling", [float("nan"), float("inf"), -float("inf"), torch.finfo(torch.float32).max])
def test_padding_may_hold_anything(filling: float) -> None:
    model, (tokens, mask) = classifier(), batch()
    spoilt = torch.where(mask.unsqueeze(-1), tokens, torch.full_like(tokens, filling))
    clean, other = model(tokens, mask), model(spoilt, mask)
    assert torch.equal(clean.logits, other.logits)
    assert torch.equal(clean.readout.mixture, other.readout.mixture)
    model(spoilt, mask).logits.sum().backward()
    assert all(bool(weight.grad.isfinite().all()) for weight in model.parameters() if weight.grad is not None)


def test_padding_is_as_if_it_were_not_there() -> None:
    model, (tokens, _) = classifier(), batch()
    longer = torch.cat([tokens, torch.full_like(tokens, 1e9)], dim=1)
    mask = torch.cat([torch.ones(4, 6), torch.zeros(4, 6)], dim=1).bool()
    torch.testing.assert_close(model(longer, mask).logits, model(tokens).logits, rtol=1e-5, atol=1e-6)


def test_a_sequence_without_a_token_is_answered_with_the_bias() -> None:
    model, (tokens, mask) = classifier(), batch()
    mask[1] = False
    output = model(tokens, mask)
    assert torch.equal(output.logits[1], model.head.bias)
    assert output.readout.mixture[1].abs().max() == 0
    # and it leaves the others alone
    kept = torch.tensor([0, 2, 3])
    torch.testing.assert_close(output.logits[kept], model(tokens[kept], mask[kept]).logits)


@settings(max_examples=25, deadline=None)
@given(order=st.permutations(range(6)), seed=st.integers(0, 50))
def test_the_order_of_tokens_does_not_matter(order: list[int], seed: int) -> None:
    model, (tokens, mask) = classifier(), batch(seed=seed)
    torch.testing.assert_close(
        model(tokens[:, order], mask[:, order]).logits, model(tokens, mask).logits, rtol=1e-4, atol=1e-5
    )


def test_which_tokens_there_are_does_matter() -> None:
    model, (tokens, mask) = classifier(), batch()
    assert not torch.allclose(model(tokens, mask).logits, model(tokens).logits)


def test_each_sequence_is_read_by_itself() -> None:
    model, (tokens, mask) = classifier(), batch()
    alone = torch.cat([model(tokens[row : row + 1], mask[row : row + 1]).logits for row in range(4)])
    torch.testing.assert_close(model(tokens, mask).logits, alone, rtol=1e-5, atol=1e-6)


def test_the_histogram_is_a_mixture_of_prototypes() -> None:
    model, (tokens, mask) = classifier(), batch()
    histogram = model(tokens, mask).readout.mixture
    assert histogram.shape == (4, COUNT)
    assert bool((histogram >= 0).all())
    torch.testing.assert_close(histogram.sum(dim=-1), torch.ones(4))


def test_the_head_sees_mean_code_and_histogram_and_nothing_else() -> None:
    model, (tokens, mask) = classifier(), batch()
    output = model(tokens, mask)
    # the mean code is the histogram's mixture of prototypes
    code = output.readout.mixture @ model.readout.layer.prototypes
    expected = model.head(torch.cat([code, output.readout.mixture], dim=-1))
    torch.testing.assert_close(output.logits, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("term", ["logits", "loss"])
def test_the_gradient_reaches_encoder_and_prototypes(term: str) -> None:
    model, (tokens, mask) = classifier().train(), batch()
    output = model(tokens, mask)
    (output.logits.square().sum() if term == "logits" else output.readout.loss).backward()
    reached = {name for name, weight in model.named_parameters() if weight.grad is not None and weight.grad.any()}
    below = {name for name, _ in model.named_parameters() if not name.startswith("head")}
    assert "readout.layer.prototypes" in below
    assert reached == (below if term == "loss" else below | {"head.weight", "head.bias"})


def test_the_state_goes_through_a_file_bit_for_bit(tmp_path: Path) -> None:
    model, other = classifier(), classifier(seed=9)
    model.readout.set_temperature(0.37)
    tokens, mask = batch()
    assert not torch.equal(model(tokens, mask).logits, other(tokens, mask).logits)
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, tmp_path / "model.safetensors")
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert model.state_dict().keys() == other.state_dict().keys()
    for name, value in model.state_dict().items():
        assert value.dtype == other.state_dict()[name].dtype
        assert torch.equal(value, other.state_dict()[name]), name
    # scaler and temperature go with it, so that the answers are the same bits too
    assert {"scaler.mean", "scaler.std", "scaler.logarithmic", "readout.layer.temperature"} <= set(model.state_dict())
    assert torch.equal(model(tokens, mask).logits, other(tokens, mask).logits)


def test_what_is_served_is_what_was_trained() -> None:
    model, (tokens, mask) = classifier(), batch()
    answers = dict(zip(ServableClassifier.OUTPUTS, ServableClassifier(model)(tokens, mask), strict=True))
    output = model(tokens, mask)
    assert torch.equal(answers["logits"], output.logits)
    assert torch.equal(answers["probabilities"], output.logits.softmax(dim=-1))
    assert torch.equal(answers["assignments"], output.readout.mixture)
