"""Imported by every Python process of a watched run: notes what starts, whom it calls and what it writes elsewhere.

Python tells an audit hook of every connection, name look-up and file opened, so nothing that is written in Python gets
past it. Connections to other machines are refused as if there were no network. Without the variables that name the
ledger and the checkout this module does nothing.

One more variable asks for a sudden end: when a process whose command holds a given word moves a file of a given name
into place for the n-th time, it kills itself a moment later, as the system does when memory runs out.
"""

import ipaddress
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

LEDGER = os.environ.get("QUINTET_TEST_LEDGER")
ROOT = os.environ.get("QUINTET_TEST_ROOT", "")
KILL = json.loads(os.environ.get("QUINTET_TEST_KILL", "null"))
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# A hook hears of what it does itself.
_inside = threading.local()
_noted: set[str] = set()
_moves = 0


def _note(event: str, **facts: Any) -> None:
    line = json.dumps({"event": event, "pid": os.getpid(), "argv": sys.orig_argv, **facts}) + "\n"
    handle = os.open(str(LEDGER), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def _address(host: Any) -> Any:
    """`host` as an internet address; None when it is a name, or no text at all."""
    text = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    try:
        return ipaddress.ip_address(text.partition("%")[0]) if isinstance(text, str) else None
    except ValueError:
        return None


def _is_here(host: Any) -> bool:
    """Whether `host` means this machine. None and '' are the wildcard; what is no text is no internet address."""
    if not isinstance(host, str | bytes) or host in ("", b"", "localhost", b"localhost"):
        return True
    address = _address(host)
    return address is not None and (address.is_loopback or address.is_unspecified)


def _connecting(arguments: tuple[Any, ...]) -> None:
    address = arguments[1]
    host = address[0] if isinstance(address, tuple) and address else None
    if not _is_here(host):
        _note("connection", to=repr(address))
        raise ConnectionRefusedError(f"no connections to other machines in this test: {address}")


def _looking_up(arguments: tuple[Any, ...]) -> None:
    # an address needs no look-up; the connection will be judged
    if not _is_here(arguments[0]) and _address(arguments[0]) is None:
        _note("look-up", to=repr(arguments[0]))
        raise OSError(f"no names of other machines in this test: {arguments[0]}")


def _writing(path: Any) -> None:
    if isinstance(path, int) or path is None:
        return
    # as text alone: pathlib's way asks the file system, which a hook for every opened file should not
    place = os.path.abspath(os.fsdecode(path))  # noqa: PTH100
    if place != ROOT and not place.startswith(ROOT + os.sep) and place not in _noted:
        _noted.add(place)
        _note("write", path=place)


def _opening(arguments: tuple[Any, ...]) -> None:
    path, _, flags = arguments
    if isinstance(flags, int) and flags & WRITING:
        _writing(path)


def _moving(arguments: tuple[Any, ...]) -> None:
    global _moves  # noqa: PLW0603
    target = os.fsdecode(arguments[1])
    _writing(target)
    if KILL and target.endswith(os.sep + KILL["file"]) and KILL["command"] in " ".join(sys.orig_argv):
        _moves += 1
        if _moves == KILL["count"]:
            threading.Thread(target=_die, daemon=True).start()


def _die() -> None:
    time.sleep(KILL["seconds"])
    os.kill(os.getpid(), signal.SIGKILL)


HANDLERS: dict[str, Callable[[tuple[Any, ...]], None]] = {
    "socket.connect": _connecting,
    "socket.sendto": _connecting,
    "socket.getaddrinfo": _looking_up,
    "socket.gethostbyname": _looking_up,
    "open": _opening,
    "os.mkdir": lambda arguments: _writing(arguments[0]),
    "os.rename": _moving,
    "os.link": lambda arguments: _writing(arguments[1]),
    "os.symlink": lambda arguments: _writing(arguments[1]),
}


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    handler = HANDLERS.get(event)
    if handler is None or getattr(_inside, "hook", False):
        return
    _inside.hook = True
    try:
        handler(arguments)
    finally:
        _inside.hook = False


if LEDGER and ROOT:
    _note("start")
    sys.addaudithook(_hook)
