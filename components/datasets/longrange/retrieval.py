"""Retrieval: do two documents belong together? Pairs as an entry has them, or messages and what they answer."""

from collections.abc import Iterator

import numpy as np

from components.arrays import SPLITS
from components.datasets.core.catalogue import Entry
from components.datasets.longrange.config import PrepareOptions
from components.datasets.longrange.encoded import classes_of, length_facts, text_rows
from components.datasets.longrange.planned import Candidate, planned
from components.datasets.longrange.replies import CLASSES, reply_pairs
from components.datasets.longrange.source import SequenceRow, Sequences, byte_tokens, level_vocabulary
from components.datasets.text.source import TextSource
from components.errors import ConfigError
from components.progress import Tell

# Their rows are single messages with headers that say which one they answer.
MESSAGE_READERS = ("newsgroups-archive", "newsgroups-parquet")


def pairs_of_texts(source: TextSource, entry: Entry, options: PrepareOptions, tell: Tell) -> Sequences:
    """The UTF-8 bytes of both texts of each pair, each cut after the length that the options say."""
    if entry.reader in MESSAGE_READERS:
        return _of_messages(source, options, tell)
    if not source.pairs:
        raise ConfigError(
            f"{entry.name} holds single texts, the task retrieval takes pairs, or messages that the readers "
            f"{' and '.join(MESSAGE_READERS)} yield; choose another entry or task"
        )

    def candidates() -> Iterator[Candidate]:
        for split, row in text_rows(source):
            yield Candidate(
                split,
                int(row.label),
                byte_tokens(row.text, options.max_text_length),
                byte_tokens(row.second or "", options.max_text_length),
                row.groups,
            )

    facts = length_facts("Pairs", options)
    return planned(
        candidates, options, classes_of(source, entry), level_vocabulary("byte"), np.uint8, True, facts, tell
    )


def _of_messages(source: TextSource, options: PrepareOptions, tell: Tell) -> Sequences:
    """Reply pairs; the published split is by date and cuts threads, so threads are dealt out anew."""
    pairs, facts = reply_pairs((row for _, row in text_rows(source)), options, tell)
    limit = options.max_text_length

    def rows() -> Iterator[SequenceRow]:
        for pair in pairs:
            first, second = (byte_tokens(text, limit) for text in (pair.reply, pair.other))
            yield SequenceRow(SPLITS.index(pair.split), pair.label, first, second)

    facts = {**facts, **length_facts("Reply pairs", options)}
    return Sequences(len(pairs), CLASSES, level_vocabulary("byte"), np.uint8, True, rows, facts)
