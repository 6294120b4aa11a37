"""What the readers of text yield: parts that stream rows."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class TextRow:
    """One text, or a pair of them. `label` is an index into the classes, or the target of a regression.

    `group` names what must stay in one split, `thread` what may be asked to; None where nothing belongs to the row.
    """

    id: str
    text: str
    second: str | None
    label: int | float
    group: str | None = None
    thread: str | None = None


@dataclass(frozen=True)
class TextSource:
    """The splits of one set. `classes` None: labels are numbers to predict. `pairs`: every row has a second text."""

    classes: tuple[str, ...] | None
    pairs: bool
    parts: Mapping[str, Callable[[], Iterator[TextRow]]]
