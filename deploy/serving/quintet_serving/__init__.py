"""Serve a Quintet bundle: verify it, check every request against its schema, and answer through ONNX Runtime."""

from typing import Any

__all__ = ["BundleRuntime"]


def __getattr__(name: str) -> Any:
    # bundles can be read and requests checked without MLServer; only the runtime class needs it.
    if name == "BundleRuntime":
        from quintet_serving.runtime import BundleRuntime

        return BundleRuntime
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
