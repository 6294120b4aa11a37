"""What a prototype stands for is told in real rows, and the shares are of all that is assigned."""

from collections.abc import Callable

import pytest
import torch

from components.config import TaskConfig
from components.methods.ddcl.classifier import ReadoutClassifier
from components.methods.ddcl.encoders import PerceptronEncoder
from components.methods.ddcl.readouts import PrototypeReadout
from components.training.data.tables import Split
from components.training.ddcl.describe import NEAREST, describe_prototypes

TASK = TaskConfig(target="kind", classes=("A", "B"), features=("x", "y"))
COUNT, ROWS = 5, 60


@pytest.fixture
def split() -> Split:
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randn(ROWS, 1, 2, generator=generator) * 3
    return Split(tokens, (tokens[:, 0, 0] > 0).long())


@pytest.fixture
def network(split: Split) -> ReadoutClassifier:
    torch.manual_seed(4)
    model = ReadoutClassifier(2, 2, PerceptronEncoder(2, 4, 8), PrototypeReadout(4, COUNT))
    model.scaler.fit([split.matrix], torch.zeros(2, dtype=torch.bool))
    tokens, mask = model.encode(split.tokens)
    model.readout.initialise(tokens, torch.Generator().manual_seed(0), mask, noise_std=0.1)
    return model.eval()


def test_shares_sum_to_one(network: ReadoutClassifier, split: Split) -> None:
    entries = describe_prototypes(network, split, TASK)
    assert [entry["prototype"] for entry in entries] == list(range(COUNT))
    assert sum(entry["share"] for entry in entries) == pytest.approx(1.0, abs=COUNT * 5e-5)
    for entry in entries:
        assert list(entry["classes"]) == ["A", "B"]
        assert sum(entry["classes"].values()) == pytest.approx(1.0, abs=1e-4)
        assert all(0 <= value <= 1 for value in (entry["share"], *entry["classes"].values()))


def test_shares_are_those_of_the_assignments(network: ReadoutClassifier, split: Split) -> None:
    """By a loop over rows, the slow way."""
    mass = [[0.0, 0.0] for _ in range(COUNT)]
    with torch.no_grad():
        for tokens, label in zip(split.tokens, split.labels.tolist(), strict=True):
            for index, value in enumerate(
                network.readout.last(network.encode(tokens[None])[0]).assignments[0, 0].tolist()
            ):
                mass[index][label] += value
    for entry, of_class in zip(describe_prototypes(network, split, TASK), mass, strict=True):
        assert entry["share"] == pytest.approx(sum(of_class) / ROWS, abs=6e-5)
        assert entry["classes"]["A"] == pytest.approx(of_class[0] / sum(of_class), abs=6e-5)


def test_nearest_rows_are_real_rows_and_the_nearest_there_are(network: ReadoutClassifier, split: Split) -> None:
    real = {
        (float(f"{x:.6g}"), float(f"{y:.6g}"), TASK.classes[label]): row
        for row, ((x, y), label) in enumerate(zip(split.matrix.tolist(), split.labels.tolist(), strict=True))
    }
    with torch.no_grad():
        encoded = network.encode(split.tokens)[0][:, 0].double()
    for entry in describe_prototypes(network, split, TASK):
        assert len(entry["nearest"]) == NEAREST
        rows = [real[told["x"], told["y"], told["kind"]] for told in entry["nearest"]]
        distances = (encoded - network.readout.layer.prototypes[entry["prototype"]].detach().double()).norm(dim=-1)
        assert distances[rows].tolist() == sorted(distances.tolist())[:NEAREST]


def test_a_prototype_on_a_token_names_that_row_first(network: ReadoutClassifier, split: Split) -> None:
    with torch.no_grad():
        network.readout.layer.prototypes[1] = network.encode(split.tokens)[0][17, 0]
    first = describe_prototypes(network, split, TASK)[1]["nearest"][0]
    assert first["x"] == pytest.approx(float(split.matrix[17, 0]), rel=1e-5)


def test_a_prototype_that_nobody_uses_is_told_without_a_division_by_zero(
    network: ReadoutClassifier, split: Split
) -> None:
    with torch.no_grad():
        network.readout.layer.prototypes[2] = 1e6
    entry = describe_prototypes(network, split, TASK)[2]
    assert entry["share"] == 0.0
    assert set(entry["classes"].values()) == {0.0}
    assert len(entry["nearest"]) == NEAREST


@pytest.mark.parametrize("rows", [1, 2])
def test_fewer_rows_than_are_told_otherwise(network: ReadoutClassifier, split: Split, rows: int) -> None:
    few = Split(split.tokens[:rows], split.labels[:rows])
    assert all(len(entry["nearest"]) == rows for entry in describe_prototypes(network, few, TASK))


def test_the_same_model_is_described_alike_and_remains_as_it_was(network: ReadoutClassifier, split: Split) -> None:
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    describe: Callable[[], list[dict[str, object]]] = lambda: describe_prototypes(network, split, TASK)  # noqa: E731
    assert describe() == describe()
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())
    assert all(weight.grad is None for weight in network.parameters())
