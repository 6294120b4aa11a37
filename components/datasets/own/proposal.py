"""What was inferred of a user's data, for the user to look at before anything is written."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Proposal:
    """`file` is what will be kept: the user's own file, or an archive of their folder made in a scratch place.

    `shown` are lines for the user; `prepare` and `gate` are the options that the kind's two stages need.
    """

    kind: str
    source: str
    reader: str
    file: Path
    split: str | None
    rows: int
    options: dict[str, Any]
    prepare: dict[str, Any] = field(default_factory=dict)
    gate: dict[str, Any] = field(default_factory=dict)
    shown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wishes:
    """What the user said on the command line: names of columns, where they were given."""

    text: str | None = None
    label: str | None = None
