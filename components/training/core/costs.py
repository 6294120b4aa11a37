"""What a network costs: its parameters, and the multiply-adds of one row."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode


@dataclass(frozen=True)
class Costs:
    """`parameters`: entries of all trained tensors; `multiply_adds`: of a forward pass of one row."""

    parameters: int
    multiply_adds: int


@torch.no_grad()
def network_costs(network: nn.Module, row: Tensor) -> Costs:
    """Count on `row` (1, ...), the input of a batch of one.

    Multiply-adds are half of what torch's flop counter counts: matrix products and convolutions. Elementwise work is
    left out, as is the custom in papers.
    """
    if len(row) != 1:
        raise ValueError(f"the costs are those of one row; {len(row)} came: pass rows[:1]")
    training = network.training
    network.eval()
    try:
        with FlopCounterMode(display=False) as counter:
            network(row)
    finally:
        network.train(training)
    parameters = sum(weight.numel() for weight in network.parameters() if weight.requires_grad)
    return Costs(parameters, int(counter.get_total_flops()) // 2)
