"""A model served from a copy, with the serving environment of this checkout, which takes minutes to make anew."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from components.files import write_json
from pipelines.serving import ENVIRONMENT, STAMP, ensure_serving_environment, serving_stamp
from tests.endtoend.copies import REPOSITORY, Copy, wait_for

READY_SECONDS = 120
END_SECONDS = 30


@dataclass(frozen=True)
class Server:
    """A server that runs: its process, the port of its HTTP service, and the example request that it printed."""

    process: "subprocess.Popen[bytes]"
    port: int
    url: str
    body: dict[str, Any]


@contextlib.contextmanager
def equipped(copy: Copy) -> Iterator[Copy]:
    """The copy with a serving environment, for the duration of the block."""
    ensure_serving_environment(REPOSITORY)
    target = copy.root / ENVIRONMENT
    shutil.copytree(REPOSITORY / ENVIRONMENT, target, symlinks=True, copy_function=_linked)
    (target / STAMP).unlink()
    # nothing in it depends on its place but the stamp
    write_json(target / STAMP, serving_stamp(copy.root))
    try:
        yield copy
    finally:
        shutil.rmtree(target)


@contextlib.contextmanager
def serving(copy: Copy, name: str) -> Iterator[Server]:
    """`quintet serve NAME`, ended by SIGTERM after the block. An early end or one that takes long is an error."""
    port = _three_free_ports()
    process = copy.start("quintet", "serve", name, "--port", str(port))
    try:
        wait_for(lambda: "stop with ctrl-C" in copy.said or process.poll() is not None, "the server", READY_SECONDS)
        if process.poll() is not None:
            raise RuntimeError(f"the server has ended with code {process.returncode}: {copy.said}")
        (example,) = [shlex.split(line) for line in copy.said.splitlines() if line.strip().startswith("curl ")]
        url = next(word for word in example if word.startswith("http"))
        yield Server(process, port, url, json.loads(example[example.index("-d") + 1]))
        process.send_signal(signal.SIGTERM)
        process.wait(END_SECONDS)
        wait_for(lambda: not copy.living(), "what the server had started to end", END_SECONDS)
    finally:
        copy.kill_all()


def _linked(source: str, target: str) -> None:
    """The same file under another name where the system can, which takes neither time nor space."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _three_free_ports() -> int:
    """The first of three ports in a row that nobody uses."""
    for first in range(20000 + os.getpid() % 10000, 60000, 3):
        try:
            for port in range(first, first + 3):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first
    raise RuntimeError("there are no three free ports in a row")
