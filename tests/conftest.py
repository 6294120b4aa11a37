"""Shared by all tests: quiet tools, explicit seeds, few threads."""

import os

import pytest

# Telemetry is off before anything that has some is imported.
os.environ.update(
    {
        "DO_NOT_TRACK": "1",
        "DVC_NO_ANALYTICS": "1",
        "GX_ANALYTICS_ENABLED": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "ORT_DISABLE_TELEMETRY": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }
)


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run on several workers, a folder that shares a costly fixture stays on one of them."""
    for item in items:
        folder = item.path.parent.name
        if folder in ("endtoend", "serving"):
            item.add_marker(pytest.mark.xdist_group(folder))
