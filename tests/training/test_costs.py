"""Parameters and multiply-adds against what layers of known size have."""

import pytest
import torch
from torch import nn

from components.training.core.costs import Costs, network_costs


def test_costs_are_those_of_the_layers_and_leave_the_network_as_it_was() -> None:
    frozen = nn.Linear(5, 5)
    frozen.requires_grad_(False)
    network = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.GELU(), frozen, nn.Linear(5, 2, bias=False)).train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    # trained: weights and biases of the first, scale and shift of the norm, the last; computed: all three products
    assert network_costs(network, (torch.ones(1, 3),)) == Costs(3 * 5 + 5 + 10 + 5 * 2, 3 * 5 + 5 * 5 + 5 * 2)
    assert network.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


class OfOneLatent(nn.Module):
    """Hands a view of its parameter to a layer, as readouts with learned queries do."""

    def __init__(self) -> None:
        super().__init__()
        self.latent = nn.Parameter(torch.ones(1, 5))
        self.layer = nn.Linear(5, 2)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows + self.layer(self.latent.expand(len(rows), -1))


def test_views_of_parameters_are_no_obstacle() -> None:
    assert network_costs(OfOneLatent(), (torch.ones(1, 2),)) == Costs(5 + 5 * 2 + 2, 5 * 2)


def test_multiply_adds_of_convolutions_count_every_place() -> None:
    network = nn.Conv2d(2, 4, kernel_size=3, padding=1)
    assert network_costs(network, (torch.ones(1, 2, 6, 7),)).multiply_adds == 6 * 7 * 4 * 2 * 9


def test_costs_are_those_of_one_row() -> None:
    with pytest.raises(ValueError, match=r"costs are those of one row; 2 came: pass a batch of one"):
        network_costs(nn.Linear(3, 5), (torch.ones(2, 3),))
