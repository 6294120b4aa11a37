"""WikiText as published: words and marks between blanks, unknown words as <unk>, articles under ` = Title = `."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from components.datasets.core.archives import (
    GZIP_MAGIC,
    Limits,
    decoded_lines,
    file_lines,
    gunzip,
    members,
    missing_member,
    readable_head,
)
from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault
from components.datasets.language.source import LanguageSource, Lines
from components.errors import ConfigError

LIMITS = Limits(member_bytes=1 << 30, total_bytes=1 << 31, members=20)
MEMBERS = {"train": "wiki.train.tokens", "validation": "wiki.valid.tokens", "test": "wiki.test.tokens"}
# Sections have more signs: ` = = Section = = `.
TITLE = re.compile(r" = [^=].* = ")


def is_title(before: str, line: str) -> bool:
    """Whether `line` is the title of an article. A formula may look like one, but stands in the middle of a text."""
    return not before.strip() and TITLE.fullmatch(line) is not None and " = = " not in line


def read_tokens(paths: Sequence[Path], entry: Entry) -> LanguageSource:
    """The lines of files, plain or gzip, each with its split. Raises DataError with the line at fault."""
    splits = [str(file.split) for file in entry.files if file.split is not None]
    if len(set(splits)) != len(entry.files):
        raise ConfigError(f"{entry.name} in data/catalogue.yaml needs a `split` of its own for each file")
    parts = {split: _file(path) for split, path in zip(splits, paths, strict=True)}
    return LanguageSource(parts, is_title)


def read_archive(paths: Sequence[Path], entry: Entry) -> LanguageSource:
    """The three members of the published zip archive. Raises DataError with member and line at fault."""
    del entry
    (path,) = paths
    there = {member.name.rpartition("/")[2]: member.name for member in members(path, LIMITS)}
    for name in MEMBERS.values():
        if name not in there:
            raise missing_member(path, name, list(there.values()))
    return LanguageSource({split: _member(path, there[name]) for split, name in MEMBERS.items()}, is_title)


def _file(path: Path) -> Lines:
    def lines() -> Iterator[str]:
        if readable_head(path).startswith(GZIP_MAGIC):
            yield from decoded_lines(path, "", gunzip(path, LIMITS.member_bytes))
        else:
            yield from file_lines(path)

    return nonempty(path, lines)


def _member(path: Path, name: str) -> Lines:
    def lines() -> Iterator[str]:
        for member in members(path, LIMITS):
            if member.name == name:
                yield from member.lines()

    return nonempty(path, lines)


def nonempty(path: Path, lines: Lines) -> Lines:
    """The same lines; none with a word in it is a DataError."""

    def reading() -> Iterator[str]:
        words = False
        for line in lines():
            words = words or bool(line.strip())
            yield line
        if not words:
            raise fault(path, "", "no words", "lines of words")

    return reading
