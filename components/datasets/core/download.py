"""One HTTP download that resumes, and that knows a wrong answer from a file before it is saved as one.

A downloader for pooch, which names, verifies and moves the file. Between attempts, and between runs, the bytes that
have come wait in a partial file of their own, never at the place of the finished one.
"""

import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

from components.files import sha256_file

# Called with bytes had and bytes expected (None: unknown).
Progress = Callable[[int, int | None], None]

CHUNK_BYTES = 1 << 16
TIMEOUT_SECONDS = (10.0, 30.0)
# Nothing that changes daily is larger; stops an endless answer.
LIVE_LIMIT_BYTES = 1 << 28

_HTML = re.compile(rb"\s*(<!doctype\s+html|<html)", re.IGNORECASE)
_TITLE = re.compile(rb"<title[^>]*>([^<]{1,80})", re.IGNORECASE)


class SourceError(Exception):
    """A source did not yield the file. The message says what came instead, in a few words."""


class _BrokenOffError(Exception):
    """The connection broke; what came before may be continued."""


def html_complaint(head: bytes) -> str | None:
    """What is wrong with content that begins as a web page, or None."""
    if not _HTML.match(head.removeprefix(b"\xef\xbb\xbf")):
        return None
    title = _TITLE.search(head)
    shown = f" titled {title[1].decode('utf-8', 'replace').strip()!r}" if title else ""
    return f"an HTML page{shown} came in place of the file"


class ResumingDownloader:
    """Download with up to `attempts` tries, continuing where the last one broke off.

    `sha256` and `size` are what the catalogue expects, or None for live data, which is never continued: its publisher
    may have changed it in between.
    """

    def __init__(
        self,
        partial: Path,
        sha256: str | None,
        size: int | None,
        *,
        limit: int = LIVE_LIMIT_BYTES,
        progress: Progress | None = None,
        attempts: int = 3,
        pause_seconds: float = 0.5,
    ):
        self.partial = partial
        self.sha256 = sha256
        self.size = size
        self.limit = limit
        self.progress = progress
        self.attempts = attempts
        self.pause_seconds = pause_seconds

    def __call__(self, url: str, output_file: str, pooch: Any, check_only: bool = False) -> None:
        """Fetch `url` to `output_file`, as pooch asks. Raises SourceError."""
        self.partial.parent.mkdir(parents=True, exist_ok=True)
        continued = self.sha256 is not None and self.partial.exists()
        if not continued:
            self.partial.unlink(missing_ok=True)
        try:
            self._try_often(url)
            self._verify()
        except SourceError:
            self.partial.unlink(missing_ok=True)
            # what an earlier run left may belong to another version of the file: once more from the start
            if not continued:
                raise
            self._try_often(url)
            self._verify()
        shutil.move(self.partial, output_file)

    def _try_often(self, url: str) -> None:
        for attempt in range(1, self.attempts + 1):
            try:
                self._continue(url)
            except _BrokenOffError as broken:
                if attempt == self.attempts:
                    had = self.partial.stat().st_size if self.partial.exists() else 0
                    raise ConnectionError(f"{broken} ({attempt} attempts, {had:,} bytes had)") from None
                if self.sha256 is None:
                    self.partial.unlink(missing_ok=True)
                time.sleep(self.pause_seconds * attempt)
            else:
                return

    def _continue(self, url: str) -> None:
        had = self.partial.stat().st_size if self.partial.exists() else 0
        if self.size is not None and had == self.size:
            return
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={had}-"} if had else {})
        try:
            with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT_SECONDS) as answer:
                self._receive(answer, had)
        except requests.RequestException as error:
            raise _BrokenOffError(f"the connection failed ({_innermost(error)})") from None

    def _receive(self, answer: requests.Response, had: int) -> None:
        if answer.status_code in {408, 425, 429} or answer.status_code >= 500:
            raise _BrokenOffError(f"the server answered {answer.status_code} {answer.reason}")
        if answer.status_code not in {200, 206}:
            raise SourceError(f"the server answered {answer.status_code} {answer.reason}")
        resumed = answer.status_code == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {had}-")
        if answer.status_code == 206 and not resumed:
            raise SourceError(f"the server sent another range than asked: {answer.headers.get('Content-Range')!r}")
        count = had if resumed else 0
        limit = self.size if self.size is not None else self.limit
        with self.partial.open("ab" if resumed else "wb") as file:
            for chunk in answer.iter_content(CHUNK_BYTES):
                complaint = html_complaint(chunk) if count == 0 else None
                if complaint:
                    raise SourceError(complaint)
                count += len(chunk)
                if count > limit:
                    raise SourceError(f"more than the {limit:,} bytes expected came")
                file.write(chunk)
                if self.progress:
                    self.progress(count, self.size)

    def _verify(self) -> None:
        count = self.partial.stat().st_size
        if count == 0:
            raise SourceError("an empty file came")
        if self.size is not None and count < self.size:
            raise SourceError(f"a short file came, {count:,} of {self.size:,} bytes")
        if self.sha256 is not None:
            digest = sha256_file(self.partial)
            if digest != self.sha256:
                raise SourceError(f"other content came, sha256 {digest}")


def _innermost(error: BaseException) -> str:
    """The type of the deepest cause: the outer layers only repeat it in many words."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return type(error).__name__
