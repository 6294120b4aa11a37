"""Shared by all tests: quiet tools, explicit seeds, few threads."""

import os

import pytest

from pipelines.interrupts import take_interrupts

# However the tests were started, in the background of a script too, interrupts are among what they test.
take_interrupts()
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


# Folders whose tests share a fixture that takes minutes.
TOGETHER = ("tests/endtoend/", "tests/serving/")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Where tests run on several workers, a folder that shares a costly fixture stays on one of them.

    xdist's own groups do not do it: they rename the tests by an attribute that pytest 9.2 no longer reads.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFolder(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid)

    return ByFolder(config, log)
