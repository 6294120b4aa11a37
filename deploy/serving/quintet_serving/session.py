"""Open an ONNX Runtime session on the device that was asked for, with a thread count that fits the container."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from quintet_serving.errors import BundleError, ProviderError

RUNTIMES = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-openvino")
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


@dataclass(frozen=True)
class Choice:
    """A decision of the program and why it was taken; the reason is logged and shown to clients."""

    value: Any
    reason: str


@dataclass(frozen=True)
class OpenSession:
    session: Any
    provider: Choice
    threads: Choice


def open_session(model: bytes, provider: str = "cpu") -> OpenSession:
    """A session that really runs on `provider` (cpu or cuda).

    Raises ProviderError when the runtime is not installed exactly once, when the provider is unknown, or when the
    session came up on another one, which ONNX Runtime itself only mentions on stderr. Raises BundleError when the
    model cannot be read.
    """
    if provider not in PROVIDERS:
        raise ProviderError(f"there is no provider {provider!r}; choose one of {', '.join(PROVIDERS)}")
    runtime = installed_runtime()
    # the official Linux wheels report their use to Microsoft and leave a device identifier in the home folder; only
    # this variable, set before the import, stops both (the call of the API comes after the first event).
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    threads = thread_count()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads.value
    options.inter_op_num_threads = 1
    wanted = PROVIDERS[provider]
    # operators without a CUDA kernel run on the CPU, so that provider stays in the list.
    listed = [wanted] if provider == "cpu" else [wanted, PROVIDERS["cpu"]]
    if provider == "cuda" and hasattr(onnxruntime, "preload_dlls"):
        onnxruntime.preload_dlls()
    try:
        session = onnxruntime.InferenceSession(model, options, providers=listed)
    except Exception as error:
        # the runtime raises a class of its own per fault, without a common base but Exception.
        raise BundleError(f"model.onnx cannot be read by {runtime}: {_one_line(error)}") from error
    real = session.get_providers()[0]
    if real != wanted:
        raise ProviderError(
            f"{wanted} was asked for and {real} came up: {runtime} did not find its CUDA 13 and cuDNN 9 libraries or"
            " a GPU; install them, or serve with --provider cpu"
        )
    reason = "asked for, and the session reports it" if provider == "cuda" else "CUDA was not asked for"
    return OpenSession(session, Choice(real, f"{reason} ({runtime})"), threads)


def installed_runtime() -> str:
    """Name and version of the one ONNX Runtime package. Raises ProviderError when there are none or several."""
    found = {
        distribution.metadata["Name"].lower().replace("_", "-"): distribution.version
        for distribution in metadata.distributions()
        if distribution.metadata["Name"]
    }
    present = [f"{name} {found[name]}" for name in RUNTIMES if name in found]
    if len(present) != 1:
        raise ProviderError(
            f"exactly one ONNX Runtime package must be installed, found {', '.join(present) or 'none'};"
            " make the serving environment anew from requirements.txt"
        )
    return present[0]


def thread_count(files: Path = Path("/")) -> Choice:
    """Threads for one inference: the smaller of the processors this process may use and the container's quota."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota(files)
    if quota is None or quota >= usable:
        limit = "no cgroup quota" if quota is None else f"a cgroup quota of {quota:g}"
        return Choice(usable, f"{usable} processors in the affinity mask, {limit}")
    return Choice(max(1, math.floor(quota)), f"a cgroup quota of {quota:g} below {usable} processors in the mask")


def cpu_quota(files: Path = Path("/")) -> float | None:
    """Processors that the cgroups of this process allow, the smallest along the path; None when they set no limit.

    `files` is the root under which /proc and /sys are read.
    """
    try:
        lines = (files / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        # no cgroups: another system than Linux, or /proc is hidden.
        return None
    quotas: list[float] = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        tree = files / "sys/fs/cgroup" / ("cpu" if controllers else "")
        inner = tree / path.lstrip("/")
        # inside a container the path may be that of the host and absent here; the root of the tree is then our own.
        for folder in [inner, *inner.parents]:
            if folder == tree.parent or not folder.is_relative_to(tree):
                break
            quotas += _quota_in(folder)
    return min(quotas, default=None)


def _quota_in(folder: Path) -> list[float]:
    """The quota that one cgroup sets: version 2 in cpu.max, version 1 in two files of microseconds."""
    try:
        if (folder / "cpu.max").is_file():
            quota, period = (folder / "cpu.max").read_text(encoding="utf-8").split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="utf-8").strip()
            period = (folder / "cpu.cfs_period_us").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return []
    return [] if quota in ("max", "-1") else [int(quota) / int(period)]


def check_graph(session: Any, inputs: Mapping[str, tuple[str, int]], outputs: Mapping[str, tuple[str, int]]) -> None:
    """Compare the graph with the schema: same names, and for each the same datatype and number of axes.

    `inputs` and `outputs` map a name to (datatype, axes). Raises BundleError.
    """
    for side, described, nodes in (
        ("inputs", inputs, session.get_inputs()),
        ("outputs", outputs, session.get_outputs()),
    ):
        real = {node.name: (ONNX_TYPES.get(node.type, node.type), len(node.shape)) for node in nodes}
        if real != dict(described):
            raise BundleError(
                f"model.onnx and schema.json disagree on {side}: {_listed(real)} in the model, {_listed(described)} in"
                " the schema; export the bundle again"
            )


ONNX_TYPES = {"tensor(float)": "FP32", "tensor(bool)": "BOOL", "tensor(int64)": "INT64"}


def _listed(tensors: Mapping[str, tuple[str, int]]) -> str:
    return ", ".join(f"{name} {kind} of {axes} axes" for name, (kind, axes) in sorted(tensors.items())) or "none"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
