"""Where our tools keep their state, and what they must not do: the environment variables of every entry point.

Everything lies inside the checkout, in `.quintet/`, and nothing is reported to anybody. The variables must be set
before Prefect or DVC are imported, because both read them once; the command line does so first of all, and child
processes inherit them. None of them changes a result.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from components.errors import UsageError

STATE_FOLDER = ".quintet"
ROOT_FILES = ("dvc.yaml", "params.yaml")
LOOPBACK = ("127.0.0.1", "localhost", "::1")

# Prefect's temporary server migrates its database on first use; its own limit of 20 s is short on a busy machine.
EPHEMERAL_STARTUP_SECONDS = 180


def find_root(start: Path | None = None) -> Path:
    """The checkout that `start` (default: the current folder) lies in: the nearest folder with the two root files.

    Raises UsageError when there is none.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if all((folder / name).is_file() for name in ROOT_FILES):
            return folder
    raise UsageError(
        f"{here} is not inside a Quintet checkout: no folder above it has both {' and '.join(ROOT_FILES)}; "
        "change into the checkout and repeat the command"
    )


def state_folder(root: Path) -> Path:
    return root / STATE_FOLDER


def variables(root: Path, current: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables for entry points and child processes in `root`, given those that are set already."""
    state = state_folder(root)
    return {
        "PREFECT_HOME": str(state / "prefect"),
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": str(EPHEMERAL_STARTUP_SECONDS),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": current.get("PREFECT_LOGGING_LEVEL", "WARNING"),
        "DVC_NO_ANALYTICS": "1",
        "DVC_SITE_CACHE_DIR": str(state / "dvc"),
        "DVC_GLOBAL_CONFIG_DIR": str(state / "dvc" / "global"),
        "DVC_SYSTEM_CONFIG_DIR": str(state / "dvc" / "system"),
        "DVC_STUDIO_OFFLINE": "1",
        "DO_NOT_TRACK": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "GX_ANALYTICS_ENABLED": "false",
        "ORT_DISABLE_TELEMETRY": "1",
        "MPLCONFIGDIR": str(state / "matplotlib"),
        "XDG_CACHE_HOME": str(state / "cache"),
        # torch makes this folder whether or not it compiles anything
        "TORCHINDUCTOR_CACHE_DIR": str(state / "torchinductor"),
        # a proxy has no business between processes of one machine
        "NO_PROXY": _with_loopback(current.get("NO_PROXY", "")),
        "no_proxy": _with_loopback(current.get("no_proxy", "")),
        "PATH": _with_scripts(current.get("PATH", os.defpath)),
    }


def prepare(root: Path) -> None:
    """Set the variables for this process and all that it starts. Call it before importing prefect or dvc."""
    values = variables(root)
    for name in ("PREFECT_HOME", "DVC_SITE_CACHE_DIR", "MPLCONFIGDIR", "XDG_CACHE_HOME"):
        Path(values[name]).mkdir(parents=True, exist_ok=True)
    os.environ.update(values)


def _with_loopback(hosts: str) -> str:
    given = [host for host in hosts.split(",") if host]
    return ",".join([*given, *(host for host in LOOPBACK if host not in given)])


def _with_scripts(path: str) -> str:
    # the interpreter's own folder holds `quintet` and `dvc`; a link into another Python must not be followed
    scripts = str(Path(sys.executable).parent)
    entries = path.split(os.pathsep)
    return path if entries[0] == scripts else os.pathsep.join([scripts, *entries])
