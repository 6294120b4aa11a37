"""`quintet doctor`: is this machine and this checkout fit to run, and if not, what to do.

A check is a function of the root that returns a verdict; the list of all is `CHECKS`. Nothing is believed that can be
tried: the inference provider, say, is read from a session that was made.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from components.datasets.core.sources import MIRROR_VARIABLE, mirror_folder
from components.errors import TrackingError
from pipelines.dvclocks import entries
from pipelines.environment import variables
from pipelines.locking import is_held, read_owner
from pipelines.verdicts import Level, Verdict, ok, problem, warning
from pipelines.versions import check_onnxruntime, check_packages, check_python

PROBLEM_BYTES = 1e9
WARNING_BYTES = 5e9
SILENCED = (
    "DO_NOT_TRACK",
    "PREFECT_SERVER_ANALYTICS_ENABLED",
    "DVC_NO_ANALYTICS",
    "MLFLOW_DISABLE_TELEMETRY",
    "GX_ANALYTICS_ENABLED",
    "ORT_DISABLE_TELEMETRY",
)
STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "bold red"}


def check_device(root: Path) -> Verdict:
    import torch

    if torch.cuda.is_available():
        return ok("device", f"cuda: {torch.cuda.get_device_name(0)} (torch {torch.__version__})")
    reason = "torch is built without CUDA" if torch.version.cuda is None else "torch finds no CUDA device"
    return ok("device", f"cpu, {os.cpu_count()} cores: {reason} (torch {torch.__version__})")


def check_inference(root: Path) -> Verdict:
    """What a session that was asked for the best provider really computes on."""
    import onnxruntime
    import torch

    wanted = "CUDAExecutionProvider" if torch.cuda.is_available() else "CPUExecutionProvider"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(_identity_model(), options, providers=[wanted])
    got = session.get_providers()[0]
    said = f"{got}, from a session that was made (asked for: {wanted})"
    if got == wanted:
        return ok("inference", said)
    return warning("inference", said, "install CUDA 13 and cuDNN 9 for onnxruntime-gpu, or go on with the CPU")


def check_tracking(root: Path) -> Verdict:
    from components.tracking.store import sqlite_file, tracking_uri

    try:
        uri = tracking_uri(root)
    except TrackingError as error:
        return problem("tracking", str(error), "unset MLFLOW_TRACKING_URI, or give it an address of that form")
    file = sqlite_file(uri)
    if file is not None and not file.exists():
        return ok("tracking", f"{uri} is not made yet; the first run or `quintet sync` makes it")
    from components.tracking.store import open_client

    try:
        count = len(open_client(root).search_experiments())
    except Exception as error:  # noqa: BLE001
        # whatever the store or the network raises, the store cannot be used
        reason = " ".join(str(error).split())
        return problem(
            "tracking",
            f"{uri} cannot be read: {reason}",
            "delete mlflow/mlflow.db and run `quintet sync`, or start the server",
        )
    return ok("tracking", f"{uri}, {count} experiments")


def check_dvc(root: Path) -> Verdict:
    lock = root / "dvc.lock"
    try:
        stages = len((yaml.safe_load(lock.read_text(encoding="utf-8")) or {}).get("stages", {})) if lock.exists() else 0
    except (yaml.YAMLError, AttributeError):
        return problem("dvc", "dvc.lock is not whole", "git checkout HEAD -- dvc.lock, then `quintet run`")
    try:
        found = entries(root)
    except (ValueError, AttributeError, KeyError, TypeError):
        return warning(
            "dvc", ".dvc/tmp/rwlock is not whole: a DVC was killed while it wrote it", "the next `quintet run` mends it"
        )
    dead = [entry for entry in found if not entry.alive()]
    if dead:
        named = f"{len(dead)} entries in .dvc/tmp/rwlock of dead processes, such as {dead[0].pid} (`{dead[0].command}`)"
        return warning("dvc", named, "the next `quintet run` clears them")
    holders = sorted({f"process {entry.pid} (`{entry.command}`)" for entry in found})
    return ok(
        "dvc", f"{stages} stages in dvc.lock; {'files held by ' + ', '.join(holders) if holders else 'no file is held'}"
    )


def check_run_lock(root: Path) -> Verdict:
    owner = read_owner(root)
    if is_held(root):
        return ok("run lock", f"held by {owner or 'a process that has not said its name yet'}")
    if owner:
        return warning(
            "run lock", f"free; {owner} was killed while it held it", "the next `quintet run` ends what is left of it"
        )
    return ok("run lock", "free")


def check_disk(root: Path) -> Verdict:
    free = shutil.disk_usage(root).free
    found = f"{free / 1e9:.1f} GB free"
    if free < PROBLEM_BYTES:
        return problem("disk", found, "make room: `dvc gc --workspace` drops outputs that no stage refers to")
    if free < WARNING_BYTES:
        return warning("disk", found, "the serving environment alone takes 0.7 GB; `dvc gc --workspace` makes room")
    return ok("disk", found)


def check_telemetry(root: Path) -> Verdict:
    wanted = variables(root)
    loud = [name for name in SILENCED if os.environ.get(name) != wanted[name]]
    if loud:
        return problem(
            "telemetry", f"not switched off: {', '.join(loud)}", "start tools by `quintet`, or set these variables"
        )
    return ok("telemetry", "off for Prefect, DVC, MLflow, Great Expectations and ONNX Runtime")


def check_mirror(root: Path) -> Verdict:
    folder = mirror_folder(None)
    if folder is None:
        return ok(
            "data mirror", f"{MIRROR_VARIABLE} is not set: shipped samples are used, the rest is fetched when asked for"
        )
    if folder.is_dir():
        return ok("data mirror", str(folder))
    return problem(
        "data mirror",
        f"{MIRROR_VARIABLE} names {folder}, which is no folder",
        f"unset {MIRROR_VARIABLE}, or name a folder",
    )


CHECKS: dict[str, Callable[[Path], Verdict]] = {
    "python": check_python,
    "packages": check_packages,
    "onnxruntime": check_onnxruntime,
    "device": check_device,
    "inference": check_inference,
    "tracking": check_tracking,
    "dvc": check_dvc,
    "run lock": check_run_lock,
    "disk": check_disk,
    "telemetry": check_telemetry,
    "data mirror": check_mirror,
}


def examine(root: Path) -> tuple[Verdict, ...]:
    """The verdict of every check. One that cannot be made is a problem, and does not keep the others from theirs."""
    return tuple(_examined(name, check, root) for name, check in CHECKS.items())


def print_verdicts(verdicts: tuple[Verdict, ...], console: Console) -> None:
    table = Table()
    for column in ("check", "verdict", "found", "fix"):
        table.add_column(column, overflow="fold")
    for verdict in verdicts:
        table.add_row(
            verdict.name, f"[{STYLES[verdict.level]}]{verdict.level}[/]", escape(verdict.found), escape(verdict.fix)
        )
    console.print(table)


def _examined(name: str, check: Callable[[Path], Verdict], root: Path) -> Verdict:
    try:
        return check(root)
    except Exception as error:  # noqa: BLE001
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return problem(name, f"cannot be checked: {reason}", "make setup")


def _identity_model() -> bytes:
    from onnx import TensorProto, helper

    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "doctor", value[:1], value[1:])
    # the runtime reads older forms than the onnx package writes by default
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    content: bytes = model.SerializeToString()
    return content
