"""The stages of `dvc.yaml` for a configuration that is not the active one.

DVC resolves its templates with `params.yaml`. A study has a configuration for each arm, so the same templates are
resolved here with another one; a test holds both readings against each other.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from components.errors import UsageError
from components.stages.execution import Declaration

_PLACE = re.compile(r"\$\{(key|item\.[a-z_.]+)\}")


@dataclass(frozen=True)
class Templates:
    """The stages of one `dvc.yaml`, which is read once, like the files that its stages have parameters in."""

    root: Path
    _files: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def stages(self) -> dict[str, Any]:
        content = yaml.safe_load((self.root / "dvc.yaml").read_text(encoding="utf-8"))
        return dict(content["stages"])

    def declaration(self, params: Mapping[str, Any], address: str) -> Declaration:
        """Inputs, output and parameters of the stage STAGE@NAME under the configuration `params`.

        Raises UsageError when the configuration has no such name, or lacks a parameter that the stage needs.
        """
        stage, _, name = address.partition("@")
        template = self.stages[stage]
        section = template["foreach"].removeprefix("${").removesuffix("}")
        if name not in params.get(section, {}):
            raise UsageError(f"stage {address} needs {name!r} among the {section} of this scale")
        item = params[section][name]

        def filled(text: str) -> str:
            return _PLACE.sub(
                lambda found: name if found[1] == "key" else str(_value(item, found[1][len("item.") :], address)), text
            )

        body = template["do"]
        parameters: dict[str, Any] = {}
        for entry in body.get("params", ()):
            # a file with its names, or a name of params.yaml
            for file, names in entry.items() if isinstance(entry, dict) else [("params.yaml", [entry])]:
                content = params if file == "params.yaml" else self._file(file)
                for key in map(filled, names):
                    parameters[key] = _value(content, key, address)
        (output,) = (filled(out) for entry in body["outs"] for out in entry)
        return Declaration(tuple(sorted(filled(dep) for dep in body["deps"])), output, parameters)

    def producer(self, path: str) -> str | None:
        """The address of the stage whose output `path` is; None for a file of the checkout."""
        for stage, template in self.stages.items():
            for entry in template["do"]["outs"]:
                for out in entry:
                    folder = out.removesuffix("${key}")
                    if path.startswith(folder) and "/" not in path[len(folder) :]:
                        return f"{stage}@{path[len(folder) :]}"
        return None

    def _file(self, name: str) -> Any:
        if name not in self._files:
            self._files[name] = yaml.safe_load((self.root / name).read_text(encoding="utf-8"))
        return self._files[name]


def _value(content: Any, key: str, address: str) -> Any:
    for part in key.split("."):
        if not isinstance(content, Mapping) or part not in content:
            raise UsageError(f"the configuration has no {key}, which stage {address} needs")
        content = content[part]
    return content
