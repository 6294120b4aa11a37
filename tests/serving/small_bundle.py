"""A small real bundle, requests for it, and the command that serves it."""

import json
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from components.export.bundle import BundleManifest, write_bundle

COLUMNS: tuple[tuple[str, str, float | None, float | None], ...] = (
    ("inclination_deg", "deg", 0.0, 180.0),
    ("perigee_km", "km", 80.0, 500000.0),
    ("apogee_km", "km", 80.0, 500000.0),
    ("eccentricity", "1", 0.0, 0.9999999),
    ("period_min", "min", 80.0, None),
    ("mean_motion_rev_day", "rev/day", 0.0, 18.0),
    ("semi_major_axis_km", "km", 6378.0, 500000.0),
)
LABELS = ["PAYLOAD", "ROCKET BODY", "DEBRIS"]
EXAMPLE = [51.64, 413.0, 422.0, 0.00066, 92.7, 15.53, 6795.6]
PROTOTYPES = 4


def schema() -> dict[str, Any]:
    fields = [
        {"name": name, "unit": unit} | {key: bound for key, bound in (("minimum", low), ("maximum", high))
                                        if bound is not None}
        for name, unit, low, high in COLUMNS
    ]  # fmt: skip
    return {
        "inputs": [
            {"name": "tokens", "datatype": "FP32", "shape": [-1, -1, 7], "fields": fields, "example": EXAMPLE},
            {"name": "mask", "datatype": "BOOL", "shape": [-1, -1], "optional": True},
        ],
        "outputs": [
            {"name": "logits", "datatype": "FP32", "shape": [-1, 3]},
            {"name": "probabilities", "datatype": "FP32", "shape": [-1, 3]},
            {"name": "assignments", "datatype": "FP32", "shape": [-1, PROTOTYPES]},
        ],
        "limits": {"max_batch": 64, "max_tokens": 8, "max_request_bytes": 65536},
    }


def onnx_model(overflow: bool = False) -> bytes:
    """Scaling, masked mean, two linear maps. With `overflow` the logits are infinite for long periods only."""
    generator = np.random.default_rng(7)
    constants = {
        "center": np.array([60, 3000, 5000, 0.1, 200, 12, 10000], dtype=np.float32),
        "scale": np.array([30, 6000, 9000, 0.2, 300, 5, 9000], dtype=np.float32),
        "last": np.array([2], dtype=np.int64),
        "first": np.array([1], dtype=np.int64),
        "zero": np.array(0, dtype=np.float32),
        "one": np.array(1, dtype=np.float32),
        "weights": generator.normal(size=(7, 3)).astype(np.float32),
        "bias": np.array([0.3, -0.2, 0.1], dtype=np.float32),
        "centroids": generator.normal(size=(7, PROTOTYPES)).astype(np.float32),
        "gain": np.array(3e38 if overflow else 1, dtype=np.float32),
    }
    node = helper.make_node
    nodes = [
        node("Sub", ["tokens", "center"], ["moved"]),
        node("Div", ["moved", "scale"], ["scaled"]),
        node("Unsqueeze", ["mask", "last"], ["wide"]),
        node("Where", ["wide", "scaled", "zero"], ["valid"]),
        node("ReduceSum", ["valid", "first"], ["sum"], keepdims=0),
        node("Cast", ["mask"], ["counted"], to=TensorProto.FLOAT),
        node("ReduceSum", ["counted", "first"], ["count"], keepdims=1),
        node("Max", ["count", "one"], ["divisor"]),
        node("Div", ["sum", "divisor"], ["mean"]),
        node("MatMul", ["mean", "weights"], ["product"]),
        node("Add", ["product", "bias"], ["small"]),
        node("Mul", ["small", "gain"], ["logits"]),
        node("Softmax", ["logits"], ["probabilities"], axis=-1),
        node("MatMul", ["mean", "centroids"], ["affinity"]),
        node("Softmax", ["affinity"], ["assignments"], axis=-1),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "small",
        [
            value("tokens", TensorProto.FLOAT, ["batch", "tokens", 7]),
            value("mask", TensorProto.BOOL, ["batch", "tokens"]),
        ],
        [
            value("logits", TensorProto.FLOAT, ["batch", 3]),
            value("probabilities", TensorProto.FLOAT, ["batch", 3]),
            value("assignments", TensorProto.FLOAT, ["batch", PROTOTYPES]),
        ],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 10
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def build(folder: Path, **changes: Any) -> BundleManifest:
    arguments: dict[str, Any] = {
        "name": "orbital-kind",
        "model": onnx_model(),
        "schema": schema(),
        "labels": LABELS,
        "prototypes": [{"index": index} for index in range(PROTOTYPES)],
        "preprocessing": {"inside_graph": True},
        "model_card": "# A small model for tests\n",
        "lineage": {"digest": "ab12cd34" * 8, "data": {"orbital-sample": "0" * 64}, "code": None},
    }
    return write_bundle(folder, **(arguments | changes))


@dataclass(frozen=True)
class Served:
    process: subprocess.Popen[str]
    http: int
    grpc: int
    metrics: int
    announcement: str


def free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def command(python: Path, folder: Path, ports: list[int], *more: str) -> list[str]:
    options = [f"--{name}-port={port}" for name, port in zip(("http", "grpc", "metrics"), ports, strict=True)]
    return [str(python), "-I", "-m", "quintet_serving", str(folder), *options, *more]


def rows(count: int, tokens: int = 1, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Plausible tokens (count, tokens, 7), inside every column's range."""
    generator = np.random.default_rng(seed)
    low = np.array([0, 100, 100, 0, 85, 0.5, 6500])
    high = np.array([180, 40000, 40000, 0.9, 1500, 17, 45000])
    return generator.uniform(low, high, size=(count, tokens, 7)).astype(np.float32)


def body(tokens: Any, **more: Any) -> dict[str, Any]:
    array = np.asarray(tokens, dtype=np.float32)
    entry = {"name": "tokens", "shape": list(array.shape), "datatype": "FP32", "data": array.ravel().tolist()}
    return {"inputs": [entry]} | more


def strict_json(text: bytes) -> Any:
    """JSON as the standard has it: NaN and infinity are no words of it."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)
