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
from components.training.core.tables import Table, load_table
from components.training.registry import method

ROOT = Path(__file__).parents[1]
BATCHES = (1, 32, 1024)
MEASURES = ("test accuracy", "largest difference, of what is allowed")


def contests() -> Iterator[Contest]:
    for name, experiment in load_config(ROOT / "params.yaml").experiments.items():
        tolerance = Tolerance(experiment.export.absolute_tolerance, experiment.export.relative_tolerance)
        yield from _contests_of(name, tolerance)


def _contests_of(name: str, tolerance: Tolerance) -> Iterator[Contest]:
    import onnxruntime

    training, path = ROOT / "outputs" / "train" / name, ROOT / "outputs" / "export" / name / "bundle" / "model.onnx"
    for needed in (training / "config.json", training / "model.safetensors", path):
        if not needed.is_file():
            raise DataError(f"{needed.relative_to(ROOT)} does not exist; run `quintet run` before the benchmarks")
    config = validated(TrainConfig, read_json(training / "config.json")["experiment"], "config.json")
    table = load_table(ROOT / "data" / "prepared" / config.dataset / "table.csv", config.task)
    servable = method(config.method).servable(config, training / "model.safetensors")
    content = path.read_bytes()
    cases = compare(content, servable.module, table.test.rows, servable.outputs, tolerance, config.seed)
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

    every = torch.ones(len(table.test), 1, dtype=torch.bool)
    accuracy = {
        "served": _accuracy(served(table.test.tokens.numpy(), every.numpy()), table),
        "trained": _accuracy(trained(table.test.tokens, every).numpy(), table),
    }
    failed = [case for case in cases if not case.passed]
    runtime = "onnxruntime-gpu" if installed("onnxruntime-gpu") else "onnxruntime"
    for batch in BATCHES:
        rows = torch.arange(batch) % len(table.test)
        tokens, mask = table.test.tokens[rows].contiguous(), every[rows].contiguous()
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


def _accuracy(logits: np.ndarray, table: Table) -> float:
    return float((logits.argmax(axis=-1) == table.test.labels.numpy()).mean())


def _fault(failed: list[ParityCase], asked: int) -> str:
    if not failed:
        return ""
    first = failed[0]
    why = first.fault or f"{first.worst:.3g} of what is allowed, {first.decisions} other decisions"
    return f"{len(failed)} of {asked} parity cases fail, first {first.name!r}: {why}"
