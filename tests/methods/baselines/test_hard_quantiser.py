"""Hard vector quantisation against what is written out by hand: values, stop-gradients, moving averages, revival."""

import copy
from collections.abc import Iterator

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from components.methods.baselines import hard_reference
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


@pytest.fixture
def unchecked_shapes() -> Iterator[None]:
    """Without the tests' own shape checks, so that a bad call meets the message that a user gets."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


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
    for one, other in ((1, 2), (0, 2), (0, 2**31)):
        assert not torch.equal(words(one, False), words(other, False))


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
    tokens.requires_grad_()
    found = layer(tokens, mask)
    (found.loss + found.codes.sum()).backward()
    assert float(tokens.grad[~mask].abs().sum()) == 0
    assert all(bool(leaf.grad.isfinite().all()) for leaf in (tokens, *layer.parameters()))
    assert bool(found.loss.isfinite())
    assert bool(found.codes.isfinite().all())
    assert all(bool(value.isfinite().all()) for value in layer.state_dict().values())


@pytest.mark.parametrize("update", ["gradient", "ema"])
def test_without_a_valid_token_nothing_is_lost_or_moved(update: str) -> None:
    layer, (tokens, mask) = quantiser(update, revive_below=0.5), batch()
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    for found in (layer(tokens, torch.zeros_like(mask)), layer(tokens[:, :0])):
        assert float(found.loss.detach()) == float(found.distortion) == 0
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


def test_under_autocast_it_calculates_in_single_precision() -> None:
    """Many codewords close together, which a product in half precision would mistake for one another."""
    generator = torch.Generator().manual_seed(0)
    layer = HardVectorQuantizer(64, 200, generator=generator).eval()
    tokens = torch.randn(1, 500, 64, generator=generator)
    plain = layer(tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = layer(tokens)
    assert torch.equal(plain.loss, inside.loss)
    assert torch.equal(plain.indices, inside.indices)
    # nor is it narrower than float32 where weights and tokens are
    narrow = copy.deepcopy(layer).bfloat16()
    found = narrow(tokens.bfloat16())
    wanted = hard_reference.nearest(tokens[0].bfloat16(), narrow.words)
    assert torch.equal(found.indices[0], wanted)
    assert found.loss.dtype == found.codes.dtype == torch.float32


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"update": "adam"}, "update is 'adam'; choose one of ema, gradient"),
        ({"commitment": -1.0}, "commitment is -1.0"),
        ({"decay": 1.0}, "decay is 1.0; it must lie between 0 and 1"),
        ({"revive_below": 0.0}, "revive_below is 0.0"),
        ({"commitment": float("nan")}, "commitment is nan"),
        ({"seed": -1}, "seed is -1; it must be an integer from 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(more: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HardVectorQuantizer(DIM, CODES, **more)
    with pytest.raises(ValueError, match="num_codes is 0"):
        HardVectorQuantizer(DIM, 0)


def test_it_agrees_with_vector_quantize_pytorch() -> None:
    """Indices, codes, commitment and the codebook after each of five steps of the moving average."""
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
    theirs.train()
    ours.train()
    for step in range(5):
        tokens, _ = batch(seed=step, size=8, length=20)
        codes, indices, loss = theirs(tokens)
        found = ours(tokens)
        assert torch.equal(found.indices, indices)
        torch.testing.assert_close(found.codes, codes, rtol=1e-5, atol=1e-6)
        # theirs is the mean over the width
        torch.testing.assert_close(found.loss / DIM, loss.sum(), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(ours.words, theirs.codebook, rtol=1e-4, atol=1e-5)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_moving_or_turning_tokens_and_codewords_together_changes_no_choice_and_no_loss(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    turn = torch.linalg.qr(torch.randn(DIM, DIM, dtype=torch.float64, generator=generator)).Q
    shift = torch.randn(DIM, dtype=torch.float64, generator=generator) * 10
    order = torch.randperm(CODES, generator=generator)
    layer, (tokens, mask) = quantiser().double().eval(), batch(seed)
    moved = copy.deepcopy(layer)
    with torch.no_grad():
        moved.words.copy_((layer.words @ turn + shift)[order])
    plain, other = layer(tokens.double(), mask), moved(tokens.double() @ turn + shift, mask)
    assert torch.equal(order[other.indices[mask]], plain.indices[mask])
    torch.testing.assert_close(other.loss, plain.loss)
    torch.testing.assert_close(other.codes[mask], plain.codes[mask] @ turn + shift)


def test_codes_are_codewords_to_the_last_bit_and_come_back_from_their_indices() -> None:
    layer, (tokens, mask) = quantiser().eval(), batch()
    found = layer(tokens * 0.1 + 3, mask)
    assert torch.equal(found.codes, layer.lookup(found.indices))
    assert set(found.indices[~mask].tolist()) == {-1}


def test_codewords_at_the_means_of_their_tokens_stay_there() -> None:
    """A fixed point of k-means is one of the moving average: what falls to a code is what it is the mean of."""
    centres = torch.tensor([[0.0, 0, 0], [10.0, 0, 0], [0, 10.0, 0], [0, 0, 10.0], [7.0, 7.0, 7.0]])
    spread = torch.randn(60, CODES, DIM, generator=torch.Generator().manual_seed(2))
    tokens = (centres + spread - spread.mean(dim=0)).reshape(10, -1, DIM)
    layer = quantiser("ema", decay=0.8)
    layer.words.copy_(centres)
    layer.num_wins.fill_(60)
    layer.sums.copy_(centres * 60)
    for _ in range(20):
        layer(tokens)
    torch.testing.assert_close(layer.words, centres, rtol=1e-6, atol=2e-5)


def test_a_codeword_without_tokens_keeps_its_place_until_its_count_nears_the_smoothing() -> None:
    layer = quantiser("ema", decay=0.5)
    place = torch.full((DIM,), 1e3)
    layer.words[4] = layer.sums[4] = place
    for step in range(40):
        layer(batch(seed=step)[0])
        if step == 7:
            torch.testing.assert_close(layer.words[4], place, rtol=5e-3, atol=0)
    assert float(layer.words[4].norm()) < 1e-3 * float(place.norm())


@pytest.mark.parametrize("update", ["gradient", "ema"])
def test_revived_codes_lie_on_different_valid_tokens_and_the_batch_is_quantised_by_them(update: str) -> None:
    layer = quantiser(update, decay=0.9, revive_below=0.5)
    with torch.no_grad():
        layer.words[1:] += 100
    layer.shares[1:] = 0
    tokens, mask = batch()
    tokens[~mask] = 50.0
    tokens.requires_grad_()
    started = copy.deepcopy(layer)
    found = layer(tokens, mask)
    # what was revived is nearest to its own token, at distance 0
    at = torch.cdist(tokens.detach()[mask], started.words[:1].detach()).squeeze(1)
    errors = (tokens - found.codes)[mask].norm(dim=-1).detach()
    exact = errors == 0
    assert int(exact.sum()) == CODES - 1
    assert found.indices[mask][exact].sort().values.tolist() == [1, 2, 3, 4]
    assert bool((errors <= at + 1e-5).all())
    if update == "gradient":
        # the gradient is of the codebook as it now is, not of the places that are left
        (got,) = torch.autograd.grad(found.loss, layer.words)
        wanted = hard_reference.gradient_of_codebook_loss(tokens[mask], layer.words, found.indices[mask])
        torch.testing.assert_close(got.double(), wanted, rtol=1e-5, atol=1e-6)


def test_a_revived_code_gets_its_turn_and_each_step_draws_anew() -> None:
    layer, places = quantiser(decay=0.9, revive_below=0.5), []
    tokens, _ = batch(size=10)
    for step in range(3):
        with torch.no_grad():
            layer.words.fill_(100)
        layer.shares.zero_()
        layer(tokens)
        places.append(layer.words.detach().clone())
        assert int(layer.steps) == step + 1
    assert not torch.equal(places[0], places[1])
    assert not torch.equal(places[1], places[2])
    # tokens next to one codeword only: the others were revived a step ago and stay, until their share has run out
    beside = places[2][:1].expand(1, 20, -1)
    for _ in range(3):
        layer(beside)
        assert torch.equal(layer.words, places[2])
    for _ in range(30):
        layer(beside)
    assert not torch.equal(layer.words, places[2])


def test_no_more_codes_are_revived_than_there_are_tokens() -> None:
    layer = quantiser("ema", revive_below=0.5)
    layer.words += 100
    layer.sums += 100
    layer.shares.zero_()
    layer(torch.zeros(1, 2, DIM))
    assert int((layer.words.norm(dim=-1) < 1).sum()) == 2


def test_a_revival_leaves_an_earlier_graph_as_it_was() -> None:
    """Gradients of two batches gathered before a step: each one's are those of the codewords that it met."""
    layer = quantiser(decay=0.5, revive_below=0.9)
    met, wanted, total = [], torch.zeros(CODES, DIM, dtype=torch.float64), torch.zeros(())
    for seed in (1, 2):
        tokens, _ = batch(seed)
        found = layer(tokens)
        total = total + found.loss
        met.append(layer.words.detach().clone())
        wanted += hard_reference.gradient_of_codebook_loss(tokens.flatten(0, 1), met[-1], found.indices.flatten())
    total.backward()
    assert not torch.equal(met[0], met[1])
    torch.testing.assert_close(layer.words.grad.double(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("tokens", "mask", "message"),
    [
        (torch.zeros(2, 3, 4), None, "tokens have shape .2, 3, 4.; this quantiser reads .batch, tokens, 3."),
        (torch.zeros(2, 3), None, "this quantiser reads"),
        (torch.zeros(2, 4, 3, dtype=torch.int64), None, r"call tokens.float\(\) first"),
        (torch.zeros(2, 4, 3), torch.ones(2, 4), "use mask.bool"),
        (torch.zeros(2, 4, 3), torch.ones(2, 3, dtype=torch.bool), "the mask must have one entry per token"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_tokens_and_masks_that_do_not_fit_are_refused(tokens: Tensor, mask: Tensor | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quantiser()(tokens, mask)


def test_starting_codes_come_from_data_and_an_unknown_way_is_refused() -> None:
    layer, (tokens, mask) = quantiser("ema"), batch()
    layer.initialise(tokens, torch.Generator().manual_seed(0), mask)
    assert float(torch.cdist(layer.words, tokens[mask]).amin(dim=1).max()) == 0
    assert torch.equal(layer.sums, layer.words)
    with pytest.raises(ValueError, match="method is 'kmeans'; choose one of"):
        layer.initialise(tokens, torch.Generator(), mask, method="kmeans")
