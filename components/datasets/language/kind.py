"""Streams of tokens as a kind of data: train.npy, validation.npy, test.npy (tokens,) and vocabulary.json."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.datasets.language.config import GateOptions, PrepareOptions

if TYPE_CHECKING:
    from components.datasets.core.catalogue import Entry
    from components.datasets.language.source import LanguageSource, Lines
    from components.progress import Tell

READERS = ("wikitext-tokens", "wikitext-archive", "language-text", "language-csv")
# Few enough that they stay in the processor's cache.
TOKENS_AT_ONCE = 1 << 12
# Numbers up to 65,535 fit into two bytes.
SMALL = 1 << 16

__all__ = ["READERS", "GateOptions", "PrepareOptions", "prepare"]


def prepare(
    entry: "Entry", paths: Sequence[Path], options: PrepareOptions, folder: Path, tell: "Tell"
) -> dict[str, Any]:
    """Write the streams and the vocabulary into `folder`. The text is read twice, and only the vocabulary is held."""
    import numpy as np

    from components.arrays import SPLITS, append_values
    from components.datasets.language.vocabulary import Vocabulary, tokens_of
    from components.datasets.readers import reader_named
    from components.errors import DataError
    from components.files import write_json

    source: LanguageSource = reader_named(entry.reader)(paths, entry)
    lines, published = _split(entry.name, source, options)

    def tokens(split: str) -> Iterator[str]:
        limit = getattr(options.tokens, split)
        return islice(tokens_of(lines[split](), options.unit), limit)

    counted = chain.from_iterable(_batches(tokens("train"), tell))
    vocabulary = Vocabulary.of(counted, options.unit, options.max_vocabulary)
    dtype = np.uint16 if len(vocabulary) <= SMALL else np.uint32
    counts: dict[str, int] = {}
    unknown: dict[str, int] = {}
    for split in SPLITS:
        unknown[split] = 0

        def pieces(split: str = split) -> Iterator[Any]:
            for piece in _batches(tokens(split), tell):
                numbers = np.fromiter(map(vocabulary.number, piece), dtype=dtype, count=len(piece))
                if vocabulary.unknown is not None:
                    unknown[split] += int(np.count_nonzero(numbers == vocabulary.unknown))
                yield numbers

        counts[split] = append_values(folder / f"{split}.npy", pieces(), dtype)
        if counts[split] == 0:
            raise DataError(
                f"{entry.name}: got no tokens for {split}, allowed is one or more; take more text, or change "
                "prepare.validation and prepare.test in conf/dataset/"
            )
    write_json(folder / "vocabulary.json", {"unit": options.unit, "tokens": vocabulary.words})
    total = sum(counts.values())
    return {
        "rows": total,
        "rows_of_entry": total if options.tokens == type(options.tokens)() else _all_tokens(source, options.unit),
        "splits": counts,
        "published_splits": published,
        "classes": None,
        "counts": None,
        "unit": options.unit,
        "vocabulary": len(vocabulary),
        "unknown": unknown,
    }


def _batches(tokens: Iterator[str], tell: "Tell") -> Iterator[list[str]]:
    """The tokens in lists, with word of how many have come."""
    done = 0
    while batch := list(islice(tokens, TOKENS_AT_ONCE)):
        done += len(batch)
        tell(done, None)
        yield batch


def _all_tokens(source: "LanguageSource", unit: str) -> int:
    from components.datasets.language.vocabulary import tokens_of

    return sum(1 for lines in source.parts.values() for _ in tokens_of(lines(), unit))


def _split(name: str, source: "LanguageSource", options: PrepareOptions) -> "tuple[dict[str, Lines], list[str]]":
    """The lines of each split, and the splits that the publisher made."""
    from components.arrays import SPLITS
    from components.datasets.language.documents import deal_out

    published = [split for split in SPLITS if split in source.parts]
    if len(published) == len(SPLITS):
        return dict(source.parts), published
    return deal_out(name, source, options.validation, options.test), published
