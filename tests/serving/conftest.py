"""One small bundle and one real server for the whole session."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_bundle import Served, build, command, free_ports

from pipelines.serving import ensure_serving_environment

ROOT = Path(__file__).resolve().parents[2]
# the serving package has an environment of its own; what needs no MLServer is tested in this one as well.
sys.path.insert(0, str(ROOT / "deploy" / "serving"))
# ONNX Runtime reads it when it is imported.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles") / "orbital-kind"
    build(folder)
    return folder


@pytest.fixture
def make_bundle(tmp_path: Path) -> Callable[..., Path]:
    def make(**changes: Any) -> Path:
        build(tmp_path / "bundle", **changes)
        return tmp_path / "bundle"

    return make


@pytest.fixture(scope="session")
def serving_python() -> Path:
    return ensure_serving_environment(ROOT)


@pytest.fixture(scope="session")
def served(serving_python: Path, bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    ports = free_ports(3)
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with log.open("w") as output:
        process = subprocess.Popen(
            command(serving_python, bundle, ports), stdout=output, stderr=subprocess.STDOUT, text=True, cwd=log.parent
        )
        try:
            deadline = time.monotonic() + 60
            while "stop with ctrl-C" not in log.read_text():
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"the server did not start:\n{log.read_text()}")
                time.sleep(0.05)
            http, grpc, metrics = ports
            yield Served(process, http, grpc, metrics, log.read_text())
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(timeout=20)
