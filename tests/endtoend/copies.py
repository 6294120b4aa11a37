"""Fresh copies of the checkout: made from the files that git knows or would know, run with a home folder of their own.

Everything that a run starts carries the copy's path in its environment and writes to the copy's ledger, see
`watch/sitecustomize.py`.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from components.files import files_below, sha256_file
from pipelines.processes import processes_with

REPOSITORY = Path(__file__).resolve().parents[2]
OUTPUT_FOLDERS = ("data/features", "data/prepared", "outputs")
ROOT_VARIABLE = "QUINTET_TEST_ROOT"
# Whatever the tests set for themselves must not help the run.
NOT_PASSED_ON = (
    "DO_NOT_TRACK", "DVC_", "GX_", "HYPOTHESIS_", "MLFLOW_", "MPLCONFIGDIR", "ORT_", "PREFECT_", "PYTEST_", "PYTHON",
    "QUINTET_", "XDG_",
)  # fmt: skip
RUN_SECONDS = 540


@dataclass(frozen=True)
class Ended:
    """A command that has ended: its exit code and what it said, standard output and error together."""

    code: int
    text: str

    @property
    def errors(self) -> list[str]:
        """The lines that begin with `error: `."""
        return [line for line in self.text.splitlines() if line.startswith("error: ")]


@dataclass(frozen=True)
class Copy:
    """A checkout in `folder`, with a home folder and a folder for temporary files that must both stay empty."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "checkout"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def temporary(self) -> Path:
        return self.folder / "temporary"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.jsonl"

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_PASSED_ON)}
        # the interpreter's folder first: `quintet` and `dvc` lie there; the copy's modules before the installed ones
        return kept | {
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "PYTHONPATH": os.pathsep.join([str(self.root / "tests" / "endtoend" / "watch"), str(self.root)]),
            "COLUMNS": "200",
            ROOT_VARIABLE: str(self.root),
            "QUINTET_TEST_LEDGER": str(self.ledger),
        }

    def start(self, *command: str, **environment: str) -> "subprocess.Popen[bytes]":
        """Start `command` in the copy, in a process group of its own; what it says goes to a file."""
        with self._said.open("wb") as output:
            return subprocess.Popen(
                command,
                cwd=self.root,
                env=self.environment | environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self, process: "subprocess.Popen[bytes]", seconds: float = RUN_SECONDS) -> Ended:
        """The end of `process`. One that takes longer than `seconds` is killed with all that it started."""
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill_all()
            raise
        return Ended(code, self.said)

    def call(self, *command: str, **environment: str) -> Ended:
        return self.wait(self.start(*command, **environment))

    def quintet(self, *arguments: str, **environment: str) -> Ended:
        return self.call("quintet", *arguments, **environment)

    def run_graph(self, *arguments: str, **environment: str) -> Ended:
        """`quintet run` with what params.yaml says, without the steps after the graph."""
        return self.quintet("run", "--no-after", *arguments, **environment)

    def compose(self, scale: str) -> None:
        """Write params.yaml for a scale, and run nothing."""
        code = f"import pathlib; from pipelines.scales import compose; compose(pathlib.Path.cwd(), {scale!r})"
        done = self.call(sys.executable, "-c", code)
        assert done.code == 0, done.text

    def forget(self, *addresses: str) -> None:
        """Delete the outputs of stages. DVC's cache still holds them, but a stage whose output is gone runs again."""
        for address in addresses:
            for path in self.lock()[address]:
                shutil.rmtree(self.root / path)

    def outputs(self) -> dict[str, str]:
        """sha256 of every file that a stage has put out, by its path."""
        folders = [self.root / name for name in OUTPUT_FOLDERS if (self.root / name).is_dir()]
        return {
            path.relative_to(self.root).as_posix(): sha256_file(path)
            for folder in folders
            for path in files_below(folder)
        }

    def lock(self) -> dict[str, dict[str, str]]:
        """What dvc.lock says of each stage: path and hash of its outputs."""
        stages = yaml.safe_load((self.root / "dvc.lock").read_text(encoding="utf-8"))["stages"]
        return {
            address: {out["path"]: out["md5"] for out in stage.get("outs", [])} for address, stage in stages.items()
        }

    def below(self, address: str) -> list[str]:
        """The stage and all that depend on its output, directly or not."""
        stages = yaml.safe_load((self.root / "dvc.lock").read_text(encoding="utf-8"))["stages"]
        found = [address]
        # the lock lists what a stage reads by path, and outputs never lie inside each other
        for known in found:
            made = {out["path"] for out in stages[known]["outs"]}
            reading = (name for name, stage in stages.items() if made & {dep["path"] for dep in stage["deps"]})
            found += [name for name in reading if name not in found]
        return found

    def outcomes(self) -> dict[str, str]:
        """How each stage of the last run ended, by its address."""
        content = json.loads((self.root / "run_info" / "last_run.json").read_text(encoding="utf-8"))
        return {entry["address"]: entry["outcome"] for entry in (*content["stages"], *content["after"])}

    def notes(self, *events: str) -> list[dict[str, Any]]:
        """What the ledger says of these events: start, connection, look-up, write."""
        if not self.ledger.exists():
            return []
        entries = (json.loads(line) for line in self.ledger.read_text(encoding="utf-8").splitlines())
        return [entry for entry in entries if entry["event"] in events]

    def forget_notes(self) -> None:
        self.ledger.unlink(missing_ok=True)

    def stages_started(self) -> dict[str, int]:
        """Address and process number of every `quintet stage` since the notes were forgotten, in their order."""
        commands = [(entry["argv"], entry["pid"]) for entry in self.notes("start")]
        return {argv[-1]: pid for argv, pid in commands if len(argv) >= 3 and argv[-2] == "stage"}

    def living(self) -> list[psutil.Process]:
        """All processes that runs in this copy have started and that are still there."""
        found = processes_with(ROOT_VARIABLE, str(self.root))
        return [process for process in found if _status(process) not in (None, psutil.STATUS_ZOMBIE)]

    def kill_all(self) -> None:
        for process in self.living():
            process.kill()

    @property
    def said(self) -> str:
        """What the last command that was started has said so far."""
        return self._said.read_text(encoding="utf-8", errors="replace")

    @property
    def _said(self) -> Path:
        return self.folder / "said.txt"


def _status(process: psutil.Process) -> str | None:
    try:
        return str(process.status())
    except psutil.Error:
        return None


def make_copy(folder: Path) -> Copy:
    """A copy of all files that git knows or would know, committed; nothing has run in it."""
    copy = Copy(folder)
    for made in (copy.root, copy.home, copy.temporary):
        made.mkdir(parents=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, target = REPOSITORY / name, copy.root / name
        # a file that git knows may have been deleted since
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), (*identity, "commit", "-q", "-m", "fresh copy")):
        subprocess.run(["git", *arguments], cwd=copy.root, env=copy.environment, check=True)
    return copy


def duplicate(copy: Copy, folder: Path) -> Copy:
    """The same checkout, with all that has run in it, at another place; without the tracking store.

    The store holds absolute paths, and refuses to be used from another place.
    """
    store = str(copy.root / "mlflow")
    kept = {".gitkeep", ".gitignore", "README.md"}

    def left_out(where: str, names: list[str]) -> list[str]:
        return [name for name in names if where == store and name not in kept]

    shutil.copytree(copy.root, folder / "checkout", symlinks=True, ignore=left_out)
    twin = Copy(folder)
    for made in (twin.home, twin.temporary):
        made.mkdir()
    return twin


def wait_for(condition: Callable[[], object], what: str, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.02)


def kill_hard(pid: int) -> None:
    """End one process, not its group, as the system does when memory runs out."""
    os.kill(pid, signal.SIGKILL)
