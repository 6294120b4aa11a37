"""What the arms of a study read: prepared and gated as the graph would do it, at the study's own scale.

The stages themselves do the work, outside DVC: `params.yaml` and the outputs of the graph stay as they are. What lies
in the checkout already, made by the same inputs, configuration and versions, is taken from there.
"""

import importlib
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.files import digest_of, read_json, replacing_folder, sha256_path
from components.stages.execution import STAGES, Context, Declaration, write_manifest
from components.studies.declarations import Templates

FOLDER = Path(".quintet/studies")

Say = Callable[[str], None]


@dataclass
class Inputs:
    """Finds or makes the outputs of stages for any configuration, each once, and hashes each file once.

    `say` gets a line for what takes time.
    """

    root: Path
    say: Say = lambda line: None
    templates: Templates = field(init=False)
    _made: dict[str, tuple[Path, str]] = field(default_factory=dict)
    _hashes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root = self.root.resolve()
        self.templates = Templates(self.root)

    def context(self, params: Mapping[str, Any], address: str, folder: Path) -> Context:
        """The context of a stage that writes into `folder`, with all that it reads made.

        Raises UsageError when the configuration lacks what the stage needs, and what the stages above it raise: a gate
        that refuses its data refuses the study.
        """
        declaration = self.templates.declaration(params, address)
        made: dict[str, Path] = {}
        digests: dict[str, str] = {}
        for path in declaration.inputs:
            producer = self.templates.producer(path)
            if producer is None:
                digests[path] = self.hash_of(path)
            else:
                made[path], digests[path] = self._output(params, producer)
        stage, _, name = address.partition("@")
        info = self.root / FOLDER / "run_info"
        return Context(self.root, address, stage, name, declaration, digests, folder, made=made, run_info=info)

    def hash_of(self, path: str) -> str:
        """Digest of a file or folder of the checkout, as it was when first asked for."""
        if path not in self._hashes:
            self._hashes[path] = sha256_path(self.root / path)
        return self._hashes[path]

    def code_of(self, params: Mapping[str, Any], address: str) -> dict[str, str]:
        """Digests of the files of the checkout that a stage depends on, without what other stages make."""
        declaration: Declaration = self.templates.declaration(params, address)
        return {path: self.hash_of(path) for path in declaration.inputs if self.templates.producer(path) is None}

    def _output(self, params: Mapping[str, Any], address: str) -> tuple[Path, str]:
        context = self.context(params, address, self.root)
        key = digest_of(context.identity)
        if key not in self._made:
            folder = self.root / FOLDER / "inputs" / key
            if not _is_whole(folder):
                self._make(context, folder)
            self._made[key] = (folder, sha256_path(folder))
        return self._made[key]

    def _make(self, context: Context, folder: Path) -> None:
        there = self.root / context.declaration.output
        if _is_whole(there, context.identity):
            with replacing_folder(folder) as fresh:
                shutil.copytree(there, fresh, dirs_exist_ok=True, copy_function=_link_or_copy)
            return
        self.say(f"{context.address} at the scale of the study")
        with replacing_folder(folder) as fresh:
            context.folder = fresh
            importlib.import_module(STAGES[context.stage]).run(context)
            write_manifest(context)


def _is_whole(folder: Path, identity: Mapping[str, Any] | None = None) -> bool:
    """Whether `folder` holds what its manifest says, and was made by `identity` where one is given."""
    if not (folder / "manifest.json").is_file():
        return False
    try:
        manifest = read_json(folder / "manifest.json")
        outputs = manifest.pop("outputs")
    except (ValueError, AttributeError, KeyError, TypeError):
        # a manifest that is none vouches for nothing: the output is made anew
        return False
    if identity is not None and manifest != identity:
        return False
    return all((folder / name).is_file() and sha256_path(folder / name) == digest for name, digest in outputs.items())


def _link_or_copy(source: str, target: str) -> None:
    # a stage never writes into its old output, so one file can be in both places
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
