"""What a prototype stands for, told in real rows, and how a row is told in prototypes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from components.config import TaskConfig
from components.methods.ddcl.classifier import ReadoutClassifier
from components.methods.ddcl.readouts import PROTOTYPE_READOUTS, HierarchyReadout, PrototypeReadout
from components.training.data.batches import Rows, TokenBatch
from components.training.data.features import FeatureRows, Words
from components.training.data.tables import Split

NEAREST = 3
# Words told on either side of a token, and of the beginning of a document.
CONTEXT, BEGINNING = 4, 40
# Descriptions are for readers; more digits would only tie the text to one machine's rounding.
DIGITS = 4


@dataclass
class Closest:
    """For each prototype the rows' tokens that lie nearest so far: distances and (row, token), both (K, <= NEAREST)."""

    distances: Tensor
    places: Tensor

    @classmethod
    def none(cls, prototypes: int) -> "Closest":
        return cls(torch.zeros(prototypes, 0, dtype=torch.float64), torch.zeros(prototypes, 0, 2, dtype=torch.int64))

    def add(self, distances: Tensor, places: Tensor) -> None:
        """Take distances (N, K) of tokens at places (N, 2) into account; of equals the earlier one stays."""
        both = torch.cat([self.distances, distances.mT], dim=1)
        where = torch.cat([self.places, places.expand(len(both), -1, -1)], dim=1)
        order = both.argsort(dim=1, stable=True)[:, :NEAREST]
        self.distances = both.gather(1, order)
        self.places = where.gather(1, order.unsqueeze(-1).expand(-1, -1, 2))


@dataclass
class Gathered:
    """What one pass over the rows says of K prototypes: assignments by class (K, C), nearest tokens, fullest rows."""

    by_class: Tensor
    tokens: Closest
    # rows by the share of the prototype in their mixture, the largest first: shares negated
    rows: Closest
    token_count: int = field(default=0)


@torch.no_grad()
def describe_prototypes(network: ReadoutClassifier, rows: Rows[TokenBatch], task: TaskConfig) -> list[dict[str, Any]]:
    """One entry a prototype: its share of all assignments, the classes it gathers, its nearest tokens.

    Of texts also the documents of which it has the largest share. Of a hierarchy the prototypes of the last level are
    told. Empty for a readout without prototypes.
    """
    if not isinstance(network.readout, PROTOTYPE_READOUTS):
        return []
    found = _gathered(network, network.readout, rows, len(task.classes))
    teller = _TELLERS[type(rows)](rows, task)
    mass = found.by_class.sum(dim=1)
    return [
        {
            "prototype": index,
            "share": round(float(mass[index] / mass.sum()), DIGITS),
            "classes": {
                name: round(float(found.by_class[index, position] / mass[index].clamp_min(1e-12)), DIGITS)
                for position, name in enumerate(task.classes)
            },
            "nearest": [teller.token(row, token) for row, token in found.tokens.places[index].tolist()],
            **teller.rows(found.rows.places[index, :, 0].tolist(), (-found.rows.distances[index]).tolist()),
        }
        for index in range(len(mass))
    ]


@torch.no_grad()
def explain_rows(
    network: ReadoutClassifier, rows: Rows[TokenBatch], task: TaskConfig, count: int
) -> list[dict[str, Any]]:
    """The first `count` rows, each with its class, the predicted one, and its mixture of prototypes, largest first.

    Empty for a readout without prototypes.
    """
    if not isinstance(network.readout, PROTOTYPE_READOUTS):
        return []
    batch = rows.__getitems__(list(range(min(count, len(rows)))))
    output = network(batch.tokens, batch.mask)
    teller = _TELLERS[type(rows)](rows, task)
    explained = []
    for row, (logits, mixture, label) in enumerate(
        zip(output.logits, output.readout.mixture.double(), batch.labels.tolist(), strict=True)
    ):
        order = mixture.argsort(descending=True, stable=True)[:NEAREST].tolist()
        explained.append(
            {
                **teller.row(row),
                "class": task.classes[label],
                "predicted": task.classes[int(logits.argmax())],
                "mixture": {str(index): round(float(mixture[index]), DIGITS) for index in order},
            }
        )
    return explained


def _gathered(
    network: ReadoutClassifier, readout: PrototypeReadout | HierarchyReadout, rows: Rows[TokenBatch], classes: int
) -> Gathered:
    bank = readout.layers[-1].prototypes.double()
    found = Gathered(
        torch.zeros(len(bank), classes, dtype=torch.float64), Closest.none(len(bank)), Closest.none(len(bank))
    )
    for batch in rows.in_order():
        tokens, mask = network.encode(batch.tokens, batch.mask)
        output = readout.last(tokens, mask)
        assigned = output.assignments.double().sum(dim=1)
        found.by_class.index_add_(1, batch.labels, assigned.mT)
        places = mask.nonzero()
        places[:, 0] = batch.rows[places[:, 0]]
        found.tokens.add(torch.cdist(tokens[mask].double(), bank), places)
        mixture = assigned / mask.sum(dim=1, keepdim=True).clamp_min(1)
        found.rows.add(-mixture, torch.stack([batch.rows, torch.zeros_like(batch.rows)], dim=1))
    return found


class _OfTable:
    """Rows of a table: the token is the row, told in its features."""

    def __init__(self, split: Split, task: TaskConfig):
        self.split = split
        self.task = task

    def token(self, row: int, _: int) -> dict[str, Any]:
        shown = {name: _shown(self.split.matrix[row, column]) for column, name in enumerate(self.task.features)}
        return {**shown, self.task.target: self.task.classes[int(self.split.labels[row])]}

    def row(self, row: int) -> dict[str, Any]:
        return self.token(row, 0)

    def rows(self, rows: list[int], shares: list[float]) -> dict[str, Any]:
        return {}


class _OfTexts:
    """Documents: a token is a word with those around it, a row the beginning of its text, as the encoder read them."""

    def __init__(self, rows: FeatureRows, task: TaskConfig):
        self.features = rows
        self.task = task
        self.words = Words(rows.folder)

    def token(self, row: int, token: int) -> dict[str, Any]:
        words = self.words.of(int(self.features.places[row]))
        around = words[max(0, token - CONTEXT) : token + CONTEXT + 1]
        return {"word": words[token], "around": _text(around), "class": self._class(row)}

    def row(self, row: int) -> dict[str, Any]:
        place = int(self.features.places[row])
        return {"id": self.words.identifiers[place], "text": _text(self.words.of(place)[:BEGINNING])}

    def rows(self, rows: list[int], shares: list[float]) -> dict[str, Any]:
        return {
            "documents": [
                {**self.row(row), "class": self._class(row), "share": round(share, DIGITS)}
                for row, share in zip(rows, shares, strict=True)
            ]
        }

    def _class(self, row: int) -> str:
        labels = self.features.labels(self.features.places[[row]])
        return self.task.classes[int(labels[0])]


_TELLERS: Mapping[type, Callable[[Any, TaskConfig], "_OfTable | _OfTexts"]] = {Split: _OfTable, FeatureRows: _OfTexts}


def _text(words: list[str]) -> str:
    """Words as a line; a subword, which the tokenizers of BERT's kind mark by ##, goes on the one before it."""
    return " ".join(words).replace(" ##", "")


def _shown(value: Tensor) -> float:
    return float(f"{float(value):.6g}")
