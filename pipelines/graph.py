"""The graph of `dvc.yaml` as DVC reads it, and which stages are up to date.

Neither is defined here: the stages, their dependencies and their state all come from DVC's own index. What is added is
a sentence that says why a stage must run.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.errors import ConfigError, UsageError
from pipelines.dvclocks import retry_while_busy

# Paths below these are the project's code; other inputs are data or configuration.
CODE_FOLDERS = ("components", "pipelines")
REASONS_SHOWN = 1


@dataclass(frozen=True)
class StageNode:
    """One stage. Paths are relative to the root, `depends_on` are addresses, `reason` is why it is (not) up to date."""

    address: str
    depends_on: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    up_to_date: bool
    reason: str


@dataclass(frozen=True)
class Graph:
    """All stages, each after those it depends on."""

    stages: tuple[StageNode, ...]

    def __getitem__(self, address: str) -> StageNode:
        for stage in self.stages:
            if stage.address == address:
                return stage
        raise UsageError(
            f"there is no stage {address!r} in dvc.yaml; it has: {', '.join(node.address for node in self.stages)}"
        )

    def ancestors(self, address: str) -> frozenset[str]:
        """The addresses of all stages that `address` depends on, directly or not."""
        direct = self[address].depends_on
        return frozenset(direct).union(*(self.ancestors(above) for above in direct))


def read_graph(root: Path) -> Graph:
    """Read the graph and every stage's state in one go. Raises ConfigError when dvc.yaml or dvc.lock is not valid."""
    # DVC names stages and files relative to the current folder
    with contextlib.chdir(root):
        return retry_while_busy(root, lambda: _read(root))


def _read(root: Path) -> Graph:
    from dvc.exceptions import DvcException
    from dvc.lock import LockError
    from dvc.repo import Repo

    logging.getLogger("dvc").setLevel(logging.WARNING)
    try:
        with Repo(str(root), _wait_for_lock=True) as repo, repo.lock:
            order = _in_order({stage: list(repo.index.graph.successors(stage)) for stage in repo.index.graph})
            producers = {str(out): stage.addressing for stage in order for out in stage.outs}
            return Graph(
                tuple(
                    _node(stage, [above.addressing for above in repo.index.graph.successors(stage)], producers)
                    for stage in order
                    if stage.cmd
                )
            )
    except LockError:
        raise
    except DvcException as error:
        raise ConfigError(f"DVC cannot read the graph in {root}: {' '.join(str(error).split())}") from error


def _in_order(above: Mapping[Any, list[Any]]) -> list[Any]:
    """All stages, each after those above it, as near to the order of `dvc.yaml` as that allows."""
    done: dict[Any, None] = {}

    def visit(stage: Any) -> None:
        if stage not in done:
            for other in above[stage]:
                visit(other)
            done[stage] = None

    for stage in above:
        visit(stage)
    return list(done)


def _node(stage: Any, above: Iterable[str], producers: Mapping[str, str]) -> StageNode:
    entries = stage.status().get(stage.addressing, [])
    ran_before = any(out.hash_info for out in stage.outs)
    return StageNode(
        address=stage.addressing,
        depends_on=tuple(sorted(above)),
        inputs=tuple(str(dependency) for dependency in stage.deps),
        outputs=tuple(str(out) for out in stage.outs),
        up_to_date=not entries,
        reason=explain(entries, producers, ran_before),
    )


def explain(entries: Iterable[Any], producers: Mapping[str, str], ran_before: bool = True) -> str:
    """A sentence for what DVC's status says of one stage. `producers` maps an output's path to its stage's address."""
    if not entries:
        return "nothing changed"
    if not ran_before:
        return "never run"
    found: list[str] = []
    for entry in entries:
        # a plain word, or a mapping with one kind of change
        parts = entry.items() if isinstance(entry, Mapping) else [(entry, {})]
        for kind, changes in parts:
            found += KINDS_OF_CHANGE.get(kind, lambda changes, producers, kind=kind: [kind])(changes, producers)
    rest = len(found) - REASONS_SHOWN
    return "; ".join([*found[:REASONS_SHOWN], *([f"and {rest} more"] if rest > 0 else [])])


def _changed_inputs(changes: Mapping[str, Any], producers: Mapping[str, str]) -> list[str]:
    found = []
    for path, change in changes.items():
        if isinstance(change, Mapping):
            found += [f"parameter {how}: {key}" for key, how in change.items()]
        elif path in producers:
            found.append(f"input {_INPUT_WORDS.get(change, change)}: {path} (from {producers[path]})")
        else:
            kind = "code" if path.split("/")[0] in CODE_FOLDERS else "input"
            found.append(f"{kind} {_INPUT_WORDS.get(change, change)}: {path}")
    return found


def _changed_outputs(changes: Mapping[str, Any], producers: Mapping[str, str]) -> list[str]:
    return [f"output {_OUTPUT_WORDS.get(change, change)}: {path}" for path, change in changes.items()]


_INPUT_WORDS = {"modified": "changed", "deleted": "missing", "new": "new"}
_OUTPUT_WORDS = {"modified": "changed by hand", "deleted": "missing", "not in cache": "not in the cache", "new": "new"}

KINDS_OF_CHANGE: dict[str, Callable[[Mapping[str, Any], Mapping[str, str]], list[str]]] = {
    "changed deps": _changed_inputs,
    "changed outs": _changed_outputs,
    "changed command": lambda changes, producers: ["command changed"],
    "changed checksum": lambda changes, producers: ["definition changed"],
    "always changed": lambda changes, producers: ["declared to run always"],
}
