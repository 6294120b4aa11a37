"""How the learning rates move: all groups by one factor, so that ratios between them stay."""

from collections.abc import Callable, Mapping
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler

SCHEDULES: Mapping[str, Callable[[Optimizer, int], LRScheduler]] = {
    "cosine": lambda optimizer, steps: CosineAnnealingLR(optimizer, T_max=steps),
}


def with_schedule(optimizer: Optimizer, schedule: str, steps: int) -> Any:
    """What `configure_optimizers` returns for `schedule` over `steps` steps; "constant" needs no scheduler."""
    if schedule == "constant":
        return optimizer
    return {
        "optimizer": optimizer,
        "lr_scheduler": {"scheduler": SCHEDULES[schedule](optimizer, steps), "interval": "step"},
    }
