"""Random edits of one character, of texts and of the bytes that a request is made of."""

import random
from dataclasses import dataclass

# What files meet: digits that look right, separators, quotes, ends of lines, and characters of other alphabets.
ALPHABET = "0123456789.,;-+eE\"' \t\n\r\0ABXnaN\u00e9\u0663"


@dataclass(frozen=True)
class Edit:
    """A text after one edit, and the line (from 1) on which the character stands."""

    what: str
    line: int
    text: str


def one_character(text: str, generator: random.Random) -> Edit:
    """`text` with one character replaced, left out or put in; never the same text."""
    position = generator.randrange(len(text))
    line = text.count("\n", 0, position) + 1
    how = generator.choice(("replaced", "left out", "put in"))
    old = text[position]
    new = "" if how == "left out" else generator.choice([character for character in ALPHABET if character != old])
    rest = text[position:] if how == "put in" else text[position + 1 :]
    return Edit(f"line {line}: {old!r} {how} {new!r}", line, text[:position] + new + rest)
