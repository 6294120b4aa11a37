"""A small DVC project with the shape of the real graph: two chains of three stages."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

# Writes its name, its parameter and its inputs to its output; waits or fails when a file beside the graph asks for it.
STAGE = """
import json, os, pathlib, sys, time
from pipelines.locking import hold_run_lock
from pipelines.watch import DVC_VARIABLE, end_with_parent

end_with_parent()
address, output, *inputs = sys.argv[1:]
root = pathlib.Path.cwd()
with hold_run_lock(root, wait=DVC_VARIABLE not in os.environ):
    with (root / "calls.txt").open("a") as file:
        file.write(f"{address} {os.getpid()}\\n")
    print("working on", address, flush=True)
    while (root / f"wait.{address}").exists():
        time.sleep(0.05)
    if (root / f"fail.{address}").exists():
        sys.exit(f"error: {address} refused: row 7 of table.csv has no period")
    target = root / output
    target.mkdir(parents=True, exist_ok=True)
    text = address + " " + (root / "params.yaml").read_text() + "".join((root / name).read_text() for name in inputs)
    (target / "value.txt").write_text(text)
    if address.startswith("gate_"):
        (target / "report.json").write_text(json.dumps({"verdict": "passed", "findings": []}))
"""

STAGES = ("prepare", "train", "gate_model")
ADDRESSES = tuple(f"{stage}@{name}" for stage in STAGES for name in ("a", "b"))

TEMPLATE = """
  {stage}:
    foreach: [a, b]
    do:
      cmd: {python} components/stage.py {stage}@${{item}} {output} {arguments}
      deps:
      - components
{deps}
      params:
      - size
      outs:
      - {output}:
          persist: true
"""
CHAIN = (("prepare", "data/prepared"), ("train", "outputs/train"), ("gate_model", "outputs/gate_model"))
GITIGNORE = ".quintet/\nrun_info/\nmlflow/\ncalls.txt\nwait.*\nfail.*\n/data/\n/outputs/\n"


def graph_text(*, persist: bool = True) -> str:
    text = "stages:"
    above = ""
    for stage, folder in CHAIN:
        text += TEMPLATE.format(
            stage=stage,
            python=sys.executable,
            output=f"{folder}/${{item}}",
            arguments=f"{above}/${{item}}/value.txt" if above else "",
            deps=f"      - {above}/${{item}}" if above else "",
        )
        above = folder
    return text if persist else text.replace(":\n          persist: true", "")


class Toy:
    """The project in a folder, with a home folder beside it that must stay empty."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        self.home = folder / "home"

    @property
    def environment(self) -> dict[str, str]:
        ours = ("QUINTET_", "PREFECT_", "DVC_", "XDG_", "MPLCONFIGDIR")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return kept | {"HOME": str(self.home), "PYTHONPATH": str(REPOSITORY), "COLUMNS": "160"}

    def start(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        """Start `python -m ARGUMENTS` in the project, in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=self.root,
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def call(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        process = self.start(*arguments, **environment)
        try:
            output, _ = process.communicate(timeout=240)
        finally:
            process.kill()
        return subprocess.CompletedProcess(arguments, process.returncode, output, "")

    def quintet(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return self.call("pipelines.cli", *arguments, **environment)

    def dvc(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return self.call("dvc", *arguments, **self.dvc_variables)

    @property
    def dvc_variables(self) -> dict[str, str]:
        state = str(self.root / ".quintet" / "dvc")
        return {"DVC_NO_ANALYTICS": "1", "DVC_SITE_CACHE_DIR": state, "DVC_GLOBAL_CONFIG_DIR": state}

    def ask(self, what: str, address: str) -> Path:
        """Make a stage `wait` (until the returned file is deleted) or `fail`."""
        path = self.root / f"{what}.{address}"
        path.touch()
        return path

    @property
    def calls(self) -> list[str]:
        """The addresses of the stage processes that were started, in their order."""
        return [line.split()[0] for line in self._log()]

    def forget_calls(self) -> None:
        (self.root / "calls.txt").unlink(missing_ok=True)

    def pid_of(self, address: str) -> int:
        """The process of a stage, once it has begun."""
        wait_for(lambda: address in self.calls, f"{address} to begin")
        return next(int(line.split()[1]) for line in reversed(self._log()) if line.split()[0] == address)

    def output(self, address: str) -> Path:
        stage, _, name = address.partition("@")
        return self.root / dict(CHAIN)[stage] / name

    def value(self, address: str) -> str:
        return (self.output(address) / "value.txt").read_text()

    def log(self, address: str) -> str:
        return (self.root / "run_info" / "logs" / f"{address}.log").read_text()

    def _log(self) -> list[str]:
        log = self.root / "calls.txt"
        return log.read_text().splitlines() if log.exists() else []


def make_toy(folder: Path) -> Toy:
    toy = Toy(folder)
    toy.root.mkdir(parents=True)
    toy.home.mkdir()
    (toy.root / "components").mkdir()
    (toy.root / "components" / "stage.py").write_text(STAGE)
    (toy.root / "dvc.yaml").write_text(graph_text())
    (toy.root / "params.yaml").write_text("scale: tiny\nsize: 1\n")
    (toy.root / ".gitignore").write_text(GITIGNORE)
    (toy.root / "conf" / "scale").mkdir(parents=True)
    for name, size in (("tiny", 1), ("quick", 2)):
        (toy.root / "conf" / "scale" / f"{name}.yaml").write_text(f"# @package _global_\nscale: {name}\nsize: {size}\n")
    (toy.root / "conf" / "config.yaml").write_text("defaults:\n  - scale: tiny\n  - _self_\n")
    git = ["git", "-c", "user.name=toy", "-c", "user.email=toy@example.org"]
    for command in (
        ["git", "init", "-q", "-b", "main"],
        [sys.executable, "-m", "dvc", "init", "-q"],
        ["git", "add", "-A"],
        [*git, "commit", "-q", "-m", "toy"],
    ):
        subprocess.run(command, cwd=toy.root, env=toy.environment | toy.dvc_variables, check=True)
    return toy


def copy_toy(toy: Toy, folder: Path) -> Toy:
    shutil.copytree(toy.root.parent, folder, symlinks=True)
    return Toy(folder)


def wait_for(condition: Callable[[], object], what: str, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def kill_hard(process: "subprocess.Popen[str]") -> None:
    """End one process, not its group, as the system does when memory runs out."""
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
