"""`quintet up` and `quintet down`: Prefect's server and worker and MLflow's server, all on this machine alone.

Each is the leader of its own process group. What runs is noted in `.quintet/services.json` by process number and time
of creation, so that a number given out again is never taken for a service.
"""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from components.errors import QuintetError
from components.files import read_json, write_json
from pipelines.environment import state_folder, variables
from pipelines.processes import ProcessIdentity, end_group, kill, last_line, processes_with

HOST = "127.0.0.1"
POOL = "quintet-local"
WORKER = "prefect-worker"
DEPLOYMENTS = ("reproduce/reproduce", "ablate/ablate")
# All that the services start carries this, and ends with them.
SERVICES_VARIABLE = "QUINTET_SERVICES"
READY_SECONDS = 180.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.2

Say = Callable[[str], None]


class ServiceError(QuintetError):
    """A service did not start: its port is taken, it ended early, or it did not answer in time."""


@dataclass(frozen=True)
class Ports:
    """The ports of the two servers on the loopback address."""

    prefect: int = 4200
    mlflow: int = 5000


@dataclass(frozen=True)
class Running:
    """A service that was started. `url` is empty for the worker, which listens nowhere."""

    name: str
    pid: int
    created: float
    url: str
    log: str

    def alive(self) -> bool:
        return ProcessIdentity(self.pid, self.created).alive()


@dataclass(frozen=True)
class Service:
    """How to start a service and how to know that it is ready. `port` is None for one that listens nowhere."""

    name: str
    command: tuple[str, ...]
    port: int | None
    health: str
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}" if self.port else ""


def servers(root: Path, ports: Ports, store: str) -> tuple[Service, ...]:
    """The servers in the order in which they start. MLflow's is left out when `store` is one already."""
    prefect = ("-m", "prefect", "server", "start", "--host", HOST, "--port", str(ports.prefect))
    mlflow = (
        "-m", "mlflow", "server", "--host", HOST, "--port", str(ports.mlflow), "--workers", "1",
        "--backend-store-uri", store,
        "--default-artifact-root", str(root / "mlflow" / "artifacts"),
    )  # fmt: skip
    # its job runner would start seven more processes, for features that nothing here uses
    quiet = (("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false"),)
    first = Service("prefect-server", prefect, ports.prefect, "/api/health")
    is_server = store.startswith(("http://", "https://"))
    return (first,) if is_server else (first, Service("mlflow-server", mlflow, ports.mlflow, "/health", quiet))


def worker(api: str) -> Service:
    command = ("-m", "prefect", "worker", "start", "--pool", POOL, "--type", "process", "--name", "quintet")
    return Service(WORKER, command, None, "", (("PREFECT_API_URL", api),))


def up(root: Path, ports: Ports, say: Say) -> tuple[Running, ...]:
    """Start what does not run yet, deploy the flows, and return all services. Raises ServiceError."""
    store = _prepared_store(root)
    started = [_start(root, service, say) for service in servers(root, ports, store)]
    # a server that runs already may have been given another port
    api = f"{started[0].url}/api"
    if not any(running.name == WORKER for running in running_services(root)):
        _deploy(root, api, say)
    return (*started, _start(root, worker(api), say))


def down(root: Path, say: Say) -> None:
    """End every service and all that they started. Without any, nothing happens."""
    for running in reversed(list(_known(root).values())):
        if running.alive():
            say(f"{running.name}: stopping")
            end_group(running.pid, signal.SIGTERM, STOP_SECONDS)
    kill(processes_with(SERVICES_VARIABLE, str(root)), grace_seconds=STOP_SECONDS)
    services_path(root).unlink(missing_ok=True)


def running_services(root: Path) -> tuple[Running, ...]:
    return tuple(running for running in _known(root).values() if running.alive())


def api_url(root: Path) -> str | None:
    """The address of Prefect's server when `quintet up` has started it and it still runs."""
    return next((f"{running.url}/api" for running in running_services(root) if running.name == "prefect-server"), None)


def services_path(root: Path) -> Path:
    return state_folder(root) / "services.json"


def write_services(root: Path, services: Sequence[Running]) -> None:
    write_json(services_path(root), [asdict(running) for running in services])


def _known(root: Path) -> dict[str, Running]:
    if not services_path(root).is_file():
        return {}
    return {entry["name"]: Running(**entry) for entry in read_json(services_path(root))}


def _start(root: Path, service: Service, say: Say) -> Running:
    known = _known(root)
    if service.name in known and known[service.name].alive():
        running = known[service.name]
        say(f"{service.name}: runs already{' at ' + running.url if running.url else ''}")
        return running
    if service.port and not _is_free(service.port):
        raise ServiceError(
            f"{service.name} needs port {service.port} on {HOST}, which another program uses; "
            f"choose a port with --{service.name.partition('-')[0]}-port"
        )
    log = root / "run_info" / "logs" / f"{service.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *service.command],
            cwd=root,
            env=_environment(root) | dict(service.variables),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    created = psutil.Process(process.pid).create_time()
    running = Running(service.name, process.pid, created, service.url, str(log.relative_to(root)))
    # noted before it is ready, so that `down` finds it whatever happens meanwhile
    write_services(root, [*(other for name, other in known.items() if name != service.name), running])
    say(f"{service.name}: starting{' at ' + running.url if running.url else ''}")
    if service.port:
        _wait_until_ready(service, process, log)
    return running


def _wait_until_ready(service: Service, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            said = f"{service.name} ended with code {process.returncode} while it started: {last_line(log)}"
            raise ServiceError(f"{said} (its log: {log})")
        if _answers(service.url + service.health):
            return
        time.sleep(POLL_SECONDS)
    end_group(process.pid, signal.SIGTERM, STOP_SECONDS)
    raise ServiceError(f"{service.name} did not answer within {READY_SECONDS:.0f} s; its log: {log}")


def _answers(url: str) -> bool:
    # a proxy that the environment names is not asked: the address is this machine's own
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _deploy(root: Path, api: str, say: Say) -> None:
    say(f"deploying {' and '.join(DEPLOYMENTS)} on the work pool {POOL}")
    steps = (
        ("work-pool", "create", POOL, "--type", "process", "--overwrite"),
        ("--no-prompt", "deploy", "--all"),
    )
    for arguments in steps:
        command = [sys.executable, "-m", "prefect", *arguments]
        done = subprocess.run(
            command,
            cwd=root,
            env=_environment(root) | {"PREFECT_API_URL": api},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            raise ServiceError(f"`prefect {' '.join(arguments)}` failed: {lines[-1].strip() if lines else 'no output'}")


def _prepared_store(root: Path) -> str:
    # two processes that make a new store at once damage it, so it is made before any server starts
    from components.tracking.store import initialise, tracking_uri

    initialise(root)
    return tracking_uri(root)


def _environment(root: Path) -> dict[str, str]:
    # what a flow run says there is read on Prefect's pages
    own = {SERVICES_VARIABLE: str(root), "PREFECT_LOGGING_LEVEL": "INFO"}
    return {**os.environ, **variables(root), **own}
