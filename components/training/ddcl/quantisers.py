"""Every quantiser that a VQ experiment may name, made from its configuration."""

from collections.abc import Callable, Mapping

from components.methods.baselines.hard_quantiser import HardVectorQuantizer
from components.methods.ddcl.quantiser import SoftVectorQuantizer
from components.methods.interfaces.quantiser import VectorQuantizer
from components.training.ddcl.vq_config import VQConfig


def _soft(model: VQConfig) -> VectorQuantizer:
    return SoftVectorQuantizer(model.dim, model.num_codes)


def _hard(update: str) -> Callable[[VQConfig], VectorQuantizer]:
    return lambda model: HardVectorQuantizer(
        model.dim,
        model.num_codes,
        commitment=model.commitment,
        update=update,
        decay=model.decay,
        revive_below=model.revive_below,
    )


QUANTISERS: Mapping[str, Callable[[VQConfig], VectorQuantizer]] = {
    "soft": _soft,
    "hard": _hard("gradient"),
    "hard-ema": _hard("ema"),
}
