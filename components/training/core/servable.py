"""A trained model in the form in which it is deployed: what goes in, what comes out, and how both are named."""

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Servable:
    """`module` takes tensors named `inputs` and returns those named `outputs`, in order.

    The inputs are tokens (B, T, num_features) in physical units and a mask (B, T); among the outputs is logits (B, C).
    `widths` gives the last axis of each output.
    """

    module: nn.Module
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    widths: tuple[int, ...]
    num_features: int
