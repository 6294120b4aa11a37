"""Tokens and their numbers."""

from collections import Counter
from collections.abc import Iterable, Iterator

UNKNOWN = "<unk>"
END = "<eos>"
BYTES = 256


def tokens_of(lines: Iterable[str], unit: str) -> Iterator[str]:
    """Words between blanks and <eos> after each line; or bytes, as characters of that number, and a line feed."""
    if unit == "byte":
        for line in lines:
            yield from line.encode().decode("latin-1")
            yield "\n"
        return
    for line in lines:
        yield from line.split()
        yield END


class Vocabulary:
    """Words by number: the more frequent in train the lower, equally frequent ones in the order of their characters."""

    def __init__(self, words: list[str]):
        self.words = words
        self._numbers = {word: number for number, word in enumerate(words)}
        self.unknown = self._numbers.get(UNKNOWN)

    @classmethod
    def of(cls, train: Iterator[str], unit: str, limit: int | None) -> "Vocabulary":
        """That of the tokens of train, at most `limit` words with <unk> and <eos> among them; or the 256 bytes."""
        if unit == "byte":
            return cls([chr(number) for number in range(BYTES)])
        counts = Counter(train)
        # the two are kept however rare they are
        needed = [UNKNOWN, END]
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        if limit is not None:
            others = [word for word in ranked if word not in needed]
            kept = {*others[: limit - len(needed)], *needed}
            ranked = [word for word in ranked if word in kept]
        return cls(ranked + [word for word in needed if word not in counts])

    def number(self, token: str) -> int:
        found = self._numbers.get(token, self.unknown)
        if found is None:
            raise RuntimeError(f"{token!r} is no byte")
        return found

    def __len__(self) -> int:
        return len(self.words)
