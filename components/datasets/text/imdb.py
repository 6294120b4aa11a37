"""The Large Movie Review Dataset as published: one file a review, aclImdb/SPLIT/LABEL/NUMBER_SCORE.txt."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from components.datasets.core.archives import Limits, members
from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault
from components.datasets.text.checks import Rows, checked
from components.datasets.text.options import TextOptions, text_options
from components.datasets.text.source import TextRow, TextSource

LIMITS = Limits(member_bytes=1 << 24, total_bytes=1 << 30, members=200_000)
REVIEW = re.compile(r"aclImdb/(train|test)/(neg|pos)/(\d+)_(\d+)\.txt", re.ASCII)
# A bad review has a score of at most 4, a good one of at least 7.
SCORES = {"neg": range(1, 5), "pos": range(7, 11)}


def read_imdb(paths: Sequence[Path], entry: Entry) -> TextSource:
    """The labelled reviews; the unlabelled ones are passed over. Raises DataError with the member at fault."""
    (path,) = paths
    options = text_options(entry)
    parts = {split: checked(path, _rows(path, split, options)) for split in ("train", "test")}
    return TextSource(options.classes, False, parts)


def _rows(path: Path, wanted: str, options: TextOptions) -> Rows:
    def reading() -> Iterator[TextRow]:
        for member in members(path, LIMITS):
            found = REVIEW.fullmatch(member.name)
            if found is None or found[1] != wanted:
                continue
            if int(found[4]) not in SCORES[found[2]]:
                came = f"score {found[4]} among {found[2]}"
                raise fault(path, f"member {member.name}", came, "scores 1 to 4 for neg, 7 to 10 for pos")
            text = "\n".join(member.lines())
            yield TextRow(f"{wanted}-{found[2]}-{found[3]}", text, None, (options.classes or ()).index(found[2]))

    return reading
