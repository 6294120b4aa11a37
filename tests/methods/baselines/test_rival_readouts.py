"""Readouts that compete: each does what its paper says, by slow loops, and none is reached by padding."""

import pytest
import torch
from torch import Tensor

from components.methods.baselines.readouts import (
    RIVALS,
    AttentionPooling,
    HardCodebookReadout,
    PerceiverReadout,
    SlotReadout,
)
from components.methods.interfaces.readout import Readout

DIM, PARTS = 8, 3


def readout(name: str, seed: int = 0) -> Readout:
    torch.manual_seed(seed)
    return RIVALS[name](DIM, PARTS).eval()


def batch(seed: int = 1, size: int = 4, length: int = 6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randn(size, length, DIM, generator=generator)
    mask = torch.rand(size, length, generator=generator) < 0.6
    mask[:, 0] = True
    return tokens, mask


@pytest.mark.parametrize("name", sorted(RIVALS))
def test_shapes_and_mixtures_are_as_promised(name: str) -> None:
    model, (tokens, mask) = readout(name), batch()
    output = model(tokens, mask)
    assert output.vector.shape == (4, model.width)
    assert output.mixture.shape == (4, model.num_parts)
    assert output.loss.shape == ()
    if model.num_parts:
        assert bool((output.mixture >= 0).all())
        torch.testing.assert_close(output.mixture.sum(dim=-1), torch.ones(4))


@pytest.mark.parametrize("name", sorted(RIVALS))
def test_padding_reaches_neither_value_nor_gradient(name: str) -> None:
    model, (tokens, mask) = readout(name), batch()
    spoilt = torch.where(mask.unsqueeze(-1), tokens, torch.nan).requires_grad_()
    clean = model(tokens, mask)
    output = model(spoilt, mask)
    assert torch.equal(output.vector, clean.vector)
    assert torch.equal(output.mixture, clean.mixture)
    (output.vector.square().sum() + output.loss).backward()
    assert bool(spoilt.grad.isfinite().all())
    assert float(spoilt.grad[~mask].abs().sum()) == 0
    assert all(bool(weight.grad.isfinite().all()) for weight in model.parameters() if weight.grad is not None)


@pytest.mark.parametrize("name", sorted(RIVALS))
def test_a_longer_padding_changes_nothing(name: str) -> None:
    model, (tokens, mask) = readout(name), batch()
    longer = torch.cat([tokens, torch.randn(4, 5, DIM)], dim=1)
    padded = torch.cat([mask, torch.zeros(4, 5, dtype=torch.bool)], dim=1)
    torch.testing.assert_close(model(longer, padded).vector, model(tokens, mask).vector, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", sorted(RIVALS))
def test_a_sequence_without_a_token_is_zeros_and_leaves_others_alone(name: str) -> None:
    model, (tokens, mask) = readout(name), batch()
    mask[1] = False
    output = model(tokens, mask)
    assert float(output.vector[1].abs().max()) == 0
    kept = torch.tensor([0, 2, 3])
    torch.testing.assert_close(output.vector[kept], model(tokens[kept], mask[kept]).vector, rtol=1e-5, atol=1e-6)
    output = model(tokens.requires_grad_(), torch.zeros_like(mask))
    (output.vector.sum() + output.loss).backward()
    assert float(tokens.grad.abs().sum()) == 0
    assert all(float(weight.grad.abs().sum()) == 0 for weight in model.parameters() if weight.grad is not None)


@pytest.mark.parametrize("name", sorted(set(RIVALS) - {"cls"}))
def test_the_order_of_tokens_does_not_matter(name: str) -> None:
    model, (tokens, mask) = readout(name), batch()
    order = torch.tensor([5, 2, 0, 4, 1, 3])
    torch.testing.assert_close(
        model(tokens[:, order], mask[:, order]).vector, model(tokens, mask).vector, rtol=1e-5, atol=1e-5
    )


def test_mean_and_first_token_by_hand() -> None:
    tokens, mask = batch()
    for row in range(4):
        torch.testing.assert_close(readout("mean")(tokens, mask).vector[row], tokens[row, mask[row]].mean(dim=0))
    assert torch.equal(readout("cls")(tokens, mask).vector, tokens[:, 0])


def test_attention_pooling_by_loops() -> None:
    model, (tokens, mask) = readout("attention"), batch()
    assert isinstance(model, AttentionPooling)
    found = model(tokens, mask).vector.reshape(4, PARTS, DIM).double()
    for row in range(4):
        valid = tokens[row, mask[row]].double()
        for part in range(PARTS):
            scores = torch.stack(
                [model.queries[part].double() @ (model.keys.weight.double() @ token) / DIM**0.5 for token in valid]
            )
            weights = scores.exp() / scores.exp().sum()
            torch.testing.assert_close(found[row, part], (weights[:, None] * valid).sum(dim=0), rtol=1e-5, atol=1e-6)


def slow_slots(model: SlotReadout, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Algorithm 1 of arXiv 2006.15055 for one sequence (T, D) of valid tokens, slot by slot."""
    inputs = model.norm_tokens(tokens)
    keys, values = model.to_k(inputs), model.to_v(inputs)
    slots = [model.slots[part] for part in range(PARTS)]
    for _ in range(model.ITERATIONS):
        queries = [model.to_q(model.norm_slots(slot)) for slot in slots]
        logits = torch.stack([keys @ query / DIM**0.5 for query in queries])  # (K, T)
        taken = logits.exp() / logits.exp().sum(dim=0, keepdim=True)
        updated = []
        for part in range(PARTS):
            weights = taken[part] + model.EPSILON
            update = (weights / weights.sum()) @ values
            slot = model.gru(update[None], slots[part][None])[0]
            updated.append(slot + model.mlp(model.norm_hidden(slot)))
        slots = updated
    return torch.cat(slots), taken.mean(dim=1)


def test_slots_by_loops_in_values_and_gradients() -> None:
    model, (tokens, mask) = readout("slots"), batch()
    assert isinstance(model, SlotReadout)
    output = model.double()(tokens.double(), mask)
    wanted = [slow_slots(model, tokens[row, mask[row]].double()) for row in range(4)]
    torch.testing.assert_close(output.vector, torch.stack([vector for vector, _ in wanted]), rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(output.mixture, torch.stack([mixture for _, mixture in wanted]), rtol=1e-9, atol=1e-10)
    weights = [model.slots, model.to_k.weight, model.gru.weight_ih]
    found = torch.autograd.grad(output.vector.square().sum(), weights)
    truth = torch.autograd.grad(sum(vector.square().sum() for vector, _ in wanted), weights)
    for one, other in zip(found, truth, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)


def test_slots_agree_with_the_package_slot_attention() -> None:
    peer = pytest.importorskip("slot_attention")
    model, (tokens, _) = readout("slots"), batch()
    assert isinstance(model, SlotReadout)
    theirs = peer.SlotAttention(num_slots=PARTS, dim=DIM, iters=model.ITERATIONS, hidden_dim=128)
    pairs = (
        (theirs.norm_input, model.norm_tokens),
        (theirs.norm_slots, model.norm_slots),
        (theirs.norm_pre_ff, model.norm_hidden),
        (theirs.to_q, model.to_q),
        (theirs.to_k, model.to_k),
        (theirs.to_v, model.to_v),
        (theirs.gru, model.gru),
        (theirs.mlp, model.mlp),
    )
    for their, ours in pairs:
        their.load_state_dict(ours.state_dict())
    # theirs draws its slots: mean 0 and deviation exp(logsigma) times normal numbers, which are ours here
    with torch.no_grad():
        theirs.slots_mu.zero_()
        theirs.slots_logsigma.zero_()
    drawn = model.slots.detach().expand(4, -1, -1)
    original = torch.randn
    try:
        torch.randn = lambda *_, **__: drawn.clone()  # type: ignore[assignment]
        wanted = theirs(tokens)
    finally:
        torch.randn = original
    torch.testing.assert_close(model(tokens).vector.reshape(4, PARTS, DIM), wanted, rtol=1e-4, atol=1e-5)


def test_latents_attend_as_torch_does() -> None:
    """The cross-attention against torch's own on the valid tokens of each sequence, everything behind it left out."""
    model, (tokens, mask) = readout("perceiver"), batch()
    assert isinstance(model, PerceiverReadout)
    for layer in (model.feed_cross[-1], model.feed_self[-1], model.mix):
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    found = model(tokens, mask).vector.reshape(4, PARTS, DIM)
    for row in range(4):
        keys, values = model.to_kv(model.norm_tokens(tokens[row, mask[row]])).chunk(2, dim=-1)
        queries = model.to_q(model.norm_latents(model.latents))
        read = torch.nn.functional.scaled_dot_product_attention(queries[None], keys[None], values[None])[0]
        torch.testing.assert_close(found[row], model.latents + model.to_out(read), rtol=1e-5, atol=1e-5)


def test_a_hard_codebook_counts_and_reports_its_use() -> None:
    model, (tokens, mask) = readout("hard-vq"), batch()
    assert isinstance(model, HardCodebookReadout)
    model.initialise(tokens, torch.Generator().manual_seed(0), mask)
    model.train()
    output = model(tokens, mask)
    indices = model.quantiser.eval()(tokens, mask).indices
    # the codebook moved after it answered, so the counts are compared with what the output itself says
    wins = (output.mixture * mask.sum(dim=1, keepdim=True)).round().long()
    assert int(wins.sum()) == int(mask.sum()) == int((indices >= 0).sum())
    health = model.health()
    assert health["utilisation"] == pytest.approx(float((wins.sum(dim=0) > 0).double().mean()))
    assert int(model.usage.sum()) == 0


@pytest.mark.parametrize("name", sorted(RIVALS))
def test_each_learns_what_a_bag_of_real_rows_shows_and_not_what_chance_labels_say(name: str) -> None:
    """Handwritten digits as bags of eight rows of pixels, 3 against 8: held-out accuracy, beside shuffled labels."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    chosen = (digits.target == 3) | (digits.target == 8)
    rows = torch.tensor(digits.images[chosen], dtype=torch.float32) / 16 - 0.3
    labels = torch.tensor(digits.target[chosen] == 8, dtype=torch.float32)
    # rows in order, so that the class token's rival has its top row
    train = torch.arange(len(rows)) % 3 != 0
    shuffled = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]
    reached = {}
    for kind, truth in (("real", labels), ("chance", shuffled)):
        torch.manual_seed(1)
        model = RIVALS[name](DIM, PARTS)
        head = torch.nn.Linear(model.width, 1)
        model.initialise(rows[train], torch.Generator().manual_seed(0))
        optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=0.02)
        for _ in range(150):
            output = model(rows[train])
            loss = torch.nn.functional.binary_cross_entropy_with_logits(head(output.vector)[:, 0], truth[train])
            optimizer.zero_grad()
            (loss + 0.01 * output.loss).backward()
            optimizer.step()
        answers = head(model.eval()(rows[~train]).vector)[:, 0] > 0
        reached[kind] = float((answers == (truth[~train] > 0.5)).float().mean())
    print(name, reached)
    assert reached["real"] > 0.7
    assert reached["chance"] < 0.65
