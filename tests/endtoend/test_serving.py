"""From the registry over the serving environment to an answer, and the end by a signal."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.endtoend.served import equipped, serving
from tests.endtoend.undisturbed import First

pytestmark = [pytest.mark.endtoend, pytest.mark.serving]


def ask(url: str, body: Any) -> tuple[int, dict[str, Any]]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, content, {"Content-Type": "application/json"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_a_model_is_served_as_it_was_registered(by_flow: First) -> None:
    with equipped(by_flow.copy) as copy, serving(copy, "orbital-kind") as server:
        assert f"127.0.0.1:{server.port}/" in server.url
        status, answer = ask(server.url, server.body)
        assert status == 200, answer
        assert_equal_to_onnxruntime(copy.root / "outputs" / "export" / "orbital-kind" / "bundle", server.body, answer)
        wrong = json.loads(json.dumps(server.body))
        wrong["inputs"][0]["data"][0] = 1e9
        for bad, reason in ((wrong, "inclination_deg"), ({"inputs": []}, "tokens"), (b"{", "JSON")):
            status, refused = ask(server.url, bad)
            assert 400 <= status < 500
            assert reason in refused["error"]
        # it has survived them
        assert ask(server.url, server.body)[0] == 200
    assert server.process.returncode is not None
    assert "Traceback" not in copy.said


def assert_equal_to_onnxruntime(bundle: Path, body: dict[str, Any], answer: dict[str, Any]) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(bundle / "model.onnx", providers=["CPUExecutionProvider"])
    given = {
        entry["name"]: np.array(entry["data"], dtype=np.float32).reshape(entry["shape"]) for entry in body["inputs"]
    }
    given.setdefault("mask", np.ones(given["tokens"].shape[:2], dtype=bool))
    names = [output.name for output in session.get_outputs()]
    expected = dict(zip(names, session.run(names, given), strict=True))
    returned = {entry["name"]: np.array(entry["data"]).reshape(entry["shape"]) for entry in answer["outputs"]}
    assert set(returned) >= set(names)
    for name in names:
        np.testing.assert_allclose(returned[name], expected[name], rtol=1e-5, atol=1e-6)
