"""Providers, packages and threads: every choice is explicit and comes with its reason."""

import os
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from quintet_serving import session
from quintet_serving.errors import BundleError, ProviderError
from small_bundle import onnx_model


def test_the_session_runs_where_and_with_what_it_says() -> None:
    opened = session.open_session(onnx_model())
    assert opened.session.get_providers() == ["CPUExecutionProvider"]
    assert opened.provider.value == "CPUExecutionProvider"
    assert "not asked" in opened.provider.reason
    assert opened.session.get_session_options().intra_op_num_threads == opened.threads.value >= 1
    assert opened.session.get_session_options().inter_op_num_threads == 1
    assert "affinity" in opened.threads.reason or "quota" in opened.threads.reason


def test_an_unknown_provider_and_a_broken_model_are_refused() -> None:
    with pytest.raises(ProviderError, match="cpu, cuda"):
        session.open_session(onnx_model(), "tpu")
    with pytest.raises(BundleError, match=r"model\.onnx cannot be read"):
        session.open_session(onnx_model()[:100])


def test_another_provider_than_asked_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    # what ONNX Runtime does without a usable GPU: a session on the CPU, and no exception.
    real = onnxruntime.InferenceSession

    def fallen_back(model: bytes, options: Any, providers: list[str]) -> Any:
        assert providers == ["CUDAExecutionProvider", "CPUExecutionProvider"]
        return real(model, options, providers=["CPUExecutionProvider"])

    monkeypatch.setattr(onnxruntime, "InferenceSession", fallen_back)
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None, raising=False)
    with pytest.raises(ProviderError, match="CUDAExecutionProvider was asked for and CPUExecutionProvider came up"):
        session.open_session(onnx_model(), "cuda")


@pytest.mark.parametrize(
    ("names", "sound"),
    [
        (["onnxruntime"], True),
        (["onnxruntime_gpu", "numpy"], True),
        (["onnxruntime", "onnxruntime-gpu"], False),
        (["numpy"], False),
    ],
)
def test_exactly_one_runtime_package(names: list[str], sound: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [SimpleNamespace(metadata={"Name": name}, version="1.31.1") for name in names]
    monkeypatch.setattr(metadata, "distributions", lambda: found)
    if sound:
        assert session.installed_runtime() == f"{names[0].replace('_', '-')} 1.31.1"
        return
    with pytest.raises(ProviderError, match="exactly one"):
        session.installed_runtime()


def write(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


V2 = "proc/self/cgroup"


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({V2: "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, None),
        ({V2: "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "150000 100000\n"}, 1.5),
        # a limit of the parent holds as well, and the smallest counts.
        ({V2: "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "400000 100000", "sys/fs/cgroup/a/cpu.max": "2000 1000"}, 2.0),
        # in a container the path is the host's, and the root of the tree is the container's own group.
        ({V2: "0::/host/path\n", "sys/fs/cgroup/cpu.max": "300000 100000\n"}, 3.0),
        (
            {
                V2: "5:cpuset:/x\n4:cpu,cpuacct:/x\n1:name=systemd:/x\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "250000\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
            },
            2.5,
        ),
        (
            {
                V2: "4:cpu,cpuacct:/x\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        ({V2: "0::/\n", "sys/fs/cgroup/cpu.max": "nonsense\n"}, None),
    ],
)
def test_the_quota_of_either_cgroup_version(files: dict[str, str], quota: float | None, tmp_path: Path) -> None:
    assert session.cpu_quota(write(tmp_path, files)) == quota


@pytest.mark.parametrize(
    ("quota", "threads", "reason"),
    [(None, 6, "no cgroup quota"), ("250000", 2, "quota of 2.5"), ("50000", 1, "quota of 0.5"), ("800000", 6, "6 pro")],
)
def test_threads_are_the_smaller_of_mask_and_quota(
    quota: str | None, threads: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    files = {V2: "0::/\n"} | ({"sys/fs/cgroup/cpu.max": f"{quota} 100000"} if quota else {})
    choice = session.thread_count(write(tmp_path, files))
    assert choice.value == threads
    assert reason in choice.reason
