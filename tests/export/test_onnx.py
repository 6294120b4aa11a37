"""The exported graph: every shape, no path inside, the same bytes wherever it is made."""

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

from components.export.onnx import export_onnx
from components.export.parity import BATCHES, TOKENS, ParityCase, Tolerance, compare, judge, parity_inputs
from components.methods.ddcl.classifier import ReadoutClassifier, ServableClassifier
from components.methods.ddcl.encoders import PerceptronEncoder
from components.methods.ddcl.readouts import PrototypeReadout

FEATURES = 3
ROOT = Path(__file__).parents[2]


def servable() -> ServableClassifier:
    torch.manual_seed(3)
    network = ReadoutClassifier(FEATURES, 4, PerceptronEncoder(FEATURES, 5, 8), PrototypeReadout(5, 6))
    network.scaler.fit([torch.rand(50, FEATURES) * 100], torch.tensor([True, False, False]))
    return ServableClassifier(network).eval()


def exported(module: nn.Module, batch: int = 3, tokens: int = 4) -> bytes:
    example = (torch.rand(batch, tokens, FEATURES), torch.ones(batch, tokens, dtype=torch.bool))
    return export_onnx(
        module,
        example,
        input_names=ServableClassifier.INPUTS,
        output_names=ServableClassifier.OUTPUTS,
        max_batch=64,
        max_tokens=16,
        opset=20,
    )


@pytest.fixture(scope="module")
def model() -> bytes:
    return exported(servable())


ROWS = torch.rand(40, FEATURES, generator=torch.Generator().manual_seed(1)) * 100
CLOSE = Tolerance(1e-5, 1e-5)


def cases(model: bytes, module: nn.Module, tolerance: Tolerance = CLOSE) -> list[ParityCase]:
    return compare(model, module, ROWS, ServableClassifier.OUTPUTS, tolerance, seed=0)


def test_the_graph_answers_as_the_module_at_every_shape(model: bytes) -> None:
    found = cases(model, servable())
    assert [case for case in found if not case.passed] == []
    names = [case.name for case in found]
    assert {f"batch {batch}, tokens {tokens}" for batch in BATCHES for tokens in TOKENS} <= set(names)
    assert {"random mask", "one sequence wholly masked", "huge values in the padding"} <= set(names)
    assert all(case.compared > 0 for case in found)


def test_parity_refuses_another_model(model: bytes) -> None:
    other = servable()
    with torch.no_grad():
        other.classifier.head.bias += 0.01
    assert not all(case.passed for case in cases(model, other))


def test_parity_refuses_a_graph_that_ignores_the_mask() -> None:
    class Maskless(ServableClassifier):
        def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            # the mask stays an input of the graph without changing anything
            output = self.classifier(tokens, mask | True)
            return output.logits, output.logits.softmax(-1), output.readout.mixture

    honest = servable()
    failed = {case.name for case in cases(exported(Maskless(honest.classifier).eval()), honest) if not case.passed}
    assert "random mask" in failed
    assert "huge values in the padding" in failed
    assert "batch 5, tokens 2" not in failed


def test_parity_refuses_other_output_names(model: bytes) -> None:
    (case,) = compare(model, servable(), ROWS, ("logits", "scores", "assignments"), CLOSE, seed=0)
    assert not case.passed
    assert "answers ['logits', 'probabilities', 'assignments']" in case.fault


def test_nothing_compared_is_no_pass() -> None:
    assert not ParityCase("empty", compared=0, worst=0.0, decisions=0).passed


@pytest.mark.parametrize(
    ("served", "passed"),
    [([[1.0, 2.0]], True), ([[1.0, 2.1]], False), ([[1.0, float("nan")]], False), ([[1.0, 2.0, 3.0]], False)],
)
def test_judging_is_by_absolute_and_relative_tolerance_alone(served: list[list[float]], passed: bool) -> None:
    truth = {"logits": torch.tensor([[1.0, 2.0]]).numpy()}
    answer = {"logits": torch.tensor(served).numpy()}
    assert judge("case", truth, answer, Tolerance(0.01, 0.01)).passed is passed


def test_another_decision_within_tolerance_of_a_tie_is_none() -> None:
    tie = {"logits": torch.tensor([[1.0, 1.0001]]).numpy()}
    other = {"logits": torch.tensor([[1.0001, 1.0]]).numpy()}
    assert judge("case", tie, other, Tolerance(0.001, 0.0)).decisions == 0
    clear = {"logits": torch.tensor([[1.0, 2.0]]).numpy()}
    assert judge("case", clear, {"logits": clear["logits"][:, ::-1]}, Tolerance(0.001, 0.0)).decisions == 1


def test_the_inputs_are_the_same_for_the_same_seed() -> None:
    first, second, other = (list(parity_inputs(ROWS, seed)) for seed in (0, 0, 1))
    assert all(torch.equal(a[1], b[1]) and torch.equal(a[2], b[2]) for a, b in zip(first, second, strict=True))
    assert any(not torch.equal(a[1], b[1]) for a, b in zip(first, other, strict=True))


def test_no_trace_of_the_exporter_is_left(model: bytes) -> None:
    proto = onnx.load_from_string(model)
    onnx.checker.check_model(proto)
    assert b"site-packages" not in model
    assert str(ROOT).encode() not in model
    assert not any(node.doc_string or node.metadata_props for node in proto.graph.node)
    assert not proto.metadata_props
    assert "+" not in proto.producer_version
    assert proto.ir_version <= 13


def test_two_checkouts_give_the_same_bytes(tmp_path: Path) -> None:
    """The same modules from another folder, in another process with another hash seed."""
    program = "import sys; from tests.export.test_onnx import *; sys.stdout.buffer.write(exported(servable()))"
    copies = []
    for name, seed in (("here", "1"), ("elsewhere/deep", "2")):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        for package in ("components", "tests"):
            (folder / package).symlink_to(ROOT / package)
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(folder)}
        run = subprocess.run(
            [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, check=True
        )
        copies.append(run.stdout)
    assert copies[0] == copies[1]
    assert len(copies[0]) > 1000


def test_training_mode_and_unit_axes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"call eval\(\) before exporting"):
        exported(servable().train())
    with pytest.raises(ValueError, match="at least 2; got"):
        exported(servable(), batch=1)
