"""A small checkout for the tests: outputs of every stage with real records, a real ONNX model and a real bundle."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import onnx
import yaml
from onnx import TensorProto, helper

from components.export.bundle import write_bundle
from components.files import replacing_folder, sha256_file, write_json, write_text
from components.tracking import BUNDLE_TAG, bundle_digest, new_record, write_history, write_record

EXPERIMENT = "orbital-kind"
METHOD = "ddcl-readout"
EPOCHS = 5


def digest(seed: str) -> str:
    return hashlib.sha256(seed.encode()).hexdigest()


def identity(seed: str = "a", experiment: str = EXPERIMENT) -> dict[str, str]:
    return {
        "experiment": experiment,
        "method": METHOD,
        "dataset": "orbital-sample",
        "scale": "tiny",
        "digest": digest(seed),
    }


def history(epochs: int = EPOCHS) -> list[tuple[int, dict[str, float]]]:
    return [(step, {"validation/loss": 1.0 / step, "train/loss": 2.0 / step}) for step in range(1, epochs + 1)]


def network(scale: float = 2.0) -> bytes:
    """logits = scale * mean over tokens of the first three features; the mask is taken and not used."""
    nodes = [
        helper.make_node("ReduceMean", ["tokens", "axes"], ["pooled"], keepdims=0),
        helper.make_node("Slice", ["pooled", "zero", "three", "one"], ["first"]),
        helper.make_node("Mul", ["first", "scale"], ["logits"]),
    ]
    constants = [
        helper.make_tensor("axes", TensorProto.INT64, [1], [1]),
        helper.make_tensor("zero", TensorProto.INT64, [1], [0]),
        helper.make_tensor("three", TensorProto.INT64, [1], [3]),
        helper.make_tensor("one", TensorProto.INT64, [1], [1]),
        helper.make_tensor("scale", TensorProto.FLOAT, [1], [scale]),
    ]
    graph = helper.make_graph(
        nodes,
        "mean",
        [
            helper.make_tensor_value_info("tokens", TensorProto.FLOAT, ["batch", "tokens", 7]),
            helper.make_tensor_value_info("mask", TensorProto.BOOL, ["batch", "tokens"]),
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 3])],
        initializer=constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 10
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


def schema() -> dict[str, Any]:
    return {
        "inputs": [
            {"name": "tokens", "datatype": "FP32", "shape": [-1, -1, 7]},
            {"name": "mask", "datatype": "BOOL", "shape": [-1, -1]},
        ],
        "outputs": [{"name": "logits", "datatype": "FP32", "shape": [-1, 3]}],
        "limits": {"max_batch": 16, "max_tokens": 8, "max_request_bytes": 65536},
    }


def output(root: Path, stage: str, experiment: str = EXPERIMENT) -> Path:
    return root / "outputs" / stage / experiment


def write_train(root: Path, seed: str = "a", experiment: str = EXPERIMENT, **changes: Any) -> None:
    with replacing_folder(output(root, "train", experiment)) as folder:
        write_json(folder / "config.json", {"model": {"num_prototypes": 8}, "seed": 7, "name": seed})
        fields: dict[str, Any] = {
            **identity(seed, experiment),
            "stage": "train",
            "parameters": {"model.num_prototypes": 8, "seed": 7, "training.lr": 0.01, "model.centre": True},
            "tags": {"initialisation": "k-means++"},
            "metrics": {**history()[-1][1], "train/rows": 120.0},
            "history": write_history(folder, history()),
            "artifacts": ["config.json"],
            "datasets": [{"name": "orbital-sample", "digest": digest("table"), "context": "train"}],
        }
        write_record(folder, new_record(**{**fields, **changes}))
        write_json(folder / "manifest.json", {"stage": "train", "seed": seed})


def write_evaluate(root: Path, seed: str = "a", accuracy: float = 0.91, experiment: str = EXPERIMENT) -> None:
    with replacing_folder(output(root, "evaluate", experiment)) as folder:
        write_text(folder / "plots" / "confusion.txt", f"accuracy {accuracy}\n")
        record = new_record(
            **identity(seed, experiment),
            stage="evaluate",
            parameters={"evaluate.bins": 10},
            metrics={"test/accuracy": accuracy, "test/macro_f1": 0.8},
            artifacts=["plots"],
        )
        write_record(folder, record)


def write_export(root: Path, seed: str = "a", scale: float = 2.0, experiment: str = EXPERIMENT) -> None:
    with replacing_folder(output(root, "export", experiment)) as folder:
        write_bundle(
            folder / "bundle",
            name=experiment,
            model=network(scale),
            schema=schema(),
            labels=["PAYLOAD", "ROCKET BODY", "DEBRIS"],
            prototypes=[],
            preprocessing={},
            model_card="# card\n",
            lineage={"run": digest(seed)},
        )
        write_record(folder, new_record(**identity(seed, experiment), stage="export", artifacts=["bundle"]))


def write_gate(root: Path, seed: str = "a", verdict: str = "passed", experiment: str = EXPERIMENT) -> None:
    bundle = output(root, "export", experiment) / "bundle"
    with replacing_folder(output(root, "gate_export", experiment)) as folder:
        write_json(folder / "report.json", {"verdict": verdict, "checks": []})
        record = new_record(
            **identity(seed, experiment),
            stage="gate_export",
            tags={BUNDLE_TAG: bundle_digest(bundle)},
            metrics={"parity/cases": 12.0},
            artifacts=["report.json"],
        )
        write_record(folder, record)


def write_experiment(root: Path, seed: str = "a", experiment: str = EXPERIMENT, scale: float = 2.0) -> None:
    write_train(root, seed, experiment)
    write_evaluate(root, seed, experiment=experiment)
    write_export(root, seed, scale, experiment)
    write_gate(root, seed, experiment=experiment)


def write_stage_info(root: Path, commit: str, experiment: str = EXPERIMENT, **changes: Any) -> None:
    facts = {
        "address": f"train@{experiment}",
        "state": "succeeded",
        "started": datetime(2026, 3, 1, tzinfo=UTC).isoformat(),
        "seconds": 12.5,
        "pid": 1,
        "git_commit": commit,
        "device": "cpu",
        "digest": sha256_file(output(root, "train", experiment) / "manifest.json"),
        "error": None,
    }
    write_json(root / "run_info" / "stages" / f"train@{experiment}.json", {**facts, **changes})


def write_lock(root: Path, hashes: dict[str, str], experiment: str = EXPERIMENT) -> None:
    stages = {
        f"train@{experiment}": {
            "cmd": "quintet stage",
            "deps": [{"path": path, "hash": "md5", "md5": value, "size": 3} for path, value in hashes.items()],
            "outs": [{"path": f"outputs/train/{experiment}", "hash": "md5", "md5": "f" * 32 + ".dir", "size": 3}],
        },
        "prepare@orbital-sample": {
            "cmd": "quintet stage",
            "outs": [{"path": "data/prepared/orbital-sample", "hash": "md5", "md5": "e" * 32 + ".dir"}],
        },
    }
    write_text(root / "dvc.lock", yaml.safe_dump({"schema": "2.0", "stages": stages}))


def dump(root: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table of the store."""
    with closing(sqlite3.connect(root / "mlflow" / "mlflow.db")) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: sorted(connection.execute(f'SELECT * FROM "{name}"'), key=repr) for name in sorted(names)}  # noqa: S608


def folder_content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
