"""A small task that every readout can learn: handwritten digits as bags of their eight rows of pixels.

The 1,797 images of 8 x 8 pixels ship with scikit-learn. A token is one row of pixels beside the row's place, so a bag
has no order of its own and a readout alone must bring the rows together.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.readouts import Readout

DIM, COUNT, HIDDEN = 32, 16, 64
EPOCHS, BATCH, RATE = 15, 64, 5e-3
SEEDS = (0, 1, 2)
# the weight of an auxiliary loss, for all that have one: with more of it encoder and prototypes merge
AUXILIARY = 0.02
# the layer's default
TEMPERATURE = 1.0


@cache
def bags() -> tuple[Tensor, Tensor]:
    """tokens (1797, 8, 16) in [0, 1]; labels (1797,)."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    pixels = torch.from_numpy(loaded.images).float() / 16
    places = torch.eye(8).expand(len(pixels), -1, -1)
    return torch.cat([pixels, places], dim=-1), torch.from_numpy(loaded.target).long()


def accuracies(make: Callable[[int, int], Readout]) -> tuple[float, ...]:
    """Accuracy on the held-out fifth after a fixed number of steps, one for each seed."""
    return tuple(_accuracy(make, seed) for seed in SEEDS)


def _accuracy(make: Callable[[int, int], Readout], seed: int) -> float:
    tokens, labels = bags()
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=generator)
    held, kept = order[: len(order) // 5], order[len(order) // 5 :]
    torch.manual_seed(seed)
    encoder = nn.Sequential(
        nn.Linear(16, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, DIM), nn.LayerNorm(DIM, elementwise_affine=False)
    )
    readout = make(DIM, COUNT)
    head = nn.Linear(readout.width, 10)
    with torch.no_grad():
        readout.prepare(encoder(tokens[kept]), TEMPERATURE)
    model = nn.ModuleList([encoder, readout, head])
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    steps = EPOCHS * -(-len(kept) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    for _ in range(EPOCHS):
        for rows in torch.split(kept[torch.randperm(len(kept), generator=generator)], BATCH):
            vector, auxiliary, _ = readout(encoder(tokens[rows]))
            loss = functional.cross_entropy(head(vector), labels[rows]) + AUXILIARY * auxiliary
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        predicted = head(readout(encoder(tokens[held]))[0]).argmax(dim=-1)
    return float((predicted == labels[held]).double().mean())
