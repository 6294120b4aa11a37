"""Which device trains, and why."""

from typing import Literal, NamedTuple

import torch

from components.errors import ConfigError


class Choice(NamedTuple):
    """`accelerator` as Lightning names it, and the reason for a log or a run record."""

    accelerator: Literal["cpu", "gpu"]
    reason: str


def choose_device(wish: Literal["auto", "cpu", "gpu"]) -> Choice:
    """Raises ConfigError when a GPU is demanded and there is none."""
    available = torch.cuda.is_available()
    if wish == "cpu":
        return Choice("cpu", "the configuration asks for the CPU")
    if wish == "gpu" and not available:
        raise ConfigError("accelerator is gpu, but torch finds no CUDA device; use auto or cpu")
    if available:
        return Choice("gpu", f"torch finds {torch.cuda.get_device_name(0)}")
    return Choice("cpu", "torch finds no CUDA device")
