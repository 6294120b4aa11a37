"""Encoders in front of a readout: what padding holds reaches nothing, and each encoder does what it is said to."""

import pytest
import torch
from torch import Tensor

from components.methods.ddcl.classifier import VIEWS
from components.methods.ddcl.encoders import ENCODERS, HEADS, TransformerEncoder

FEATURES, DIM, HIDDEN = 6, 8, 10


def batch(seed: int = 0, size: int = 3, length: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randn(size, length, FEATURES, generator=generator)
    mask = torch.rand(size, length, generator=generator) < 0.6
    mask[:, 0] = True
    return tokens, mask


@pytest.mark.parametrize("name", sorted(ENCODERS))
def test_a_valid_token_is_encoded_alike_whatever_the_padding(name: str) -> None:
    torch.manual_seed(1)
    encoder = ENCODERS[name](FEATURES, FEATURES if name == "frozen" else DIM, HIDDEN)
    tokens, mask = batch()
    other = torch.where(mask.unsqueeze(-1), tokens, torch.full_like(tokens, 77.0))
    assert torch.equal(encoder(tokens, mask)[mask], encoder(other, mask)[mask])
    short = encoder(tokens[:, :1], mask[:, :1])
    longer = torch.cat([tokens[:, :1], torch.randn(3, 4, FEATURES)], dim=1)
    alone = torch.zeros(3, 5, dtype=torch.bool)
    alone[:, 0] = True
    torch.testing.assert_close(encoder(longer, alone)[:, :1], short, rtol=1e-5, atol=1e-6)


def test_a_frozen_encoder_is_the_features_and_learns_nothing() -> None:
    encoder = ENCODERS["frozen"](FEATURES, FEATURES, HIDDEN)
    tokens, mask = batch()
    assert torch.equal(encoder(tokens, mask), tokens)
    assert list(encoder.parameters()) == []
    with pytest.raises(ValueError, match="leaves 6 features as they are, and dim is 8: set dim to 6"):
        ENCODERS["frozen"](FEATURES, DIM, HIDDEN)


@pytest.mark.parametrize("name", ["perceptron", "transformer"])
def test_encoded_tokens_have_unit_size_so_that_shrinking_them_saves_no_loss(name: str) -> None:
    torch.manual_seed(1)
    encoder = ENCODERS[name](FEATURES, DIM, HIDDEN)
    tokens, mask = batch()
    encoded = encoder(1e-2 * tokens, mask)
    torch.testing.assert_close(encoded.square().mean(dim=-1), torch.ones(3, 5), rtol=1e-2, atol=0)


def test_only_the_transformer_lets_tokens_see_each_other() -> None:
    torch.manual_seed(1)
    tokens, mask = batch()
    mask[:] = True
    changed = tokens.clone()
    changed[:, 1] += 1
    for name in ("perceptron", "transformer"):
        encoder = ENCODERS[name](FEATURES, DIM, HIDDEN)
        moved = (encoder(changed, mask) - encoder(tokens, mask)).abs().amax(dim=(0, 2)) > 1e-5
        assert moved.tolist() == ([False, True, False, False, False] if name == "perceptron" else [True] * 5)


def test_the_transformer_attends_as_torch_does() -> None:
    """Its attention against torch's own, on the valid tokens of each sequence by itself."""
    torch.manual_seed(1)
    encoder = TransformerEncoder(FEATURES, DIM, HIDDEN)
    tokens, mask = batch()
    states = encoder.projection(tokens)
    found = encoder._attended(states, mask)
    for row in range(3):
        valid = states[row : row + 1, mask[row]]
        parts = encoder.queries_keys_values(valid).unflatten(-1, (3, HEADS, -1))
        queries, keys, values = (part.transpose(1, 2) for part in parts.unbind(dim=2))
        wanted = torch.nn.functional.scaled_dot_product_attention(queries, keys, values).transpose(1, 2).flatten(2)
        torch.testing.assert_close(found[row : row + 1, mask[row]], wanted, rtol=1e-5, atol=1e-6)


def test_a_sequence_without_a_token_gives_no_nan() -> None:
    encoder = TransformerEncoder(FEATURES, DIM, HIDDEN)
    tokens, mask = batch()
    mask[1] = False
    encoded = encoder(tokens, mask)
    assert bool(encoded.isfinite().all())
    encoded[mask].sum().backward()
    assert all(bool(weight.grad.isfinite().all()) for weight in encoder.parameters() if weight.grad is not None)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match="dim is 6; the transformer's 4 heads"):
        TransformerEncoder(FEATURES, 6, HIDDEN)


def test_views_by_hand() -> None:
    tokens = torch.tensor([[[1.0], [3.0], [100.0]], [[5.0], [0.0], [0.0]], [[7.0], [7.0], [7.0]]])
    mask = torch.tensor([[True, True, False], [True, False, False], [False, False, False]])
    mean, valid = VIEWS["mean"](tokens, mask)
    assert mean.tolist() == [[[2.0]], [[5.0]], [[0.0]]]
    assert valid.tolist() == [[True], [True], [False]]
    first, valid = VIEWS["first"](tokens, mask)
    assert first.tolist() == [[[1.0]], [[5.0]], [[7.0]]]
    assert valid.tolist() == [[True], [True], [False]]
    assert VIEWS["tokens"](tokens, mask) == (tokens, mask)
