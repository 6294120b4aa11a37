"""The server as a process: what stops it from starting, how it ends, and the same model over gRPC."""

import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from small_bundle import EXAMPLE, LABELS, Served, build, command, free_ports

from components.files import sha256_path

pytestmark = pytest.mark.serving


def refused(arguments: list[str]) -> str:
    """Run a server that must not start; the one line that it says."""
    result = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1, result.stdout + result.stderr
    # ONNX Runtime writes to stderr on its own when it looks for CUDA; ours is the one line that begins with error.
    lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    return lines[0]


@pytest.mark.parametrize("name", ["model.onnx", "labels.json", "prototypes.json"])
def test_a_tampered_bundle_is_not_served(name: str, serving_python: Path, make_bundle: Callable[..., Path]) -> None:
    folder = make_bundle()
    content = bytearray((folder / name).read_bytes())
    content[-3] ^= 1
    (folder / name).write_bytes(bytes(content))
    assert name in refused(command(serving_python, folder, free_ports(3)))


def test_a_folder_that_is_no_bundle(serving_python: Path, tmp_path: Path) -> None:
    assert "manifest.json is missing" in refused(command(serving_python, tmp_path, free_ports(3)))
    assert "no bundle at" in refused(command(serving_python, tmp_path / "absent", free_ports(3)))


def test_a_model_that_does_not_fit_its_schema(serving_python: Path, make_bundle: Callable[..., Path]) -> None:
    folder = make_bundle(model=b"no model")
    assert "model.onnx cannot be read" in refused(command(serving_python, folder, free_ports(3)))


def test_a_provider_that_is_not_there_is_an_error_and_no_fallback(serving_python: Path, bundle: Path) -> None:
    probe = "import ctypes.util, sys; sys.exit(0 if ctypes.util.find_library('cuda') else 1)"
    if subprocess.run([str(serving_python), "-I", "-c", probe], check=False).returncode == 0:
        pytest.skip("this machine has a CUDA driver")
    line = refused(command(serving_python, bundle, free_ports(3), "--provider=cuda"))
    assert "CPUExecutionProvider came up" in line


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_port_that_is_taken(position: int, serving_python: Path, bundle: Path) -> None:
    ports = free_ports(3)
    with socket.create_server(("127.0.0.1", ports[position])):
        line = refused(command(serving_python, bundle, ports))
    assert f"127.0.0.1:{ports[position]}" in line
    assert f"--{('http', 'grpc', 'metrics')[position]}-port" in line
    twice = [ports[0], ports[0], ports[1]]
    assert "asked for twice" in refused(command(serving_python, bundle, twice))


def test_wrong_usage_is_another_code(serving_python: Path, bundle: Path) -> None:
    for arguments in ([str(bundle), "--http-port=99999"], [str(bundle), "--provider=tpu"], []):
        whole = [str(serving_python), "-I", "-m", "quintet_serving", *arguments]
        assert subprocess.run(whole, capture_output=True, check=False, timeout=60).returncode == 2


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_in_order_and_leaves_nothing(ending: signal.Signals, serving_python: Path, tmp_path: Path) -> None:
    folder, home = tmp_path / "bundle", tmp_path / "home"
    build(folder)
    home.mkdir()
    before = sha256_path(folder)
    # port 0 takes any free one; variables of MLServer must not change what was asked for.
    arguments = command(serving_python, folder, [0, 0, 0])
    environment = {"TMPDIR": str(home), "HOME": str(home), "MLSERVER_HOST": "0.0.0.0", "MLSERVER_PARALLEL_WORKERS": "3"}  # noqa: S104
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                               cwd=tmp_path)  # fmt: skip
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if "stop with ctrl-C" in line:
            break
    assert "http://127.0.0.1:" in seen
    assert "http://127.0.0.1:0/" not in seen
    begun = time.monotonic()
    process.send_signal(ending)
    rest = process.stdout.read()
    assert process.wait(timeout=20) == 0, rest
    assert time.monotonic() - begun < 15
    assert "Traceback" not in rest
    assert sha256_path(folder) == before
    # neither settings of the server nor the identifiers of anybody's telemetry.
    assert list(home.iterdir()) == []


GRPC_CLIENT = """
import json, sys
import numpy as np
import tritonclient.grpc as grpc
from tritonclient.utils import InferenceServerException

client = grpc.InferenceServerClient(f"127.0.0.1:{sys.argv[1]}")
example = np.array(json.loads(sys.argv[2]), dtype=np.float32).reshape(1, 1, 7)
answers = {}

def infer(array, datatype="FP32", name="tokens", model="orbital-kind", shape=None, version=""):
    entry = grpc.InferInput(name, list(array.shape), datatype)
    entry.set_data_from_numpy(array)
    if shape is not None:
        entry._input.shape[:] = shape
    return client.infer(model, [entry], model_version=version)

def reason(**changes):
    arguments = {"array": example} | changes
    try:
        infer(**arguments)
    except InferenceServerException as error:
        return [error.status(), error.message()]
    return ["OK", ""]

good = infer(example)
answers["logits"] = good.as_numpy("logits").ravel().tolist()
answers["label"] = good.as_numpy("label").ravel()[0].decode()
outside = example.copy()
outside[0, 0, 3] = 2
answers["bad"] = {
    "range": reason(array=outside),
    "nan": reason(array=example * np.float32("nan")),
    "width": reason(array=example[:, :, :6]),
    "datatype": reason(array=np.array([[[b"x"] * 7]], dtype=object), datatype="BYTES"),
    "name": reason(name="features"),
    "bytes": reason(shape=[2, 1, 7]),
    "negative": reason(shape=[-1, 1, 7]),
    "giant": reason(shape=[2**62, 1, 7]),
    "model": reason(model="other"),
    "version": reason(version="9"),
    "large": reason(array=np.ones((64, 512, 7), dtype=np.float32)),
}
try:
    client.unload_model("orbital-kind")
    answers["bad"]["unload"] = ["OK", ""]
except InferenceServerException as error:
    answers["bad"]["unload"] = [error.status(), error.message()]
answers["cast"] = infer(example.astype(np.float64), "FP64").as_numpy("logits").ravel().tolist()
print(json.dumps(answers))
"""


def test_the_same_answers_and_refusals_over_grpc(served: Served, serving_python: Path, bundle: Path) -> None:
    from quintet_serving.model import BundleModel
    from quintet_serving.validation import example_request

    result = subprocess.run(
        [str(serving_python), "-I", "-c", GRPC_CLIENT, str(served.grpc), json.dumps(EXAMPLE)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    got = json.loads(result.stdout)
    model = BundleModel.load(bundle)
    logits, label = model.answer(example_request(model.bundle.schema), ["logits", "label"])
    assert got["logits"] == got["cast"] == logits.data
    assert [got["label"]] == label.data
    assert got["label"] in LABELS
    expected = {
        "range": ("INVALID_ARGUMENT", "eccentricity is 2"),
        "nan": ("INVALID_ARGUMENT", "finite"),
        "width": ("INVALID_ARGUMENT", "must be 7"),
        "datatype": ("INVALID_ARGUMENT", "BYTES"),
        "name": ("INVALID_ARGUMENT", "features"),
        "bytes": ("INVALID_ARGUMENT", "raw_input_contents"),
        "negative": ("INVALID_ARGUMENT", "raw_input_contents"),
        "giant": ("INVALID_ARGUMENT", "raw_input_contents"),
        "model": ("NOT_FOUND", "orbital-kind"),
        "version": ("NOT_FOUND", "ab12cd34"),
        "large": ("RESOURCE_EXHAUSTED", "larger than max"),
        "unload": ("FAILED_PRECONDITION", "unloaded"),
    }
    for case, (status, words) in expected.items():
        assert got["bad"][case][0] == f"StatusCode.{status}", got["bad"][case]
        assert words in got["bad"][case][1]
