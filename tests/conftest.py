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
