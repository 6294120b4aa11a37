"""A second clone gets all outputs from a DVC remote, computes nothing, and fills its own tracking store."""

import subprocess
from pathlib import Path

import pytest

from tests.endtoend import store
from tests.endtoend.copies import Copy
from tests.endtoend.undisturbed import First, differences

pytestmark = pytest.mark.endtoend


def git(copy: Copy, *arguments: str) -> None:
    identity = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=copy.root, env=copy.environment, check=True, capture_output=True)


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
        assert differences(store.contents(second.root), by_flow.tracked) == []
        # nothing of the remote's place is in what git tracks
        status = subprocess.run(
            ["git", "status", "--porcelain"], cwd=second.root, capture_output=True, text=True, check=True
        )
        assert status.stdout == ""
    finally:
        second.kill_all()
