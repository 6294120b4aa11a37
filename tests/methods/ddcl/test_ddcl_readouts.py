"""The prototype readouts behind the interface of all readouts: what a head sees, what is told, what is counted."""

import pytest
import torch
from torch import Tensor

from components.methods.ddcl import DDCLAttention
from components.methods.ddcl.readouts import HierarchyReadout, PrototypeReadout

DIM = 6
NAMES = ("ddcl", "hierarchy")


def batch(seed: int = 0, size: int = 4, length: int = 6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randn(size, length, DIM, generator=generator)
    mask = torch.rand(size, length, generator=generator) < 0.6
    mask[:, 0] = True
    return tokens, mask


def readout(name: str) -> PrototypeReadout | HierarchyReadout:
    torch.manual_seed(3)
    return PrototypeReadout(DIM, 5) if name == "ddcl" else HierarchyReadout(DIM, (7, 3))


@pytest.mark.parametrize("name", NAMES)
def test_a_head_sees_mean_code_and_histograms(name: str) -> None:
    model, (tokens, mask) = readout(name), batch()
    output = model(tokens, mask)
    assert output.vector.shape == (4, model.width)
    assert output.mixture.shape == (4, model.num_parts)
    torch.testing.assert_close(output.mixture.sum(dim=-1), torch.ones(4))
    # the mean code is the last histogram's mixture of the last bank
    code = output.mixture @ model.layers[-1].prototypes
    torch.testing.assert_close(output.vector[:, :DIM], code, rtol=1e-5, atol=1e-6)
    histograms = output.vector[:, DIM:].split([layer.num_prototypes for layer in model.layers], dim=1)
    for histogram in histograms:
        torch.testing.assert_close(histogram.sum(dim=-1), torch.ones(4))
    assert torch.equal(histograms[-1], output.mixture)


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_is_the_sum_of_its_terms(name: str) -> None:
    model, (tokens, mask) = readout(name), batch()
    output = model(tokens, mask)
    torch.testing.assert_close(
        output.loss, output.terms["reconstruction"] + output.terms["diversity"], rtol=1e-6, atol=0
    )


def test_a_hierarchy_tells_each_level_and_weighs_them() -> None:
    torch.manual_seed(3)
    model = HierarchyReadout(DIM, (7, 3), level_weights=(1.0, 0.25))
    tokens, mask = batch()
    output = model(tokens, mask)
    lower, upper = model.layers
    first = lower(tokens, mask)
    second = upper(first.codes, mask)
    for number, level in ((1, first), (2, second)):
        for part in ("loss", "reconstruction", "diversity"):
            torch.testing.assert_close(output.terms[f"level{number}_{part}"], getattr(level, part))
    torch.testing.assert_close(output.loss, first.loss + 0.25 * second.loss)
    torch.testing.assert_close(output.mixture, model.last(tokens, mask).assignments.sum(1) / mask.sum(1, keepdim=True))


@pytest.mark.parametrize("name", NAMES)
def test_use_is_counted_in_training_alone_and_begins_anew_when_told(name: str) -> None:
    model, (tokens, mask) = readout(name), batch()
    model.eval()(tokens, mask)
    with pytest.raises(ValueError, match="usage counts"):
        model.health()
    model.train()(tokens, mask)
    model(tokens, mask)
    assert int(model.usage.sum()) == 2 * int(mask.sum()) * len(model.layers)
    wins = [int(layer(tokens, mask).assignments[mask].argmax(-1).unique().numel()) for layer in model.layers[:1]]
    health = model.health()
    first = "utilisation" if name == "ddcl" else "level1_utilisation"
    assert health[first] == pytest.approx(wins[0] / model.layers[0].num_prototypes)
    assert int(model.usage.sum()) == 0
    # counts are of an epoch, and no part of what is saved
    assert "usage" not in model.state_dict()


@pytest.mark.parametrize("name", NAMES)
def test_temperature_and_first_prototypes_reach_every_level(name: str) -> None:
    model, (tokens, mask) = readout(name), batch()
    model.set_temperature(0.3)
    assert [float(layer.temperature) for layer in model.layers] == [0.3] * len(model.layers)
    before = [layer.prototypes.clone() for layer in model.layers]
    model.initialise(tokens, torch.Generator().manual_seed(0), mask)
    assert not any(torch.equal(layer.prototypes, old) for layer, old in zip(model.layers, before, strict=True))
    # those of the first level are tokens
    nearest = torch.cdist(model.layers[0].prototypes, tokens[mask]).amin(dim=1)
    assert float(nearest.max()) < 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_a_sequence_without_a_token_is_zeros(name: str) -> None:
    model, (tokens, mask) = readout(name), batch()
    mask[2] = False
    output = model(tokens, mask)
    assert float(output.vector[2].abs().max()) == 0
    assert float(output.mixture[2].abs().max()) == 0


def test_health_of_a_hierarchy_is_that_of_its_weakest_level() -> None:
    model, (tokens, mask) = readout("hierarchy"), batch()
    model.train()(tokens, mask)
    health = model.health()
    for name in ("separation_min", "utilisation", "perplexity"):
        assert health[name] == min(health[f"level1_{name}"], health[f"level2_{name}"])


def test_every_bank_learns_on_the_fast_scale() -> None:
    from components.methods.ddcl import parameter_groups

    model = readout("hierarchy")
    fast = parameter_groups(model, 0.1)[0]
    assert {id(p) for p in fast["params"]} == {
        id(part.prototypes) for part in model.modules() if isinstance(part, DDCLAttention)
    }
    assert len(fast["params"]) == 2
