"""What the two generators share: a reader of entries without files, and what is told of settings of one's own."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from components.config import Strict, validated
from components.datasets.core.catalogue import Entry
from components.datasets.longrange.config import PrepareOptions
from components.datasets.longrange.source import Sequences
from components.errors import DataError
from components.progress import Tell

Generated = Callable[[PrepareOptions, Tell], Sequences]


class NoOptions(Strict):
    """A generator takes its settings from the configuration, none from the catalogue."""


def generated(paths: Sequence[Path], entry: Entry, generator: Generated) -> Generated:
    """`generator`, if the entry is one of a generator."""
    if paths or not entry.generated:
        raise DataError(
            f"{entry.name}: got {len(paths)} files for the generator {entry.reader}, allowed are none; write "
            "`generated: true` without files in data/catalogue.yaml"
        )
    validated(NoOptions, entry.options, f"options of {entry.name} in data/catalogue.yaml")
    return generator


def variant(form: Strict, published: Strict, name: str) -> dict[str, Any]:
    """For the summary: whether the settings are the published ones, and where not, which and how."""
    changed = {
        key: [value, getattr(form, key)] for key, value in published.model_dump().items() if getattr(form, key) != value
    }
    told = ", ".join(f"{key} {given:g} in place of {due:g}" for key, (due, given) in changed.items())
    return {"variant": f"{name} with {told}" if changed else f"{name} with the published settings"}


def of_generator(source: Generated, entry: Entry, options: PrepareOptions, tell: Tell) -> Sequences:
    """What the generator makes of the options."""
    return source(options, tell)
