"""What the readers of text yield: parts that stream rows."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class TextRow:
    """One text, or a pair of them. `label` is an index into the classes, or the target of a regression.

    Rows that share one of `groups` must stay in one split; those that share one of `threads` may be asked to.
    """

    id: str
    text: str
    second: str | None
    label: int | float
    groups: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()


@dataclass(frozen=True)
class TextSource:
    """The splits of one set. `classes` None: labels are numbers to predict. `pairs`: every row has a second text."""

    classes: tuple[str, ...] | None
    pairs: bool
    parts: Mapping[str, Callable[[], Iterator[TextRow]]]
