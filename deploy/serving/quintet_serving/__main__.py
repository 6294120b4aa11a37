"""Serve one bundle in the foreground: `python -m quintet_serving BUNDLE`."""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import shlex
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from quintet_serving.bundle import Bundle, read_bundle
from quintet_serving.errors import ServingError
from quintet_serving.validation import example_request

PORTS = {"http": 8080, "grpc": 8081, "metrics": 8082}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return _serve(options)
    except ServingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m quintet_serving",
        description="Serve a Quintet bundle over the Open Inference Protocol until it is interrupted.",
        epilog="example: python -m quintet_serving outputs/export/orbital-kind/bundle --http-port 8080",
    )
    parser.add_argument("bundle", type=Path, help="folder of the bundle (it is only read)")
    parser.add_argument("--host", default="127.0.0.1", help="address for HTTP and gRPC (default: %(default)s)")
    for name, port in PORTS.items():
        help_text = f"port for {name}; 0 takes a free one (default: %(default)s)"
        parser.add_argument(f"--{name}-port", type=_port, default=port, help=help_text)
    parser.add_argument("--metrics-host", default="127.0.0.1", help="address for the metrics (default: %(default)s)")
    parser.add_argument("--provider", choices=("cpu", "cuda"), default="cpu", help="device; cuda refuses to fall back")
    return parser


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{port} is no port; choose 0 to 65535")
    return port


def _serve(options: argparse.Namespace) -> int:
    folder = options.bundle.absolute()
    bundle = read_bundle(folder)
    ports = choose_ports(
        {name: getattr(options, f"{name}_port") for name in PORTS},
        {"http": options.host, "grpc": options.host, "metrics": options.metrics_host},
    )
    # MLServer's imports would otherwise read settings from a file .env of whoever started the server.
    with _work_folder() as work:
        settings, model = _write_repository(work, bundle, folder, options, ports)
        asyncio.run(_run(settings, model, bundle, options))
    return 0


async def _run(settings: dict[str, Any], model: dict[str, Any], bundle: Bundle, options: argparse.Namespace) -> None:
    from mlserver import ModelSettings, Settings

    from quintet_serving.server import BundleServer

    server = BundleServer(
        Settings(**settings),
        ModelSettings(**model),
        metrics_host=options.metrics_host,
        max_request_bytes=bundle.schema.limits.max_request_bytes,
    )
    running = asyncio.create_task(server.start())
    while not running.done() and not server.listening:
        await asyncio.sleep(0.02)
    if not running.done():
        print(announcement(bundle, settings, options.metrics_host), flush=True)
    await running


def _write_repository(
    work: Path, bundle: Bundle, folder: Path, options: argparse.Namespace, ports: dict[str, int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of server and model, also as the files of a repository that MLServer lists. Never inside the bundle."""
    from quintet_serving.server import server_settings

    settings = server_settings(work, options.host, ports, bundle.schema.limits.max_request_bytes)
    model = {
        "name": bundle.name,
        "implementation": "quintet_serving.BundleRuntime",
        "parameters": {"uri": str(folder), "version": bundle.version, "extra": {"provider": options.provider}},
    }
    (work / bundle.name).mkdir(parents=True, exist_ok=True)
    for path, content in (
        (work / "settings.json", settings),
        (work / bundle.name / "model-settings.json", model),
    ):
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return settings, model


@contextlib.contextmanager
def _work_folder() -> Iterator[Path]:
    """An empty folder to stand in while the server runs."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="quintet-serving-") as name:
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)


def choose_ports(wanted: dict[str, int], hosts: dict[str, str]) -> dict[str, int]:
    """Free ports as wanted, 0 replaced by a free one. Raises ServingError when one is taken or asked for twice."""
    chosen: dict[str, int] = {}
    with contextlib.ExitStack() as open_sockets:
        for name, port in wanted.items():
            host = hosts[name]
            if port and port in chosen.values():
                raise ServingError(f"port {port} is asked for twice; choose another --{name}-port")
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            try:
                listener = open_sockets.enter_context(socket.create_server((host, port), family=family))
            except OSError as error:
                reason = error.strerror or str(error)
                raise ServingError(
                    f"{host}:{port} cannot be opened for {name} ({reason}); choose another --{name}-port, or stop the"
                    " process that holds it"
                ) from error
            chosen[name] = listener.getsockname()[1]
    return chosen


def announcement(bundle: Bundle, settings: dict[str, Any], metrics_host: str) -> str:
    """What is printed once all ports answer: the addresses, and a request that can be pasted."""
    base = f"http://{_in_address(settings['host'])}:{settings['http_port']}"
    inputs = [dataclasses.asdict(tensor) for tensor in example_request(bundle.schema)]
    body = json.dumps({"inputs": inputs})
    command = f"curl -s {base}/v2/models/{bundle.name}/infer -H 'Content-Type: application/json' -d {shlex.quote(body)}"
    return "\n".join(
        [
            f"serving {bundle.name} (version {bundle.version})",
            f"  inference  {base}/v2/models/{bundle.name}/infer",
            f"  inputs     {base}/v2/models/{bundle.name}",
            f"  gRPC       {_in_address(settings['host'])}:{settings['grpc_port']}",
            f"  metrics    http://{_in_address(metrics_host)}:{settings['metrics_port']}/metrics",
            "try it:",
            f"  {command}",
            "stop with ctrl-C",
        ]
    )


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host


if __name__ == "__main__":
    sys.exit(main())
