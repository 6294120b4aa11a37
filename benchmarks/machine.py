"""What a reader must know of the machine to judge a ratio, and nothing that tells which machine it is."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = (
    "torch",
    "numpy",
    "scikit-learn",
    "onnxruntime",
    "onnxruntime-gpu",
    "vector-quantize-pytorch",
    "slot-attention",
    "perceiver-pytorch",
)


def installed(package: str) -> str | None:
    """The version of `package` without its local part, or None."""
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return None


def description() -> str:
    """Kind of machine and versions in one sentence."""
    import torch

    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = [f"{package} {number}" for package in PACKAGES if (number := installed(package))]
    return (
        f"{cores} cores of {platform.machine()}, {gpu}, {platform.system()}, "
        f"Python {'.'.join(platform.python_version_tuple()[:2])}, {', '.join(found)}"
    )
