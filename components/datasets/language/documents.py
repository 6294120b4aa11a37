"""Whole documents into train, validation and test, in the order in which they stand."""

from collections.abc import Iterator
from itertools import islice

from components.datasets.language.source import LanguageSource, Lines
from components.errors import DataError


def deal_out(name: str, source: LanguageSource, validation: float, test: float) -> dict[str, Lines]:
    """All parts one after the other, cut at documents so that about these fractions of the words come last.

    Only the positions of documents are held in memory. Raises DataError where there are too few documents in `name`.
    """

    def lines() -> Iterator[str]:
        for part in source.parts.values():
            yield from part()

    # line at which each document begins, and the words before it
    begins, before = [0], [0]
    number = words = 0
    previous = ""
    for line in lines():
        if number and source.begins_document(previous, line):
            begins.append(number)
            before.append(words)
        words += len(line.split())
        number += 1
        previous = line
    first = _cut(before, words * (1 - validation - test), begins)
    second = _cut(before, words * (1 - test), begins)
    if not 0 < first < second < number:
        raise DataError(
            f"{name}: got {len(begins)} documents, allowed are as many as train, validation and test need at these "
            "fractions; take more text, or change prepare.validation and prepare.test in conf/dataset/"
        )
    return {
        "train": lambda: islice(lines(), first),
        "validation": lambda: islice(lines(), first, second),
        "test": lambda: islice(lines(), second, None),
    }


def _cut(before: list[int], words: float, begins: list[int]) -> int:
    """The line of the document that begins nearest to `words`."""
    nearest = min(range(len(before)), key=lambda place: (abs(before[place] - words), place))
    return begins[nearest]
