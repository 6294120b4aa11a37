"""Every readout that an experiment may name: those of DDCL-Attention and their rivals, made from its configuration."""

from collections.abc import Callable, Mapping

from components.methods.baselines.readouts import RIVALS
from components.methods.ddcl.readouts import HierarchyReadout, PrototypeReadout
from components.methods.interfaces.readout import Readout
from components.training.ddcl.config import ReadoutConfig


def _rival(name: str) -> Callable[[ReadoutConfig], Readout]:
    return lambda model: RIVALS[name](model.dim, model.prototype_counts[0])


READOUTS: Mapping[str, Callable[[ReadoutConfig], Readout]] = {
    "ddcl": lambda model: PrototypeReadout(model.dim, model.prototype_counts[0]),
    "hierarchy": lambda model: HierarchyReadout(model.dim, model.prototype_counts, level_weights=model.level_weights),
    **{name: _rival(name) for name in RIVALS},
}
