"""The first thing that an HTTP request meets: bounds on its body, and the few addresses that are served."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from prometheus_client import Counter

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MODEL_PATH = re.compile(
    r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>[^/]+))?(?:/(?P<action>[^/]+))?(?:/.*)?", re.DOTALL
)
METHODS = ("GET", "HEAD", "POST")
# a client that is still sending does not read; a body up to this many times the bound is read to its end and dropped,
# so that its client gets the reason and not only a broken connection.
DRAINED_BOUNDS = 4

REFUSED = Counter("quintet_refused_requests", "Requests refused before inference", ["status"])


def check_target(name: str, version: str | None, served_name: str, served_version: str | None) -> None:
    """Raises RefusalError when this server does not serve that model.

    MLServer keeps a metric for every name and version that anybody ever asked for, so unknown ones must not reach it.
    """
    if name != served_name:
        raise RefusalError(404, f"there is no model {name[:60]!r}; this server serves {served_name!r}")
    if version and version != served_version:
        raise RefusalError(
            404, f"there is no version {version[:60]!r} of {name}; this server serves {served_version!r}"
        )


class RefusalError(Exception):
    """Answers the request with `status` and `reason`."""

    def __init__(self, status: int, reason: str):
        super().__init__(reason)
        self.status = status


class RequestGuard:
    """ASGI middleware for a server of one model.

    Bodies are read whole before the application starts, at most `max_body_bytes` and `body_seconds`.
    """

    def __init__(
        self,
        app: App,
        model_name: str,
        model_version: str | None,
        max_body_bytes: int,
        body_seconds: float = 30.0,
    ):
        self._app = app
        self._served = (model_name, model_version)
        self._max_body_bytes = max_body_bytes
        self._body_seconds = body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check_address(scope["method"], scope["path"])
            body = b""
            if scope["method"] == "POST":
                headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
                body = await self._read_body(headers, receive)
                self._check_headers(headers)
        except RefusalError as refusal:
            REFUSED.labels(status=str(refusal.status)).inc()
            await _answer(send, refusal.status, str(refusal))
            return
        except ConnectionResetError:
            # the client went away while it was sending; nobody waits for an answer.
            return
        await self._app(scope, _replaying(body, receive), send)

    def _check_address(self, method: str, path: str) -> None:
        # methods become labels of a metric as well, and a client may invent any number of them.
        if method not in METHODS:
            raise RefusalError(405, f"the method {method[:20]!r} is not served; use {', '.join(METHODS)}")
        match = MODEL_PATH.fullmatch(path)
        if match is None:
            return
        check_target(match["name"], match["version"], *self._served)
        if match["action"] in ("generate", "generate_stream", "infer_stream"):
            raise RefusalError(404, f"{match['action']} is not offered for a classifier; send the request to infer")

    def _check_headers(self, headers: dict[str, str]) -> None:
        kind = headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RefusalError(415, f"the content type {kind[:60]!r} is not understood; send application/json")
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise RefusalError(
                415, f"the content encoding {encoding[:60]!r} is not accepted; send the body uncompressed"
            )

    async def _read_body(self, headers: dict[str, str], receive: Receive) -> bytes:
        declared = int(headers.get("content-length", "0"))
        too_large = RefusalError(
            413,
            f"the body is larger than {self._max_body_bytes} bytes; send fewer rows in one request",
        )
        # a client that asked first is waiting for this answer and has sent nothing yet.
        if declared > self._max_body_bytes and headers.get("expect", "").lower() == "100-continue":
            raise too_large
        content = bytearray()
        size = 0
        try:
            async with asyncio.timeout(self._body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ConnectionResetError
                    part = message.get("body", b"")
                    size += len(part)
                    if size <= self._max_body_bytes:
                        content += part
                    else:
                        content.clear()
                    if size > DRAINED_BOUNDS * self._max_body_bytes:
                        raise too_large
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise RefusalError(
                408, f"the body did not arrive in {self._body_seconds:g} seconds; send it faster"
            ) from None
        if size > self._max_body_bytes:
            raise too_large
        return bytes(content)


def _replaying(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body that was read, and then whatever comes after it."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


async def _answer(send: Send, status: int, reason: str) -> None:
    content = json.dumps({"error": reason}).encode()
    # the rest of a refused body is not read, so the connection cannot carry another request.
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
