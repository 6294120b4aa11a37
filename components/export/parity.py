"""Does the exported model answer as the trained one? Asked at many shapes and of awkward inputs, not of one example."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

Arrays = dict[str, np.ndarray]

BATCHES = (1, 2, 3, 5, 32)
TOKENS = (1, 2, 7)
SCALES = (1e-3, 1e3)


@dataclass(frozen=True)
class Tolerance:
    """|served - trained| <= absolute + relative * |trained|, element by element."""

    absolute: float
    relative: float


@dataclass(frozen=True)
class ParityCase:
    """One comparison. `worst` is the largest difference in units of what is allowed: at most 1 passes.

    `decisions` counts rows whose most probable class differs although the trained model's margin exceeds the tolerance.
    """

    name: str
    compared: int
    worst: float
    decisions: int
    fault: str = ""

    @property
    def passed(self) -> bool:
        return not self.fault and self.compared > 0 and self.worst <= 1.0 and self.decisions == 0


def parity_inputs(rows: Tensor, seed: int) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Named (tokens (B, T, F), mask (B, T)) made of real rows (N, F): shapes, scales, masks, ties, padding alone."""
    generator = torch.Generator().manual_seed(seed)

    def draw(batch: int, tokens: int) -> Tensor:
        chosen = torch.randint(len(rows), (batch * tokens,), generator=generator)
        return rows[chosen].reshape(batch, tokens, -1)

    for batch in BATCHES:
        for tokens in TOKENS:
            yield f"batch {batch}, tokens {tokens}", draw(batch, tokens), torch.ones(batch, tokens, dtype=torch.bool)
    for scale in SCALES:
        yield f"inputs times {scale:g}", draw(5, 2) * scale, torch.ones(5, 2, dtype=torch.bool)
    masked = torch.rand(5, 7, generator=generator) < 0.5
    yield "random mask", draw(5, 7), masked
    nothing = masked.clone()
    nothing[0] = False
    yield "one sequence wholly masked", draw(5, 7), nothing
    yield "all sequences wholly masked", draw(3, 2), torch.zeros(3, 2, dtype=torch.bool)
    padded = draw(3, 2)
    padded[:, 1] = torch.finfo(torch.float32).max
    yield "huge values in the padding", padded, torch.tensor([[True, False]] * 3)
    yield "ties: one token repeated", draw(1, 1).expand(5, 7, -1).contiguous(), torch.ones(5, 7, dtype=torch.bool)
    yield "ties: equal inputs", torch.zeros(3, 2, rows.shape[1]), torch.ones(3, 2, dtype=torch.bool)


def compare(
    model: bytes, module: nn.Module, rows: Tensor, output_names: Sequence[str], tolerance: Tolerance, seed: int
) -> list[ParityCase]:
    """All cases of `parity_inputs`, answered by `module` and by ONNX Runtime from a fresh, otherwise empty folder."""
    # ONNX Runtime reports to its makers unless told before it is imported
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    module.eval()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        if names != list(output_names):
            return [ParityCase("output names", 0, 0.0, 0, f"the file answers {names}, not {list(output_names)}")]
        cases = []
        for name, tokens, mask in parity_inputs(rows, seed):
            with torch.no_grad():
                expected = dict(zip(names, (value.numpy() for value in module(tokens, mask)), strict=True))
            served = dict(zip(names, session.run(None, {"tokens": tokens.numpy(), "mask": mask.numpy()}), strict=True))
            cases.append(judge(name, expected, served, tolerance))
        return cases


def judge(
    name: str, expected: Mapping[str, np.ndarray], served: Mapping[str, np.ndarray], tolerance: Tolerance
) -> ParityCase:
    """Compare the outputs of one case. A shape or type that differs, or a number that is not finite, is a fault."""
    worst, compared = 0.0, 0
    for output, truth in expected.items():
        answer = served[output]
        if answer.shape != truth.shape or answer.dtype != truth.dtype:
            fault = f"{output} is {answer.dtype}{answer.shape}, trained {truth.dtype}{truth.shape}"
            return ParityCase(name, 0, 0.0, 0, fault)
        if not (np.isfinite(truth).all() and np.isfinite(answer).all()):
            return ParityCase(name, 0, 0.0, 0, f"{output} is not finite")
        allowed = tolerance.absolute + tolerance.relative * np.abs(truth)
        worst = max(worst, float((np.abs(answer - truth) / allowed).max(initial=0.0)))
        compared += truth.size
    return ParityCase(name, compared, worst, _differing_decisions(expected["logits"], served["logits"], tolerance))


def _differing_decisions(expected: np.ndarray, served: np.ndarray, tolerance: Tolerance) -> int:
    ranked = np.sort(expected, axis=-1)
    margin = ranked[:, -1] - ranked[:, -2]
    decided = margin > 2 * (tolerance.absolute + tolerance.relative * np.abs(ranked[:, -1]))
    return int((decided & (expected.argmax(axis=-1) != served.argmax(axis=-1))).sum())
