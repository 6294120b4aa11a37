"""The deployed model in ONNX Runtime beside the trained one in PyTorch, on the same rows, one thread each."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.contest import Contest, Contestant
from benchmarks.machine import installed
from components.config import TrainConfig, load_config, validated
from components.errors import DataError
from components.export.parity import ParityCase, Tolerance, compare
from components.files import read_json
from components.stages.export import real_tokens
from components.stages.gate_export import PARITY_TOKENS
from components.training.data.batches import TokenBatch
from components.training.data.forms import read_data
from components.training.registry import classifier

ROOT = Path(__file__).parents[1]
BATCHES = (1, 32, 1024)
MEASURES = ("test accuracy", "largest difference, of what is allowed")


def contests() -> Iterator[Contest]:
    for name, export in load_config(ROOT / "params.yaml").exports.items():
        tolerance = Tolerance(export.absolute_tolerance, export.relative_tolerance)
        yield from _contests_of(name, tolerance)


def _contests_of(name: str, tolerance: Tolerance) -> Iterator[Contest]:
    import onnxruntime

    training, path = ROOT / "outputs" / "train" / name, ROOT / "outputs" / "export" / name / "bundle" / "model.onnx"
    for needed in (training / "config.json", training / "model.safetensors", path):
        if not needed.is_file():
            raise DataError(f"{needed.relative_to(ROOT)} does not exist; run `quintet run` before the benchmarks")
    config = validated(TrainConfig, read_json(training / "config.json")["experiment"], "config.json")
    data = read_data(config, ROOT / "data" / config.reads.folder)
    test = data.test.__getitems__(list(range(len(data.test))))
    servable = classifier(config.method).servable(config, training / "model.safetensors")
    content = path.read_bytes()
    cases = compare(
        content, servable.module, real_tokens(data.test, PARITY_TOKENS), servable.outputs, tolerance, config.seed
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def served(tokens: np.ndarray, mask: np.ndarray) -> np.ndarray:
        logits: np.ndarray = session.run(None, {"tokens": tokens, "mask": mask})[0]
        return logits

    @torch.inference_mode()
    def trained(tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = servable.module(tokens, mask)[0]
        return logits

    accuracy = {
        "served": _accuracy(served(test.tokens.numpy(), test.mask.numpy()), test),
        "trained": _accuracy(trained(test.tokens, test.mask).numpy(), test),
    }
    failed = [case for case in cases if not case.passed]
    runtime = "onnxruntime-gpu" if installed("onnxruntime-gpu") else "onnxruntime"
    for batch in BATCHES:
        rows = torch.arange(batch) % len(data.test)
        tokens, mask = test.tokens[rows].contiguous(), test.mask[rows].contiguous()
        arrays = tokens.numpy(), mask.numpy()
        yield Contest(
            f"{name}, batch {batch}",
            MEASURES,
            (
                Contestant(
                    f"ONNX Runtime ({runtime} {installed(runtime)})",
                    partial(served, *arrays),
                    {MEASURES[0]: f"{accuracy['served']:.4f}", MEASURES[1]: f"{max(case.worst for case in cases):.2g}"},
                    _fault(failed, len(cases)),
                ),
                Contestant(
                    f"PyTorch eager (torch {installed('torch')})",
                    partial(trained, tokens, mask),
                    {MEASURES[0]: f"{accuracy['trained']:.4f}"},
                ),
            ),
        )


def _accuracy(logits: np.ndarray, rows: TokenBatch) -> float:
    return float((logits.argmax(axis=-1) == rows.labels.numpy()).mean())


def _fault(failed: list[ParityCase], asked: int) -> str:
    if not failed:
        return ""
    first = failed[0]
    why = first.fault or f"{first.worst:.3g} of what is allowed, {first.decisions} other decisions"
    return f"{len(failed)} of {asked} parity cases fail, first {first.name!r}: {why}"
