"""Random requests to a served model: never an error of the server, and good ones are answered as before."""

import http.client
import json
import random
from collections import Counter
from typing import Any

import psutil

from tests.endtoend.served import Server, equipped, serving
from tests.soak.edits import ALPHABET
from tests.soak.outcome import Outcome, Work

# A good request is sent again after so many random ones.
GOOD_EVERY = 50
ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**31, 2**63, 2**80, 1e39, float("nan"), float("inf"), "", "tokens", "\ud800", [], {}, [[]],
    [1, [2]], {"a": {}}, "FP64", "BYTES", [0], [1, 1, 7, 1], [10**9, 10**9, 7], [-1, -1, 7], ["1", "1", "7"],
)  # fmt: skip
INFER = "/v2/models/orbital-kind/infer"
JSON = "application/json"
# Most requests come as far as the model's own checks: what else may be wrong is refused before.
PATHS = (*[INFER] * 12, "/v2/models/orbital-kind/versions/1/infer", "/v2/models/nobody/infer", "/v2", "/")
METHODS = (*["POST"] * 12, "GET", "PUT", "DELETE", "INVENTED")
TYPES = (*[JSON] * 12, "text/plain", "application/octet-stream", "", "\u00e9")


def requests(work: Work, count: int) -> Outcome:
    """`count` random requests."""
    statuses: Counter[int] = Counter()
    failures: list[str] = []
    generator = random.Random(f"{work.seed} requests")
    with equipped(work.undisturbed.copy) as copy, serving(copy, "orbital-kind") as server:
        process = psutil.Process(server.process.pid)
        good = json.dumps(server.body).encode()
        expected = _outputs(server, good)
        before = process.memory_info().rss
        for number in range(count):
            if number % 500 == 0:
                work.say(f"request {number} of {count}")
            method, path, kind = (generator.choice(choices) for choices in (METHODS, PATHS, TYPES))
            body = _body(server.body, generator)
            try:
                status, answer = _send(server, method, path, body, kind)
            except (OSError, http.client.HTTPException) as error:
                failures.append(f"{method} {path} {kind!r} {body[:200]!r}: no answer ({type(error).__name__}: {error})")
                continue
            statuses[status] += 1
            failures += [f"{method} {path} {kind!r} {body[:200]!r}: {fault}" for fault in _faults(status, answer)]
            if number % GOOD_EVERY == 0 and _outputs(server, good) != expected:
                failures.append(f"a good request after {number} others is answered in another way")
        grown = process.memory_info().rss - before
    return Outcome(
        {
            "answers": ", ".join(f"{times} x {status}" for status, times in sorted(statuses.items())),
            "of these an error of the server": str(sum(times for code, times in statuses.items() if code >= 500)),
            "memory of the server grew by": f"{grown / 2**20:.1f} MiB",
        },
        failures,
    )


def _faults(status: int, answer: bytes) -> list[str]:
    if status >= 500:
        return [f"status {status}: {answer[:200]!r}"]
    if status >= 400:
        try:
            said = json.loads(answer)["error"]
        except (ValueError, KeyError, TypeError):
            return [f"status {status} without a reason: {answer[:200]!r}"]
        return [] if isinstance(said, str) and said else [f"status {status} with an empty reason"]
    return []


def _outputs(server: Server, good: bytes) -> Any:
    """What a good request is answered; the answer's own identifier is another each time."""
    status, answer = _send(server, "POST", INFER, good, JSON)
    return status, json.loads(answer).get("outputs")


def _send(server: Server, method: str, path: str, body: bytes, kind: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        headers = {"Content-Type": kind.encode("latin-1")} if kind else {}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _body(good: dict[str, Any], generator: random.Random) -> bytes:
    value: Any = json.loads(json.dumps(good))
    for _ in range(generator.randint(0, 3)):
        value = _spoilt(value, generator)
    content = bytearray(json.dumps(value).encode())
    for _ in range(generator.choice((0, 0, 0, 1, 2))):
        position = generator.randrange(len(content) + 1)
        content[position : position + generator.randint(0, 1)] = generator.choice(ALPHABET).encode()
    if generator.random() < 0.05:
        del content[generator.randrange(len(content) + 1) :]
    return bytes(content)


def _spoilt(value: Any, generator: random.Random) -> Any:
    """The value with one thing at a random depth replaced, left out, doubled or put in."""
    if isinstance(value, dict) and value and generator.random() < 0.85:
        name = generator.choice(sorted(value))
        changed = dict(value)
        if generator.random() < 0.1:
            del changed[name]
        elif generator.random() < 0.1:
            changed[generator.choice(("id", "outputs", "parameters", "mask", "extra"))] = generator.choice(ODD_VALUES)
        else:
            changed[name] = _spoilt(value[name], generator)
        return changed
    if isinstance(value, list) and value and generator.random() < 0.85:
        index = generator.randrange(len(value))
        if generator.random() < 0.15:
            return [*value[:index], *value[index + 1 :]]
        if generator.random() < 0.15:
            return [*value, value[index]]
        return [*value[:index], _spoilt(value[index], generator), *value[index + 1 :]]
    return generator.choice((*ODD_VALUES, generator.uniform(-1e6, 1e6)))
