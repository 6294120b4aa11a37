"""What the readers of language yield: lines of text by published split."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

Lines = Callable[[], Iterator[str]]


@dataclass(frozen=True)
class LanguageSource:
    """`parts`: a function that begins to yield the lines of a split, for each split that the publisher made.

    `begins_document` tells from the line before and a line whether it begins a document, which then stays in one split.
    """

    parts: Mapping[str, Lines]
    begins_document: Callable[[str, str], bool]
