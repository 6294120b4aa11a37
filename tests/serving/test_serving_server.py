"""The real server over HTTP: right answers, and a reason for every bad request."""

import gzip
import http.client
import json
import math
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_bundle import EXAMPLE, LABELS, Served, body, rows, strict_json

pytestmark = pytest.mark.serving

INFER = "/v2/models/orbital-kind/infer"
JSON = {"Content-Type": "application/json"}


class Client:
    """One connection per request, so that no request depends on the fate of the one before."""

    def __init__(self, port: int):
        self._port = port

    def send(
        self, method: str, path: str, content: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request(
                method, path, content, headers or {}, encode_chunked="Transfer-Encoding" in (headers or {})
            )
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def infer(self, value: Any, **headers: str) -> tuple[int, Any]:
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        status, answer = self.send("POST", INFER, content, JSON | headers)
        return status, strict_json(answer)


@pytest.fixture(scope="session")
def client(served: Served) -> Client:
    return Client(served.http)


@pytest.fixture(scope="session")
def session(bundle: Path) -> Any:
    return onnxruntime.InferenceSession(bundle / "model.onnx", providers=["CPUExecutionProvider"])


def outputs(answer: dict[str, Any]) -> dict[str, Any]:
    return {output["name"]: np.array(output["data"]).reshape(output["shape"]) for output in answer["outputs"]}


@pytest.mark.parametrize(("count", "tokens"), [(1, 1), (2, 3), (5, 8), (64, 2), (64, 8)])
def test_answers_equal_those_in_process(count: int, tokens: int, client: Client, session: Any) -> None:
    array = rows(count, tokens, seed=count)
    status, answer = client.infer(body(array, id="mine"))
    assert status == 200
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("orbital-kind", "ab12cd34", "mine")
    expected = session.run(None, {"tokens": array, "mask": np.ones((count, tokens), dtype=bool)})
    got = outputs(answer)
    for name, values in zip(("logits", "probabilities", "assignments"), expected, strict=True):
        np.testing.assert_array_equal(got[name].astype(np.float32), values)
    assert got["label"].tolist() == [LABELS[index] for index in expected[0].argmax(axis=1)]


def test_the_mask_counts_and_an_empty_row_is_answered_from_zeros(client: Client, session: Any) -> None:
    array = rows(3, 2)
    valid = np.array([[True, True], [True, False], [False, False]])
    request = body(array)
    request["inputs"].append({"name": "mask", "shape": [3, 2], "datatype": "BOOL", "data": valid.ravel().tolist()})
    status, answer = client.infer(request)
    assert status == 200
    logits = outputs(answer)["logits"].astype(np.float32)
    np.testing.assert_array_equal(logits, session.run(["logits"], {"tokens": array, "mask": valid})[0])
    alone = client.infer(body(array[1:2, :1]))[1]
    np.testing.assert_allclose(logits[1], outputs(alone)["logits"][0], rtol=1e-6)
    np.testing.assert_allclose(logits[2], [0.3, -0.2, 0.1], rtol=1e-6)


@pytest.mark.parametrize("datatype", ["FP64", "INT32", "UINT16"])
def test_other_numbers_are_cast(datatype: str, client: Client) -> None:
    values = [51, 413, 422, 0, 92, 15, 6795]
    plain = client.infer(body(np.reshape(values, (1, 1, 7))))[1]
    entry = {"name": "tokens", "shape": [1, 1, 7], "datatype": datatype, "data": values}
    cast = client.infer({"inputs": [entry]})[1]
    assert cast["outputs"] == plain["outputs"]


def test_a_client_may_choose_outputs(client: Client) -> None:
    status, answer = client.infer(body([[EXAMPLE]], outputs=[{"name": "label"}, {"name": "logits"}]))
    assert status == 200
    assert [output["name"] for output in answer["outputs"]] == ["label", "logits"]


@pytest.mark.parametrize("identity", ["żółw", "a\r\nSet-Cookie: b", "\u0000", "x" * 5000])
def test_any_text_may_be_an_id(identity: str, client: Client) -> None:
    status, answer = client.infer(body([[EXAMPLE]], id=identity))
    assert status == 200
    assert answer["id"] == identity


def entry(**changes: Any) -> dict[str, Any]:
    return {"inputs": [body([[EXAMPLE]])["inputs"][0] | changes]}


def values(column: int, value: Any) -> dict[str, Any]:
    data: list[Any] = list(EXAMPLE)
    data[column] = value
    return entry(data=data)


BAD: dict[str, tuple[Any, set[int], list[str]]] = {
    "no JSON": (b'{"inputs": [', {400}, ["not JSON"]),
    "no text": (b"\xff\xfe\x00", {400, 422}, []),
    "empty body": (b"", {400, 422}, ["body"]),
    "null": (b"null", {422}, ["body"]),
    "a list": (b"[]", {422}, ["body"]),
    "a number": (b"7", {422}, []),
    "the word NaN": (json.dumps(values(3, math.nan)).encode(), {400}, ["not JSON"]),
    "the word Infinity": (json.dumps(values(3, math.inf)).encode(), {400}, ["not JSON"]),
    "a number beyond all floats": (
        json.dumps(entry(data=EXAMPLE)).replace("51.64", "1e999").encode(),
        {400},
        ["not JSON"],
    ),
    "half a surrogate": (b'{"id": "\\ud800", "inputs": []}', {400}, ["not JSON"]),
    "nested without end": (b'{"inputs": ' + b"[" * 20000, {400}, ["not JSON"]),
    "nested deep": (b'{"inputs": [' + b"[" * 500 + b"]" * 500 + b"]}", {422}, ["inputs"]),
    "no inputs": ({}, {422}, ["inputs"]),
    "empty inputs": ({"inputs": []}, {400}, ["tokens is missing"]),
    "inputs is an object": ({"inputs": {"tokens": EXAMPLE}}, {422}, ["inputs"]),
    "no shape": ({"inputs": [{"name": "tokens", "datatype": "FP32", "data": EXAMPLE}]}, {422}, ["shape"]),
    "no data": ({"inputs": [{"name": "tokens", "datatype": "FP32", "shape": [1, 1, 7]}]}, {422}, ["data"]),
    "unknown input": (entry(name="features"), {400}, ["features", "tokens"]),
    "twice": ({"inputs": entry()["inputs"] * 2}, {400}, ["2 times"]),
    "invented datatype": (entry(datatype="FP31"), {422}, ["datatype"]),
    "text datatype": (entry(datatype="BYTES"), {400}, ["BYTES"]),
    "boolean datatype": (entry(datatype="BOOL", data=[True] * 7), {400}, ["BOOL"]),
    "two axes": (entry(shape=[1, 7]), {400}, ["2 axes"]),
    "wrong width": (entry(shape=[1, 1, 6], data=EXAMPLE[:6]), {400}, ["must be 7"]),
    "negative shape": (entry(shape=[-1, 1, 7]), {400}, ["at least 1"]),
    "all negative": (entry(shape=[-1, -1, -7]), {400}, ["at least 1"]),
    "giant shape": (entry(shape=[2**62, 2**62, 7]), {400}, ["at most 64 rows"]),
    "shape beyond integers": (json.dumps(entry()).replace("[1, 1, 7]", "[1e30, 1, 7]").encode(), {400, 422}, ["shape"]),
    "fraction in the shape": (entry(shape=[1.5, 1, 7]), {422}, ["shape"]),
    "shape is a text": (entry(shape="1,1,7"), {422}, ["shape"]),
    "no rows": (entry(shape=[0, 1, 7], data=[]), {400}, ["at least 1"]),
    "too many rows": (body(rows(65)), {400}, ["64 rows"]),
    "too many tokens": (body(rows(1, 9)), {400}, ["8 tokens"]),
    "too few numbers": (entry(data=EXAMPLE[:6]), {400}, ["6 numbers", "needs 7"]),
    "data is a text": (entry(data="51.64"), {400}, ["a text"]),
    "data is null": (entry(data=None), {400, 422}, []),
    "data is an object": (entry(data={"a": 1}), {400}, ["an object"]),
    "ragged": (entry(data=[[EXAMPLE[:3]]]), {400}, ["nested otherwise"]),
    "nested too deep": (entry(data=[[[EXAMPLE]]]), {400}, ["nested otherwise"]),
    "a list among numbers": (values(2, [1]), {400}, ["apogee_km", "a list"]),
    "a text among numbers": (values(2, "422"), {400}, ["apogee_km", "a text"]),
    "a boolean among numbers": (values(3, False), {400}, ["eccentricity", "a boolean"]),
    "null among numbers": (values(0, None), {400}, ["inclination_deg", "null"]),
    "beyond float32": (values(4, 1e39), {400}, ["period_min", "finite"]),
    "out of range": (values(3, 1.5), {400}, ["row 0, token 0, eccentricity is 1.5", "0 to 0.9999999;"]),
    "mask of another shape": (
        {"inputs": [*entry()["inputs"], {"name": "mask", "datatype": "BOOL", "shape": [1, 2], "data": [True, True]}]},
        {400},
        ["differ in length"],
    ),
    "unknown output": (entry() | {"outputs": [{"name": "loss"}]}, {400}, ["loss", "label"]),
    "output twice": (entry() | {"outputs": [{"name": "label"}] * 2}, {400}, ["twice"]),
    "outputs is a text": (entry() | {"outputs": "label"}, {422}, ["outputs"]),
    "id is a number": (entry() | {"id": 7}, {422}, ["id"]),
    "parameters is a list": (entry() | {"parameters": [1]}, {422}, ["parameters"]),
    "headers is a text": (entry() | {"parameters": {"headers": "x"}}, {422}, ["headers"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_a_reason_and_the_server_goes_on(case: str, client: Client) -> None:
    content, allowed, words = BAD[case]
    status, answer = client.infer(content)
    assert status in allowed, answer
    assert set(answer) == {"error"}
    for word in words:
        assert word in answer["error"]
    assert len(answer["error"]) < 500
    assert client.infer(body([[EXAMPLE]]))[0] == 200


GOOD = json.dumps(body([[EXAMPLE]])).encode()
OTHER: dict[str, tuple[str, str, Any, dict[str, str], set[int], str]] = {
    "a form": ("POST", INFER, GOOD, {"Content-Type": "application/x-www-form-urlencoded"}, {415}, "application/json"),
    "binary tensors": ("POST", INFER, b"\xff" * 40, {"Content-Type": "application/octet-stream"}, {415}, "octet"),
    "plain bytes": ("POST", INFER, b"\xff\xfe", {"Content-Type": "text/plain"}, {415}, "text/plain"),
    "no such type": ("POST", INFER, GOOD, {"Content-Type": ";;;\x80"}, {415}, "content type"),
    "compressed": ("POST", INFER, gzip.compress(GOOD), JSON | {"Content-Encoding": "gzip"}, {415}, "uncompressed"),
    "compressed without end": (
        "POST", INFER, gzip.compress(b" " * 50_000_000), JSON | {"Content-Encoding": "gzip"}, {413, 415}, "",
    ),
    "unknown model": ("POST", "/v2/models/other/infer", GOOD, JSON, {404}, "orbital-kind"),
    "unknown version": ("POST", "/v2/models/orbital-kind/versions/9/infer", GOOD, JSON, {404}, "ab12cd34"),
    "a path in the name": ("POST", "/v2/models/..%2f..%2fetc/infer", GOOD, JSON, {404}, ""),
    "generate": ("POST", "/v2/models/orbital-kind/generate", GOOD, JSON, {404}, "infer"),
    "streaming": ("POST", "/v2/models/orbital-kind/infer_stream", GOOD, JSON, {404}, "infer"),
    "unload": ("POST", "/v2/repository/models/orbital-kind/unload", b"", {}, {422}, "unloaded"),
    "load": ("POST", "/v2/repository/models/orbital-kind/load", b"", {}, {422}, "loaded"),
    "no such address": ("GET", "/v3/models", None, {}, {404}, "Not Found"),
    "another method": ("DELETE", INFER, None, {}, {405}, "DELETE"),
    "an invented method": ("BREW", INFER, None, {}, {405}, "BREW"),
    "asking by GET": ("GET", INFER, None, {}, {405}, "Method"),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHER)
def test_other_addresses_and_forms_are_refused(case: str, client: Client) -> None:
    method, path, content, headers, allowed, words = OTHER[case]
    status, answer = client.send(method, path, content, headers)
    assert status in allowed
    assert words in strict_json(answer)["error"]
    assert client.infer(GOOD)[0] == 200


def pieces(size: int) -> Iterator[bytes]:
    for _ in range(size // 8192):
        yield b" " * 8192


def test_bodies_are_bounded_whether_their_length_is_declared_or_not(client: Client) -> None:
    padded = GOOD + b" " * (65536 - len(GOOD))
    assert client.infer(padded)[0] == 200
    for size in (65537, 200_000):
        status, answer = client.infer(GOOD + b" " * (size - len(GOOD)))
        assert status == 413
        assert "65536 bytes" in answer["error"]
    headers = JSON | {"Transfer-Encoding": "chunked"}
    assert client.send("POST", INFER, iter([GOOD]), headers)[0] == 200
    assert client.send("POST", INFER, pieces(131072), headers)[0] == 413
    # a client that asks before it sends gets its answer without sending anything.
    waiting = JSON | {"Content-Length": "99999999", "Expect": "100-continue"}
    assert client.send("POST", INFER, None, waiting)[0] == 413


def test_an_endless_body_is_cut_off(client: Client, served: Served) -> None:
    before = psutil.Process(served.process.pid).memory_info().rss
    try:
        status = client.send("POST", INFER, pieces(64 * 1024 * 1024), JSON | {"Transfer-Encoding": "chunked"})[0]
    except (ConnectionError, http.client.HTTPException):
        # the server stopped reading and closed; whether the reason arrives depends on what the kernel had buffered.
        status = 413
    assert status == 413
    assert psutil.Process(served.process.pid).memory_info().rss - before < 32 * 1024 * 1024
    assert client.infer(GOOD)[0] == 200


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=16,
)
shapes = st.lists(
    st.integers(min_value=-2, max_value=9) | st.integers() | st.booleans() | st.text(max_size=2), max_size=5
)
tensors = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["tokens", "mask"]) | json_values,
        "shape": st.just([1, 1, 7]) | shapes | json_values,
        "datatype": st.sampled_from(["FP32", "FP64", "INT64", "BOOL", "BYTES"]) | json_values,
        "data": st.lists(st.floats() | st.integers(), min_size=7, max_size=7) | json_values,
    },
    optional={"parameters": json_values},
)
requests = st.fixed_dictionaries(
    {"inputs": st.lists(tensors, max_size=3) | json_values},
    optional={"id": json_values, "outputs": json_values, "parameters": json_values},
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(value=requests | json_values, cut=st.none() | st.integers(min_value=0, max_value=60))
def test_no_body_brings_an_error_of_the_server(client: Client, value: Any, cut: int | None) -> None:
    # lone surrogates and NaN are among what is sent; the answer is JSON all the same.
    content = json.dumps(value).encode("utf-8", "surrogatepass")
    status, answer = client.infer(content if cut is None else content[:cut])
    assert status == 200 or 400 <= status < 500
    assert status == 200 or answer["error"]


def test_the_server_says_what_it_serves_and_with_what(client: Client) -> None:
    status, text = client.send("GET", "/v2/models/orbital-kind")
    answer = strict_json(text)
    assert status == 200
    assert answer["inputs"][0]["shape"] == [-1, -1, 7]
    assert answer["inputs"][0]["parameters"]["fields"][0] == {
        "name": "inclination_deg", "unit": "deg", "minimum": 0.0, "maximum": 180.0,
    }  # fmt: skip
    assert answer["inputs"][1]["parameters"]["optional"] is True
    assert [output["name"] for output in answer["outputs"]] == ["logits", "probabilities", "assignments", "label"]
    facts = answer["parameters"]
    assert facts["labels"] == LABELS
    assert facts["provider"] == "CPUExecutionProvider"
    assert facts["threads"] >= 1
    assert facts["provider_reason"]
    assert facts["threads_reason"]
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/orbital-kind/ready", "/v2"):
        assert client.send("GET", path)[0] == 200
    status, text = client.send("POST", "/v2/repository/index", b"{}", JSON)
    assert [(model["name"], model["state"]) for model in strict_json(text)] == [("orbital-kind", "READY")]


def test_metrics_count_and_do_not_grow_with_what_clients_invent(client: Client, served: Served) -> None:
    def metrics() -> str:
        status, text = Client(served.metrics).send("GET", "/metrics")
        assert status == 200
        return text.decode()

    def invent(number: int) -> None:
        client.send("POST", f"/v2/models/invented-{number}/infer", GOOD, JSON)
        client.send("POST", f"/v2/models/orbital-kind/versions/{number}/infer", GOOD, JSON)
        client.send("GET", f"/invented/{number}")
        client.send(f"INVENTED{number}", "/v2")

    client.infer(GOOD)
    client.send("GET", "/v2/models/nobody/ready")
    # the first refusal of a kind adds its own line, whatever other tests asked before
    invent(0)
    before = metrics()
    assert 'model_infer_request_success_total{model="orbital-kind"' in before
    assert 'quintet_refused_requests_total{status="404"}' in before
    for number in range(1, 21):
        invent(number)
    after = metrics()
    assert len(after.splitlines()) == len(before.splitlines())
    assert "invented" not in after.lower()


def test_it_listens_on_loopback_only(served: Served) -> None:
    listening = {
        (connection.laddr.ip.removeprefix("::ffff:"), connection.laddr.port)
        for connection in psutil.Process(served.process.pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {("127.0.0.1", port) for port in (served.http, served.grpc, served.metrics)}


def test_the_printed_example_answers(client: Client, served: Served) -> None:
    line = next(line for line in served.announcement.splitlines() if line.strip().startswith("curl"))
    words = shlex.split(line)
    assert words[2] == f"http://127.0.0.1:{served.http}{INFER}"
    assert json.loads(words[-1])["inputs"][0]["data"] == EXAMPLE
    status, answer = client.infer(words[-1].encode())
    assert status == 200
    assert outputs(answer)["label"].tolist()[0] in LABELS
