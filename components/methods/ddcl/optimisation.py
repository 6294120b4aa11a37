"""Two time scales: fast prototypes, a slow encoder."""

from typing import Any

from torch import nn

from components.methods.ddcl.attention import DDCLAttention
from components.methods.ddcl.numerics import Number, checked_positive

# the range that the paper finds stable in practice; it reports collapse from 0.5 upwards.
PRACTICAL_TIMESCALE_RATIOS = (0.01, 0.1)


def parameter_groups(module: nn.Module, learning_rate: Number, timescale_ratio: Number = 0.05) -> list[dict[str, Any]]:
    """Groups for an optimiser: the prototypes of every DDCLAttention in `module`, then everything else.

    Theorem 1 (Tikhonov's singular perturbation) needs prototypes that relax faster than the encoder drifts:
    `learning_rate` is lr_P, and lr_theta = eps lr_P with eps = `timescale_ratio`, in practice 0.01 to 0.1. Any positive
    ratio is taken, since an ablation needs large ones too. The groups are called "prototypes" and "rest" under the key
    "name"; parameters that need no gradient are left out, and so is a group without parameters. Prototypes get no
    weight decay: it would pull the bank to the origin, which means nothing to a layer that only sees differences.

    Raises ValueError when `module` holds no DDCLAttention or nothing to train, or a rate or ratio is not positive.
    """
    fast_rate = checked_positive("learning_rate", learning_rate)
    slow_rate = checked_positive("timescale_ratio", timescale_ratio) * fast_rate
    layers = [part for part in module.modules() if isinstance(part, DDCLAttention)]
    if not layers:
        raise ValueError(f"{type(module).__name__} holds no DDCLAttention; pass a module that does")
    banks = {id(layer.prototypes) for layer in layers}
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    fast = [parameter for parameter in trained if id(parameter) in banks]
    slow = [parameter for parameter in trained if id(parameter) not in banks]
    groups: list[dict[str, Any]] = []
    if fast:
        groups.append({"name": "prototypes", "params": fast, "lr": fast_rate, "weight_decay": 0.0})
    if slow:
        groups.append({"name": "rest", "params": slow, "lr": slow_rate})
    if not groups:
        raise ValueError(f"no parameter of {type(module).__name__} needs a gradient; call requires_grad_() on some")
    return groups
