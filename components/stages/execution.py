"""How a stage runs: what it may read, what it must leave behind, and what it says about itself.

A stage is a module with a function `run(context)`. It reads only what `dvc.yaml` declares for it, writes into an empty
folder that takes the place of the old output when the function returns, and leaves a manifest beside its files. What
depends on the moment or the machine goes to `run_info/stages/`, which is no output.
"""

import importlib
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pydantic import BaseModel

from components.config import validated
from components.errors import QuintetError, UsageError
from components.files import digest_of, files_below, read_json, replacing_folder, sha256_path, write_json

Section = TypeVar("Section", bound=BaseModel)

# A new kind of stage is a module and a line here.
STAGES = {
    "prepare": "components.stages.prepare",
    "gate_data": "components.stages.gate_data",
    "features": "components.stages.features",
    "gate_features": "components.stages.gate_features",
    "train": "components.stages.train",
    "gate_model": "components.stages.gate_model",
    "evaluate": "components.stages.evaluate",
    "export": "components.stages.export",
    "gate_export": "components.stages.gate_export",
}

# The packages whose version can change a result. Local parts ("+cpu") name a build, not a version, and are left out.
RECORDED_PACKAGES = (
    "great-expectations",
    "lightning",
    "numpy",
    "onnx",
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxscript",
    "pandas",
    "pillow",
    "pyarrow",
    "scikit-learn",
    "scipy",
    "sgp4",
    "tokenizers",
    "torch",
    "transformers",
)


@dataclass(frozen=True)
class Declaration:
    """What `dvc.yaml` says of one stage: paths relative to the root, and the values of its parameters."""

    inputs: tuple[str, ...]
    output: str
    parameters: Mapping[str, Any]


@dataclass
class Context:
    """What a stage function gets. `folder` is where it writes; `input()` is how it finds what it reads.

    `made` says where outputs of other stages lie when not at their place in the checkout; `info` is the folder of what
    depends on the moment, `run_info` for a stage of the graph.
    """

    root: Path
    address: str
    stage: str
    name: str
    declaration: Declaration
    input_digests: Mapping[str, str]
    folder: Path
    notes: dict[str, Any] = field(default_factory=dict)
    made: Mapping[str, Path] = field(default_factory=dict)
    run_info: Path | None = None

    @property
    def info(self) -> Path:
        return self.run_info or self.root / "run_info"

    def input(self, path: str) -> Path:
        """Absolute path of a declared input, or of a file in a declared folder."""
        inside = any(path == declared or path.startswith(f"{declared}/") for declared in self.declaration.inputs)
        if not inside or ".." in PurePosixPath(path).parts:
            raise RuntimeError(f"stage {self.address} reads {path}, which dvc.yaml does not list among its deps")
        for place, folder in self.made.items():
            if path == place or path.startswith(f"{place}/"):
                return folder / PurePosixPath(path).relative_to(place)
        return self.root / path

    def section(self, kind: type[Section], prefix: str) -> Section:
        """The declared parameters below `prefix` as a checked section of the configuration."""
        return validated(kind, self.values(prefix), f"{prefix} in params.yaml")

    def values(self, prefix: str) -> Any:
        """The declared parameters below `prefix`, nested as in the file they come from."""
        nested: dict[str, Any] = {}
        for key, value in self.declaration.parameters.items():
            if key == prefix:
                return value
            if key.startswith(f"{prefix}."):
                nested[key.removeprefix(f"{prefix}.")] = value
        if not nested:
            raise RuntimeError(f"stage {self.address} reads {prefix}, which dvc.yaml does not list among its params")
        return nested

    @property
    def identity(self) -> dict[str, Any]:
        """All that determines this stage's output: inputs, configuration, versions."""
        return {
            "format": "quintet-manifest/1",
            "stage": self.stage,
            "name": self.name,
            "inputs": dict(self.input_digests),
            "parameters": dict(self.declaration.parameters),
            "versions": package_versions(),
        }

    def note(self, **facts: Any) -> None:
        """Say something that depends on the machine or the moment: the device and why, the source of a download."""
        self.notes.update(facts)


def package_versions() -> dict[str, str]:
    versions = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in RECORDED_PACKAGES:
        try:
            versions[package] = version(package).partition("+")[0]
        except PackageNotFoundError:
            # the two onnxruntime packages exclude each other; the absent one is recorded by its absence
            continue
    return versions


def run_stage(root: Path, address: str) -> None:
    """Run the stage `STAGE@NAME` of the graph in `root`. Raises UsageError for an address that does not exist."""
    root = root.resolve()
    stage, _, name = address.partition("@")
    declaration = read_declaration(root, address)
    function: Callable[[Context], None] = importlib.import_module(STAGES[stage]).run
    target = root / declaration.output
    started = datetime.now(UTC)
    clock = time.monotonic()
    report: dict[str, Any] = {
        "address": address,
        "state": "running",
        "started": started.isoformat(timespec="seconds"),
        "pid": os.getpid(),
        "git_commit": git_commit(root),
        "digest": None,
        "error": None,
    }
    report_path = root / "run_info" / "stages" / f"{address}.json"
    write_json(report_path, report)
    notes: dict[str, Any] = {}
    try:
        digests = hash_inputs(root, declaration)
        with replacing_folder(target) as folder:
            context = Context(root, address, stage, name, declaration, digests, folder, notes)
            function(context)
            refuse_changed_inputs(root, declaration, digests)
            write_manifest(context)
        report |= {"state": "succeeded", "digest": digest_of(read_json(target / "manifest.json"))}
    except BaseException as error:
        message = str(error) if isinstance(error, QuintetError) else f"{type(error).__name__}: {error}"
        report |= {"state": "failed", "error": one_line(message)}
        raise
    finally:
        write_json(report_path, {**report, **notes, "seconds": round(time.monotonic() - clock, 3)})


def write_manifest(context: Context) -> None:
    """Say beside the output what made it and what it consists of."""
    outputs = {file.relative_to(context.folder).as_posix(): sha256_path(file) for file in files_below(context.folder)}
    write_json(context.folder / "manifest.json", {**context.identity, "outputs": outputs})


def read_declaration(root: Path, address: str) -> Declaration:
    """Ask DVC's own reading of `dvc.yaml` and `params.yaml`, so that nothing is written down twice.

    Only these are read: `dvc.lock` may at this moment be half written by the runner of another stage.
    """
    from dvc.dependency.param import ParamsDependency
    from dvc.dvcfile import load_file
    from dvc.repo import Repo
    from dvc.stage.loader import StageLoader

    with Repo(str(root)) as repo:
        graph = load_file(repo, str(root / "dvc.yaml"))
        addresses = list(graph.resolver.get_keys())
        if address not in addresses or address.partition("@")[0] not in STAGES:
            raise UsageError(f"there is no stage {address!r}; the graph has: {', '.join(addresses)}")
        definition = graph.resolver.resolve_one(address)[address]
        stage = StageLoader.load_stage(graph, address, definition, {})
        inputs = [dep.def_path for dep in stage.deps if not isinstance(dep, ParamsDependency)]
        parameters: dict[str, Any] = {}
        for dep in stage.deps:
            if isinstance(dep, ParamsDependency):
                found = dep.read_params()
                absent = sorted(set(dep.params) - set(found))
                if absent:
                    raise UsageError(f"{dep.def_path} has no {absent[0]}, which stage {address} needs")
                parameters |= found
        (output,) = [out.def_path for out in stage.outs]
    return Declaration(tuple(sorted(inputs)), output, parameters)


def hash_inputs(root: Path, declaration: Declaration) -> dict[str, str]:
    absent = [path for path in declaration.inputs if not (root / path).exists()]
    if absent:
        raise QuintetError(f"{absent[0]} does not exist; run `quintet run`, which makes what is missing in order")
    return {path: sha256_path(root / path) for path in declaration.inputs}


def refuse_changed_inputs(root: Path, declaration: Declaration, before: Mapping[str, str]) -> None:
    """DVC hashes dependencies after the command: a file edited meanwhile would pass as the one that was read."""
    for path, digest in hash_inputs(root, declaration).items():
        if digest != before[path]:
            raise QuintetError(
                f"{path} changed while the stage ran, so its result belongs to neither version; run again"
            )


def one_line(message: str) -> str:
    """The lines of `message` in a row. Blanks inside a line stay: they may be part of a value that it quotes."""
    return " ".join(line.strip() for line in message.splitlines() if line.strip())


def git_commit(root: Path) -> str | None:
    answer = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else None
