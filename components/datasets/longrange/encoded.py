"""Sequences that are another data set read value by value: texts as bytes, images as grey pixels."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.datasets.core.catalogue import Entry
from components.datasets.images.source import ImageSource
from components.datasets.longrange.config import PrepareOptions, TextsOptions
from components.datasets.longrange.planned import Candidate, planned
from components.datasets.longrange.source import SHIFT, Sequences, byte_tokens, level_vocabulary
from components.datasets.text.source import TextRow, TextSource
from components.errors import ConfigError
from components.progress import Tell

# Ten thousandths of red, green and blue in brightness: ITU-R BT.601, with the digits that the published task uses.
LUMA = (2989, 5870, 1140)


def bytes_of_texts(source: TextSource, entry: Entry, options: PrepareOptions, tell: Tell) -> Sequences:
    """The UTF-8 bytes of each text, cut after the length that the options say."""
    classes = classes_of(source, entry)
    if source.pairs:
        raise ConfigError(f"{entry.name} holds pairs of texts, the task bytes takes single ones; use task retrieval")
    limit = options.max_text_length
    cut: set[str] = set()

    def candidates() -> Iterator[Candidate]:
        for split, row in text_rows(source):
            tokens = byte_tokens(row.text, None)
            if limit is not None and len(tokens) > limit:
                cut.add(row.id)
            yield Candidate(split, int(row.label), tokens[:limit], groups=row.groups)

    sequences = planned(
        candidates, options, classes, level_vocabulary("byte"), np.uint8, False, length_facts("Text", options), tell
    )
    sequences.facts["cut"] = len(cut)
    return sequences


def pixels_of_images(source: ImageSource, entry: Entry, options: PrepareOptions, tell: Tell) -> Sequences:
    """The grey pixels of each image, row by row from the upper left corner."""
    height, width, _ = source.shape

    def candidates() -> Iterator[Candidate]:
        for split, part in source.parts.items():
            for images, labels in part.batches():
                tokens = grey(images).reshape(len(images), height * width).astype(np.uint16) + SHIFT
                for row, label in zip(tokens, labels.tolist(), strict=True):
                    yield Candidate(split, label, row)

    facts = {"variant": f"Image of {height} by {width} pixels, {height * width} tokens", "shape": [height, width]}
    vocabulary = level_vocabulary("brightness")
    return planned(candidates, options, source.classes, vocabulary, np.uint16, False, facts, tell)


def grey(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Brightness (n, H, W) of images (n, H, W, C); grey ones (C = 1) as they are, colours by BT.601.

    A brightness x of 0..255 becomes the whole part of x * 255.5 / 255, as where the published task turns fractions back
    into bytes; here in whole numbers, which round the same on every machine.
    """
    if images.shape[3] == 1:
        return images[..., 0]
    red, green, blue = (images[..., channel].astype(np.int64) * share for channel, share in enumerate(LUMA))
    return ((red + green + blue) * 511 // 5_100_000).astype(np.uint8)


def classes_of(source: TextSource, entry: Entry) -> tuple[str, ...]:
    if source.classes is None:
        raise ConfigError(f"{entry.name} has numbers as labels, long-range tasks take classes; choose another entry")
    return source.classes


def text_rows(source: TextSource) -> Iterator[tuple[str, TextRow]]:
    for split, rows in source.parts.items():
        for row in rows():
            yield split, row


def length_facts(name: str, options: PrepareOptions) -> dict[str, Any]:
    """For the summary: which task, and whether texts are cut where the published one cuts them."""
    limit, published = options.max_text_length, TextsOptions().max_length
    length = "whole" if limit is None else f"cut after {limit} bytes"
    other = "" if limit == published else f" (published: {published})"
    return {"variant": f"{name} as bytes, {length}{other}"}
