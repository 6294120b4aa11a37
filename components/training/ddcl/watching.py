"""What is looked at once an epoch: the annealed Lyapunov function, and what foretells a collapse."""

from typing import Any

import torch

from components.methods.ddcl.classifier import ReadoutClassifier
from components.methods.ddcl.monitor import StabilityMonitor
from components.methods.ddcl.readouts import HierarchyReadout, PrototypeReadout
from components.training.data.batches import TokenBatch

# Rows that are looked at: always the same ones, the first of those that training started from.
ROWS = 128
# Of their tokens every so many are taken, where they are more than this.
TOKENS = 512


class PrototypeWatch:
    """The first level of a readout on the same tokens in every epoch; what it remembers goes with a checkpoint."""

    def __init__(self, learning_rate: float, timescale_ratio: float):
        self.monitor = StabilityMonitor(learning_rate, timescale_ratio)
        self.batch: TokenBatch | None = None
        # the gravest that was found so far, and what was said last
        self.worst = 0
        self.reasons: tuple[str, ...] = ()

    def look_at(self, batch: TokenBatch) -> None:
        self.batch = TokenBatch(*(part[:ROWS] for part in batch))

    @torch.no_grad()
    def metrics(self, network: ReadoutClassifier) -> dict[str, float]:
        """Figures of this epoch. Empty before `look_at`, and for a readout without prototypes."""
        readout = network.readout
        if self.batch is None or not isinstance(readout, PrototypeReadout | HierarchyReadout):
            return {}
        device = network.scaler.mean.device
        tokens, mask = network.encode(self.batch.tokens.to(device), self.batch.mask.to(device))
        valid = tokens[mask]
        seen = valid[:: -(-len(valid) // TOKENS)].unsqueeze(0)
        layer = readout.layers[0]
        with torch.enable_grad():
            report = self.monitor.look(seen, layer.prototypes.detach(), float(layer.temperature))
        self.worst = max(self.worst, report.severity)
        self.reasons = report.reasons
        return {
            "stability/lyapunov": report.lyapunov,
            "stability/relative_separation": report.separation,
            "stability/trend": report.trend,
            "stability/least_curvature": report.curvature.least,
            "stability/largest_curvature": report.curvature.largest,
            "stability/relative_temperature": report.relative_temperature,
            # 0 stable, 1 warning, 2 unstable
            "stability/severity": float(report.severity),
            "stability/worst_severity": float(self.worst),
        }

    def state_dict(self) -> dict[str, Any]:
        return {"monitor": self.monitor.state_dict(), "worst": self.worst, "reasons": list(self.reasons)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.monitor.load_state_dict(state["monitor"])
        self.worst = int(state["worst"])
        self.reasons = tuple(state["reasons"])
