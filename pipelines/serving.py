"""Make the serving environment and start a server in it. The server never shares an environment with training."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import filelock

from components.errors import ServingError, UsageError
from components.export.bundle import NAME_PATTERN, verify_bundle
from components.files import digest_of, read_json, sha256_file, sha256_path, write_json

PACKAGE = Path("deploy/serving")
ENVIRONMENT = Path(".quintet/serving-venv")
PYTHON = Path("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = "quintet-stamp.json"
SOURCE = "quintet-source"
DEFAULT_PORTS = {"http": 8080, "grpc": 8081, "metrics": 8082}

Report = Callable[[str], None]
# writes the bundle of a registered model and alias into a folder: fetch(name, alias, folder).
Fetch = Callable[[str, str, Path], object]


def ensure_serving_environment(root: Path, report: Report = print) -> Path:
    """The Python of the serving environment of checkout `root`, which is made first when it is absent or outdated.

    It is current while its stamp names this lock, this source of the package and this interpreter. An installation that
    was killed leaves nothing in its place and is done again; of two processes at once, one makes it. Raises
    ServingError with pip's own words when it cannot be made.
    """
    root = root.absolute()
    python = root / ENVIRONMENT / PYTHON
    (root / ENVIRONMENT).parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(root / f"{ENVIRONMENT}.lock"):
        wanted = serving_stamp(root)
        found = _stamp_of(root / ENVIRONMENT, python)
        if found.get("packages") != wanted["packages"]:
            _make(root, wanted, report)
        elif found != wanted:
            _renew_package(root, python, wanted, report)
    return python


def serving_stamp(root: Path) -> dict[str, str]:
    """Digests of all that the serving environment is made from: the packages below, and our own package on top."""
    package = root / PACKAGE
    absent = [path for path in (package / "pyproject.toml", package / "requirements.txt") if not path.is_file()]
    if absent:
        raise ServingError(f"{absent[0]} is missing, so there is nothing to serve with; run inside a whole checkout")
    below = {
        "lock": sha256_file(package / "requirements.txt"),
        "python": f"{sys.base_prefix} {sys.version}",
        # an environment that came along with a copied checkout still points to the old place.
        "place": str((root / ENVIRONMENT).absolute()),
    }
    own = [sha256_file(package / "pyproject.toml"), sha256_path(package / "quintet_serving")]
    return {"packages": digest_of(below), "own": digest_of(own)}


def serving_command(python: Path, bundle: Path, host: str, ports: dict[str, int], provider: str) -> list[str]:
    """The command that serves `bundle`. Raises UsageError for a port or a kind of port that does not exist."""
    unknown = sorted(set(ports) - set(DEFAULT_PORTS))
    if unknown:
        raise UsageError(f"there is no port for {unknown[0]!r}; name some of {', '.join(DEFAULT_PORTS)}")
    for name, port in ports.items():
        if not 0 <= port <= 65535:
            raise UsageError(f"the {name} port {port} does not exist; choose 1 to 65535, or 0 for a free one")
    options = [f"--{name}-port={port}" for name, port in (DEFAULT_PORTS | ports).items()]
    # -I keeps variables of the main environment and the modules of the working folder out of the server.
    return [
        str(python),
        *("-I", "-m", "quintet_serving", str(bundle.absolute())),
        f"--host={host}",
        *options,
        f"--provider={provider}",
    ]


def obtain_bundle(root: Path, name: str, alias: str | None = None, fetch: Fetch | None = None) -> Path:
    """A verified bundle of experiment `name`: with an alias the registry's through `fetch`, else the exported one.

    Raises UsageError for a name that no bundle can have, and BundleError when there is no sound bundle.
    """
    for part in (name, alias or name):
        if not NAME_PATTERN.fullmatch(part):
            raise UsageError(f"{part!r} is no name of a bundle or an alias; use lower-case letters, digits and . _ -")
    folder = root.absolute() / "outputs" / "export" / name / "bundle"
    if alias is not None:
        if fetch is None:
            raise UsageError(f"{name}@{alias} needs the registry, which was not given; leave the alias out")
        folder = root.absolute() / ".quintet" / "bundles" / f"{name}@{alias}"
        fetch(name, alias, folder)
    manifest = verify_bundle(folder)
    if manifest.name != name:
        raise UsageError(f"{folder} holds the bundle {manifest.name!r}, and {name!r} was asked for; serve that name")
    return folder


def serve(
    root: Path,
    name: str,
    alias: str | None = None,
    host: str = "127.0.0.1",
    ports: dict[str, int] | None = None,
    provider: str = "cpu",
    fetch: Fetch | None = None,
    report: Report = print,
) -> NoReturn:
    """Serve the bundle of `name` in place of this process, until it is interrupted.

    The server itself refuses a bundle that was changed since, a port that is taken and a provider that is not there,
    each in one line and with exit code 1.
    """
    bundle = obtain_bundle(root, name, alias, fetch)
    python = ensure_serving_environment(root, report)
    command = serving_command(python, bundle, host, ports or {}, provider)
    report(f"starting the server for {bundle}")
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "nt":
        # exec on Windows starts another process and returns to the shell at once.
        sys.exit(subprocess.run(command, check=False).returncode)
    os.execv(command[0], command)  # noqa: S606 the command is a list made above


def _stamp_of(environment: Path, python: Path) -> dict[str, str]:
    """What the environment says it was made from; nothing when it is not whole."""
    stamp = environment / STAMP
    if not python.exists() or not stamp.is_file():
        return {}
    found: dict[str, str] = read_json(stamp)
    return found


def _renew_package(root: Path, python: Path, wanted: dict[str, str], report: Report) -> None:
    """Install our own package again over the same packages, which takes seconds."""
    report(f"renewing the serving package in {root / ENVIRONMENT}")
    # without its stamp the environment counts as broken, and a kill in between has it made anew.
    (root / ENVIRONMENT / STAMP).unlink()
    _install_package(root, python, root / ENVIRONMENT / SOURCE, report)
    write_json(root / ENVIRONMENT / STAMP, wanted)


def _install_package(root: Path, python: Path, copy: Path, report: Report) -> None:
    # built from a copy: a build leaves folders beside the source, and a checkout must stay as it is.
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(root / PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    command = [*_pip(python), "install", "--no-deps", "--force-reinstall", str(copy)]
    _run(command, f"{root / PACKAGE} cannot be installed", report)
    _run([*_pip(python), "check"], f"the packages of {root / PACKAGE} do not fit together", report)
    shutil.rmtree(copy)


def _pip(python: Path) -> list[str]:
    return [str(python), "-I", "-m", "pip", "--disable-pip-version-check", "--no-input"]


def _make(root: Path, wanted: dict[str, str], report: Report) -> None:
    """Install into a folder with a name of its own, and put it in place when it is whole.

    An installer that outlived a killed process thus writes where nobody looks, and the old environment stays usable
    until the new one is there. Only `python -m` is used, which does not mind that the folder was renamed.
    """
    final = root / ENVIRONMENT
    for leftover in final.parent.glob(f"{final.name}.*.part"):
        shutil.rmtree(leftover, ignore_errors=True)
    report(f"making the serving environment in {final} (a minute or two and 0.7 GB, once)")
    fresh = Path(tempfile.mkdtemp(dir=final.parent, prefix=f"{final.name}.", suffix=".part"))
    lock = root / PACKAGE / "requirements.txt"
    try:
        _run([sys.executable, "-m", "venv", str(fresh)], "the virtual environment cannot be made", report)
        install = [*_pip(fresh / PYTHON), "install", "-r", str(lock)]
        _run(install, f"the packages of {lock} cannot be installed", report, _packages(lock))
        _install_package(root, fresh / PYTHON, fresh / SOURCE, report)
        write_json(fresh / STAMP, wanted)
        if final.exists():
            final.rename(Path(tempfile.mkdtemp(dir=final.parent, prefix=f"{final.name}.", suffix=".part")) / "old")
        fresh.rename(final)
    finally:
        for leftover in final.parent.glob(f"{final.name}.*.part"):
            shutil.rmtree(leftover, ignore_errors=True)


def _packages(lock: Path) -> int:
    lines = (line.strip() for line in lock.read_text(encoding="utf-8").splitlines())
    return sum(1 for line in lines if line and not line.startswith("#"))


def _run(command: list[str], failure: str, report: Report, packages: int = 0) -> None:
    """Run a step of the installation, reporting pip's progress package by package."""
    lines: list[str] = []
    begun = 0
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    with process, process.stdout as output:  # type: ignore[union-attr]
        for line in output:
            lines.append(line.rstrip())
            if line.startswith(("Collecting ", "Processing ")) and packages:
                begun += 1
                report(f"  {begun} of {packages}: {Path(line.split()[1]).name}")
            elif line.startswith("Installing collected"):
                report("  installing")
    if process.returncode != 0:
        said = next((line for line in reversed(lines) if line.startswith("ERROR")), "\n".join(lines[-3:]))
        raise ServingError(
            f"{failure} ({said.strip() or f'exit code {process.returncode}'}); see to the network and the package index"
            " that pip uses, then run the command again"
        )
