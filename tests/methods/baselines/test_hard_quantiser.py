"""Hard vector quantisation against what is written out by hand: values, stop-gradients, moving averages, revival."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from components.methods.baselines.hard_quantiser import SMOOTHING, HardVectorQuantizer, nearest

DIM, CODES = 3, 5


def quantiser(update: str = "gradient", **more: object) -> HardVectorQuantizer:
    return HardVectorQuantizer(DIM, CODES, update=update, generator=torch.Generator().manual_seed(0), **more)


def batch(seed: int = 1, size: int = 4, length: int = 6, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randn(size, length, DIM, generator=generator) * scale
    mask = torch.rand(size, length, generator=generator) < 0.7
    mask[:, 0] = True
    return tokens, mask


def slow_nearest(tokens: Tensor, words: Tensor) -> Tensor:
    """By all differences in float64, the first of equals."""
    return (tokens.double()[:, None] - words.double()[None]).square().sum(dim=-1).argmin(dim=-1)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6), magnitude=st.floats(-3, 3), offset=st.sampled_from([0.0, 1e3]), count=st.integers(0, 90)
)
def test_the_nearest_codeword_is_found_at_any_scale(seed: int, magnitude: float, offset: float, count: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scale = max(10**magnitude, 1e-1 if offset else 0.0)
    tokens = torch.randn(count, DIM, generator=generator) * scale + offset
    words = torch.randn(7, DIM, generator=generator) * scale + offset
    found, wanted = nearest(tokens, words), slow_nearest(tokens, words)
    distances = (tokens.double()[:, None] - words.double()[None]).square().sum(dim=-1)
    # rounding may choose between codewords that are equally near as far as float32 can tell
    gap = distances.gather(1, found[:, None]) - distances.gather(1, wanted[:, None])
    assert float(gap.max() if count else 0.0) <= 1e-4 * scale**2


def test_of_equally_near_codewords_the_first_is_taken() -> None:
    words = torch.tensor([[1.0, 0, 0], [-1.0, 0, 0], [1.0, 0, 0]])
    assert nearest(torch.zeros(1, 3), words).tolist() == [0]
    assert nearest(torch.tensor([[2.0, 0, 0]]), words).tolist() == [0]


@pytest.mark.parametrize("update", ["gradient", "ema"])
def test_losses_and_gradients_are_those_of_equation_3(update: str) -> None:
    layer, (tokens, mask) = quantiser(update, commitment=0.4).eval(), batch()
    tokens.requires_grad_()
    found = layer(tokens, mask)
    rows = tokens[mask]
    chosen = slow_nearest(rows, layer.words)
    assert torch.equal(found.indices[mask], chosen)
    words = layer.words[chosen]
    commitment = (rows - words.detach()).square().sum(dim=-1).mean()
    wanted = 0.4 * commitment
    if update == "gradient":
        wanted = wanted + (rows.detach() - words).square().sum(dim=-1).mean()
    torch.testing.assert_close(found.loss, wanted)
    torch.testing.assert_close(found.codes[mask], words)
    variables = [tokens, layer.words] if update == "gradient" else [tokens]
    for one, other in zip(
        torch.autograd.grad(found.loss, variables, retain_graph=True),
        torch.autograd.grad(wanted, variables, retain_graph=True),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
    # straight through: what comes for the codes goes to the valid tokens as it is
    pattern = torch.randn(tokens.shape)
    (through,) = torch.autograd.grad((found.codes * pattern).sum(), tokens)
    assert torch.equal(through, torch.where(mask.unsqueeze(-1), pattern, 0))


def test_one_step_of_the_moving_average_by_hand() -> None:
    layer, (tokens, mask) = quantiser("ema", decay=0.9).train(), batch()
    before = copy.deepcopy(layer)
    layer(tokens, mask)
    rows = tokens[mask].double()
    chosen = slow_nearest(rows, before.words)
    wins = torch.bincount(chosen, minlength=CODES).double()
    sums = torch.stack([rows[chosen == code].sum(dim=0) for code in range(CODES)])
    counts = 0.9 * before.num_wins.double() + 0.1 * wins
    averages = 0.9 * before.sums.double() + 0.1 * sums
    smoothed = (counts + SMOOTHING) / (counts.sum() + CODES * SMOOTHING) * counts.sum()
    torch.testing.assert_close(layer.words.double(), averages / smoothed[:, None], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(layer.shares.double(), 0.9 / CODES + 0.1 * wins / wins.sum(), rtol=1e-5, atol=0)
    # in evaluation nothing moves
    words = layer.words.clone()
    layer.eval()(tokens, mask)
    assert torch.equal(layer.words, words)


def test_a_constant_batch_draws_its_codeword_to_its_mean() -> None:
    layer = quantiser("ema", decay=0.5)
    tokens = torch.full((1, 20, DIM), 0.3)
    for _ in range(60):
        layer(tokens)
    winner = int(layer.eval()(tokens).indices[0, 0])
    torch.testing.assert_close(layer.words[winner], torch.full((DIM,), 0.3), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("update", ["gradient", "ema"])
def test_dead_codes_come_back_and_without_revival_they_stay_dead(update: str) -> None:
    """Data far from all codewords but one: pitfall 37."""
    used = {}
    for revive in (None, 0.3):
        layer = quantiser(update, decay=0.5, revive_below=revive)
        for step in range(30):
            tokens, _ = batch(seed=step, scale=0.2)
            layer(tokens + 5)
        used[revive] = len(layer.eval()(batch(seed=99, size=40, scale=0.2)[0] + 5).indices.unique())
    assert used[None] == 1
    assert used[0.3] == CODES


def test_revival_is_a_function_of_seed_and_step() -> None:
    def words(seed: int, resumed: bool) -> Tensor:
        layer = quantiser("ema", decay=0.5, revive_below=0.3, seed=seed)
        for step in range(6):
            if resumed and step == 3:
                state = {name: value.clone() for name, value in layer.state_dict().items()}
                layer = quantiser("ema", decay=0.5, revive_below=0.3, seed=seed)
                layer.load_state_dict(state)
            torch.rand(5)
            layer(batch(seed=step)[0] + 5)
        return layer.words

    assert torch.equal(words(1, False), words(1, True))
    assert not torch.equal(words(1, False), words(2, False))


@pytest.mark.parametrize("update", ["gradient", "ema"])
def test_a_number_that_is_not_finite_is_refused_before_anything_moves(update: str) -> None:
    layer, (tokens, mask) = quantiser(update, revive_below=0.5), batch()
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    tokens[0, 0, 1] = torch.nan
    with pytest.raises(ValueError, match="1 valid tokens are not finite"):
        layer(tokens, mask)
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
    # where it is masked it reaches nothing
    mask[0, 0] = False
    found = layer(tokens, mask)
    assert bool(found.loss.isfinite())
    assert bool(found.codes.isfinite().all())
    assert all(bool(value.isfinite().all()) for value in layer.state_dict().values())


@pytest.mark.parametrize("update", ["gradient", "ema"])
def test_without_a_valid_token_nothing_is_lost_or_moved(update: str) -> None:
    layer, (tokens, mask) = quantiser(update, revive_below=0.5), batch()
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    for found in (layer(tokens, torch.zeros_like(mask)), layer(tokens[:, :0])):
        assert float(found.loss) == float(found.distortion) == 0
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


def test_under_autocast_it_calculates_in_single_precision() -> None:
    layer, (tokens, _) = quantiser().eval(), batch()
    plain = layer(tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = layer(tokens)
    assert torch.equal(plain.loss, inside.loss)
    assert torch.equal(plain.indices, inside.indices)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"update": "adam"}, "update is 'adam'; choose one of ema, gradient"),
        ({"commitment": -1.0}, "commitment is -1.0"),
        ({"decay": 1.0}, "decay is 1.0; it must lie between 0 and 1"),
        ({"revive_below": 0.0}, "revive_below is 0.0"),
    ],
)
def test_settings_that_cannot_be_are_refused(more: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HardVectorQuantizer(DIM, CODES, **more)
    with pytest.raises(ValueError, match="num_codes is 0"):
        HardVectorQuantizer(DIM, 0)


def test_it_agrees_with_vector_quantize_pytorch() -> None:
    """Indices, codes, commitment and the codebook after one step of the moving average."""
    peer = pytest.importorskip("vector_quantize_pytorch")
    tokens, _ = batch(seed=5, size=8, length=20)
    theirs = peer.VectorQuantize(
        DIM, CODES, decay=0.8, commitment_weight=1.0, rotation_trick=False, threshold_ema_dead_code=0
    )
    ours = HardVectorQuantizer(DIM, CODES, commitment=1.0, update="ema", decay=0.8)
    start = tokens[0, :CODES].clone()
    with torch.no_grad():
        inner = theirs._codebook
        inner.embed.copy_(start[None])
        inner.embed_avg.copy_(start[None])
        inner.cluster_size.fill_(1)
        ours.words.copy_(start)
        ours.sums.copy_(start)
    codes, indices, loss = theirs.train()(tokens)
    found = ours.train()(tokens)
    assert torch.equal(found.indices, indices)
    torch.testing.assert_close(found.codes, codes, rtol=1e-5, atol=1e-6)
    # theirs is the mean over the width
    torch.testing.assert_close(found.loss / DIM, loss.sum(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours.words, theirs.codebook, rtol=1e-4, atol=1e-5)
