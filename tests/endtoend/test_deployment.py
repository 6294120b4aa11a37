"""The deployment `reproduce`, once, at scale tiny, on the real graph, through a real Prefect server and worker."""

import json
import urllib.request

import pytest

from tests.endtoend.copies import Copy
from tests.endtoend.studies import NAME, STUDY, finished, write_studies

pytestmark = pytest.mark.endtoend

ANEW = "evaluate@orbital-kind"


def port_free() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def asked(url: str, body: dict[str, object] | None = None) -> object:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=20) as response:  # noqa: S310
        return json.load(response)


def test_the_deployment_brings_the_graph_up_to_date(done: Copy) -> None:
    done.forget(ANEW)
    before = done.outputs()
    prefect_port, mlflow_port = port_free(), port_free()
    try:
        started = done.quintet("up", "--prefect-port", str(prefect_port), "--mlflow-port", str(mlflow_port))
        assert started.code == 0, started.text
        api = f"http://127.0.0.1:{prefect_port}/api"
        settings = {"PREFECT_API_URL": api, "PREFECT_HOME": str(done.root / ".quintet" / "prefect")}
        run = ("prefect", "deployment", "run", "reproduce/reproduce", "--watch")
        refused = done.call(*run, "--param", 'scale="huge"', **settings)
        assert refused.code != 0
        ended = done.call(*run, "--param", 'scale="tiny"', **settings)
        assert ended.code == 0, ended.text + (done.root / "run_info/logs/prefect-worker.log").read_text()
        outcomes = done.outcomes()
        assert outcomes.pop(ANEW) == "ran"
        assert {outcomes.pop(step) for step in ("sync", "report")} == {"ran"}
        assert set(outcomes.values()) == {"cached"}
        assert {path: digest for path, digest in done.outputs().items() if path in before} == before
        states = asked(f"{api}/task_runs/filter", {"limit": 100})
        assert isinstance(states, list)
        assert {state["state_name"] for state in states} == {"Cached", "Completed"}
        write_studies(done, **{NAME: {**STUDY, "seeds": [1, 2]}})
        ablate = ("prefect", "deployment", "run", "ablate/ablate", "--watch")
        refused = done.call(*ablate, "--param", 'study="nobody"', **settings)
        assert refused.code != 0
        ended = done.call(*ablate, "--param", f'study="{NAME}"', **settings)
        assert ended.code == 0, ended.text + (done.root / "run_info/logs/prefect-worker.log").read_text()
        assert len(finished(done)) == 8
        artifacts = asked(f"{api}/artifacts/filter", {"limit": 100})
        assert isinstance(artifacts, list)
        shown = {artifact["key"]: artifact for artifact in artifacts}
        assert shown[f"study-{NAME}-progress"]["data"] == 100.0
        assert "8 of 8 runs done" in shown[f"study-{NAME}"]["data"]
        found = asked(
            f"http://127.0.0.1:{mlflow_port}/api/2.0/mlflow/registered-models/alias?name=orbital-kind&alias=champion"
        )
        assert isinstance(found, dict)
        assert found["model_version"]["name"] == "orbital-kind"
    finally:
        stopped = done.quintet("down")
    assert stopped.code == 0, stopped.text
    assert done.living() == []
