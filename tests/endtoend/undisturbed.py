"""What an undisturbed run leaves, and in what a disturbed one that was run again differs from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.dvclocks import entries
from pipelines.locking import is_held, owner_path
from tests.endtoend import store
from tests.endtoend.copies import OUTPUT_FOLDERS, Copy, Ended


@dataclass(frozen=True)
class First:
    """A first run in a fresh copy: how it ended, what the tracking store held then, and the outputs."""

    copy: Copy
    ended: Ended
    outputs: dict[str, str]
    tracked: dict[str, Any]


def first_of(copy: Copy, ended: Ended) -> First:
    return First(copy, ended, copy.outputs(), store.contents(copy.root))


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The keys that two mappings do not share with the same value."""
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key))


def traces(copy: Copy, undisturbed: First, ended: Ended) -> list[str]:
    """Whatever tells the run that `ended` after a disturbance from an undisturbed one; nothing when all is well."""
    found = {
        f"exit code {ended.code}: {ended.text[-2000:]}": ended.code != 0,
        "dvc.lock": copy.lock() != undisturbed.copy.lock(),
        "the run lock is held": is_held(copy.root),
        "the run lock names an owner": owner_path(copy.root).exists(),
        "DVC's table of readers and writers": entries(copy.root) != [],
        "a process that goes on": copy.living() != [],
        "temporary files": any(copy.temporary.iterdir()),
        "the home folder": any(copy.home.iterdir()),
    }
    named = [what for what, is_so in found.items() if is_so]
    named += [f"output {name}" for name in differences(copy.outputs(), undisturbed.outputs)]
    named += differences(store.contents(copy.root), undisturbed.tracked)
    hidden = [path for folder in OUTPUT_FOLDERS for path in (copy.root / folder).rglob(".*.[no][el][wd]")]
    checkpoints = (copy.root / ".quintet" / "checkpoints").glob("*/last.ckpt")
    return named + [f"left behind: {path.relative_to(copy.root)}" for path in (*hidden, *checkpoints)]
