"""A second clone gets all outputs from a DVC remote, computes nothing, and fills its own tracking store."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.tracking.lineage import COMMIT_SOURCE_TAG, COMMIT_TAG
from components.tracking.runs import DIGEST_TAG, HOST_TAG, PID_CREATED_TAG, PID_TAG
from components.tracking.upsert import SOURCE_COMMIT_TAG
from tests.endtoend import store
from tests.endtoend.copies import Copy
from tests.endtoend.undisturbed import First, differences

pytestmark = pytest.mark.endtoend


def git(copy: Copy, *arguments: str) -> None:
    identity = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=copy.root, env=copy.environment, check=True, capture_output=True)


# What is known only where the stages ran: the commit is told from that of the clone instead.
OF_THE_PLACE = {COMMIT_TAG, COMMIT_SOURCE_TAG, SOURCE_COMMIT_TAG, PID_TAG, PID_CREATED_TAG, HOST_TAG}


def lasting(contents: dict[str, Any]) -> dict[str, Any]:
    """The contents of a store without the tags of the place."""

    def kept(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(kept(part) for part in value)
        is_tags = isinstance(value, dict) and DIGEST_TAG in value
        return {key: tag for key, tag in value.items() if key not in OF_THE_PLACE} if is_tags else value

    return {name: kept(value) for name, value in contents.items()}


def test_a_second_clone_reproduces_from_the_remote_without_computing(
    done: Copy, by_flow: First, server: dict[str, str], tmp_path: Path
) -> None:
    remote = tmp_path / "remote"
    for arguments in (("remote", "add", "--local", "--default", "store", str(remote)), ("push",)):
        ended = done.call("dvc", *arguments)
        assert ended.code == 0, ended.text
    git(done, "add", "dvc.lock", "params.yaml")
    git(done, "commit", "--quiet", "-m", "Outputs")
    second = Copy(tmp_path / "second")
    for folder in (second.home, second.temporary):
        folder.mkdir(parents=True)
    subprocess.run(["git", "clone", "--quiet", done.root, second.root], check=True)
    try:
        assert second.outputs() == {}
        for arguments in (("remote", "add", "--local", "--default", "store", str(remote)), ("pull",)):
            ended = second.call("dvc", *arguments)
            assert ended.code == 0, ended.text
        assert differences(second.outputs(), by_flow.outputs) == []
        second.forget_notes()
        ended = second.quintet("run", **server)
        assert ended.code == 0, ended.text
        assert second.stages_started() == {}
        outcomes = second.outcomes()
        assert {outcomes.pop("sync"), outcomes.pop("report")} == {"ran"}
        assert set(outcomes.values()) == {"cached"}
        # the same runs, models and aliases, under the same digests
        assert differences(lasting(store.contents(second.root)), lasting(by_flow.tracked)) == []
        # nothing of the remote's place is in what git tracks
        status = subprocess.run(
            ["git", "status", "--porcelain"], cwd=second.root, capture_output=True, text=True, check=True
        )
        assert status.stdout == ""
    finally:
        second.kill_all()
