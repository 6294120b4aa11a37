"""What a prototype stands for, told in real rows: who is assigned to it and who lies nearest."""

from typing import Any

import torch

from components.config import TaskConfig
from components.methods.ddcl.classifier import ReadoutClassifier
from components.training.core.tables import Split

NEAREST = 3
# Descriptions are for readers; more digits would only tie the text to one machine's rounding.
DIGITS = 4


@torch.no_grad()
def describe_prototypes(network: ReadoutClassifier, split: Split, task: TaskConfig) -> list[dict[str, Any]]:
    """One entry a prototype: its share of all assignments, the classes it gathers, its nearest rows."""
    output = network(split.tokens)
    assignments = output.ddcl.assignments.flatten(0, 1).double()
    tokens = network.encode(split.tokens).flatten(0, 1).double()
    prototypes = network.readout.prototypes.double()
    distances = torch.cdist(tokens, prototypes)
    mass = assignments.sum(dim=0)
    of_class = torch.stack([assignments[split.labels == index].sum(dim=0) for index in range(len(task.classes))])
    return [
        {
            "prototype": index,
            "share": round(float(mass[index] / mass.sum()), DIGITS),
            "classes": {
                name: round(float(of_class[position, index] / mass[index].clamp_min(1e-12)), DIGITS)
                for position, name in enumerate(task.classes)
            },
            "nearest": [
                {
                    **{name: _shown(split.rows[row, column]) for column, name in enumerate(task.features)},
                    task.target: task.classes[int(split.labels[row])],
                }
                for row in distances[:, index].argsort(stable=True)[:NEAREST].tolist()
            ],
        }
        for index in range(len(prototypes))
    ]


def _shown(value: torch.Tensor) -> float:
    return float(f"{float(value):.6g}")
