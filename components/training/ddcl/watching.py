"""What is looked at once an epoch: the annealed Lyapunov function, and what foretells a collapse."""

import torch
from torch import Tensor

from components.methods.ddcl import lyapunov
from components.methods.ddcl.classifier import ReadoutClassifier
from components.methods.ddcl.readouts import HierarchyReadout, PrototypeReadout
from components.training.data.batches import TokenBatch

# Rows that are looked at: always the same ones, the first of those that training started from.
ROWS = 256


class PrototypeWatch:
    """Figures of the first level on the same rows in every epoch. It holds data, and no state that training changes."""

    def __init__(self) -> None:
        self.batch: TokenBatch | None = None

    def look_at(self, batch: TokenBatch) -> None:
        self.batch = TokenBatch(*(part[:ROWS] for part in batch))

    @torch.no_grad()
    def metrics(self, network: ReadoutClassifier) -> dict[str, float]:
        if self.batch is None or not isinstance(network.readout, PrototypeReadout | HierarchyReadout):
            return {}
        tokens, mask = self._encoded(network, self.batch)
        layer = network.readout.layers[0]
        energy = lyapunov(tokens, layer.prototypes, float(layer.temperature), mask)
        return {"stability/lyapunov": float(energy)}

    def _encoded(self, network: ReadoutClassifier, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        device = network.scaler.mean.device
        return network.encode(batch.tokens.to(device), batch.mask.to(device))
