"""What a network costs: its parameters, and the multiply-adds of one row."""

import copy
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from components.training.data.batches import Batch, TokenBatch


@dataclass(frozen=True)
class Costs:
    """`parameters`: entries of all trained tensors; `multiply_adds`: of a forward pass of one row."""

    parameters: int
    multiply_adds: int


@torch.no_grad()
def network_costs(network: nn.Module, row: Batch) -> Costs:
    """Count on `row`, a batch of one, of which the network reads its content and, where there is one, its mask.

    Multiply-adds are half of what torch's flop counter counts: matrix products and convolutions. Elementwise work is
    left out, as is the custom in papers.
    """
    if len(row[0]) != 1:
        raise ValueError(f"the costs are those of one row; {len(row[0])} came: pass a batch of one")
    inputs = (row[0], row.mask) if isinstance(row, TokenBatch) else (row[0],)
    # a copy without gradients: the counter stumbles over views of parameters that need one
    counted = copy.deepcopy(network).requires_grad_(False).eval()
    with FlopCounterMode(display=False) as counter:
        counted(*inputs)
    parameters = sum(weight.numel() for weight in network.parameters() if weight.requires_grad)
    return Costs(parameters, int(counter.get_total_flops()) // 2)
