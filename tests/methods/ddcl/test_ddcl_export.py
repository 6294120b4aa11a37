"""The exported layer answers as the traced one does, at shapes and on inputs it was not traced with."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import components
from components.methods.ddcl import DDCLAttention, DDCLOutput, pool
from components.methods.ddcl.numerics import PRECISIONS

ROOT = Path(components.__file__).parents[1]
DIM, COUNT = 6, 5
SHAPES = [(1, 1), (1, 3), (2, 1), (3, 4), (5, 2), (7, 33), (32, 9)]


class Everything(nn.Module):
    """The layer with its readout, and all that both return."""

    def __init__(self, layer: DDCLAttention) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        output = self.layer(tokens, mask)
        return (*output, *pool(output.codes, output.assignments, mask))


def layer_for(precision: str) -> DDCLAttention:
    return DDCLAttention(DIM, COUNT, 0.3, precision=precision, generator=torch.Generator().manual_seed(1)).eval()


def batch_of(shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, DIM, generator=generator), torch.rand(shape, generator=generator) < 0.7


def dynamic_axes() -> dict[int, torch.export.Dim]:
    return {0: torch.export.Dim("batch", min=1, max=1024), 1: torch.export.Dim("tokens", min=1, max=64)}


@pytest.fixture(scope="module", params=sorted(PRECISIONS))
def exported(request, tmp_path_factory) -> tuple[Everything, onnxruntime.InferenceSession]:
    module = Everything(layer_for(request.param)).eval()
    program = torch.onnx.export(
        module,
        batch_of((2, 3)),
        dynamo=True,
        input_names=["tokens", "mask"],
        dynamic_shapes=(dynamic_axes(), dynamic_axes()),
        external_data=False,
        verbose=False,
    )
    path: Path = tmp_path_factory.mktemp("onnx") / "layer.onnx"
    program.save(path)
    return module, onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def assert_same_answers(exported, tokens: Tensor, mask: Tensor, tolerance: float = 1e-5) -> None:
    module, session = exported
    with torch.no_grad():
        wanted = module(tokens, mask)
    found = session.run(None, {"tokens": tokens.numpy(), "mask": mask.numpy()})
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == want.numpy().dtype
        np.testing.assert_allclose(got, want.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_other_shapes(exported, shape) -> None:
    assert_same_answers(exported, *batch_of(shape))


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_extreme_scales(exported, scale) -> None:
    if exported[0].layer.precision == "single" and scale > 1:
        pytest.skip("float32 distances of this size are off by more than the temperature: that is what double is for")
    tokens, mask = batch_of((4, 5))
    assert_same_answers(exported, tokens * scale, mask)


def test_masked_rows_and_garbage_in_the_padding(exported) -> None:
    tokens, mask = batch_of((4, 5))
    mask[1] = False
    tokens[~mask] = torch.nan
    assert_same_answers(exported, tokens, mask)
    found = exported[1].run(None, {"tokens": tokens.numpy(), "mask": mask.numpy()})
    assert not found[5][1].any()
    assert not found[6][1].any()


def test_nothing_valid(exported) -> None:
    tokens, mask = batch_of((2, 3))
    assert_same_answers(exported, tokens, torch.zeros_like(mask))


def test_ties(exported) -> None:
    """Tokens in the middle of two prototypes, and on one."""
    bank = exported[0].layer.prototypes.detach()
    tokens = torch.stack([(bank[0] + bank[1]) / 2, bank[2], bank.mean(dim=0)])[None]
    assert_same_answers(exported, tokens, torch.ones(1, 3, dtype=torch.bool))


def test_torch_export_without_a_mask() -> None:
    layer = layer_for("double")
    tokens, _ = batch_of((2, 3))
    program = torch.export.export(layer, (tokens,), dynamic_shapes=(dynamic_axes(),))
    for shape in SHAPES:
        tokens, _ = batch_of(shape)
        found, wanted = program.module()(tokens), layer(tokens)
        assert isinstance(found, DDCLOutput)
        for got, want in zip(found, wanted, strict=True):
            torch.testing.assert_close(got, want)


CAPTURED = """
import torch
from components.methods.ddcl import DDCLAttention

layer = DDCLAttention(6, 5, 0.3)
tokens, mask = torch.randn(4, 3, 6), torch.rand(4, 3) < 0.7
axes = {0: torch.export.Dim("batch", min=1, max=99), 1: torch.export.Dim("tokens", min=1, max=9)}
strict = torch.export.export(layer, (tokens, mask), dynamic_shapes=(axes, axes), strict=True).module()
whole = torch.compile(layer, backend="eager", fullgraph=True)
for rows in (4, 1, 2):
    wanted = layer(tokens[:rows], mask[:rows])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow = whole(tokens[:rows], mask[:rows])
    for found in (strict(tokens[:rows], mask[:rows]), whole(tokens[:rows], mask[:rows]), narrow):
        for got, want in zip(found, wanted, strict=True):
            torch.testing.assert_close(got, want)
print("agreed")
"""


def test_captured_as_one_graph() -> None:
    """In a process of its own: the tests' shape checks are not for Dynamo to trace."""
    done = subprocess.run([sys.executable, "-c", CAPTURED], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "agreed", done.stderr
