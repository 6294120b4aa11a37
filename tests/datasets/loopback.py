"""A real HTTP server on loopback whose misbehaviour a test chooses."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What the server sends, how it fails, and what it was asked.

    `break_after` closes the connection after so many bytes of each of the first `breaks` answers, whose Content-Length
    promises the whole. `statuses` are answered first, one for each request.
    """

    content: bytes
    url: str = ""
    ranges_supported: bool = True
    break_after: int | None = None
    breaks: int = 0
    statuses: list[int] = field(default_factory=list)
    asked: list[str | None] = field(default_factory=list)


@contextlib.contextmanager
def serving(site: Site) -> Iterator[Site]:
    """Serve `site` while the block runs; its `url` is filled in."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            site.asked.append(wanted)
            if site.statuses:
                self.send_error(site.statuses.pop(0))
                return
            start = 0
            if wanted and site.ranges_supported:
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            body = site.content[start:]
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(site.content) - 1}/{len(site.content)}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if site.breaks > 0 and site.break_after is not None:
                site.breaks -= 1
                self.wfile.write(body[: site.break_after])
                self.wfile.flush()
                self.connection.close()
                return
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep the tests' output quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    # a broken connection is what some tests ask for, not something to print
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_address[1]}/sets.tle"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
