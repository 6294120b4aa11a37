"""Streams of tokens: published counts, whole documents in one split, and every fault with its place."""

import gzip
import hashlib
import re
from collections import Counter
from itertools import pairwise, starmap
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from components.arrays import SPLITS, open_array
from components.datasets.core.catalogue import Entry, load_catalogue
from components.datasets.core.fetching import fetch
from components.datasets.core.sources import mirror_folder
from components.datasets.language.config import GateOptions, PrepareOptions
from components.datasets.language.kind import prepare
from components.datasets.language.vocabulary import END, UNKNOWN, Vocabulary, tokens_of
from components.datasets.language.wikitext import is_title
from components.datasets.readers import reader_named
from components.errors import ConfigError, DataError
from components.files import read_json, sha256_path
from tests.datasets.checkouts import ROOT
from tests.datasets.texts import zip_bytes


def entry(reader: str, files: dict[str, str | None], **options: Any) -> Entry:
    content = [
        {
            "name": name,
            "split": split,
            "sha256": hashlib.sha256(b"").hexdigest(),
            "bytes": 1,
            "sources": [{"mirror": name}],
        }
        for name, split in files.items()
    ]
    fields = {
        "name": "some-language",
        "title": "t",
        "description": "d",
        "reader": reader,
        "licence": "l",
        "citation": "c",
    }
    return Entry.model_validate({**fields, "options": options, "files": content})


def prepared(of: Entry, source: Path, folder: Path, **options: Any) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = [source / file.name for file in of.files]
    return prepare(of, paths, PrepareOptions(**options), folder, lambda done, total: None)


def text_of(folder: Path, split: str) -> list[str]:
    tokens = read_json(folder / "vocabulary.json")["tokens"]
    return [tokens[number] for number in open_array(folder / f"{split}.npy").tolist()]


LINES = st.lists(st.lists(st.sampled_from(["a", "b", "c", "<unk>", "dd"]), max_size=6), min_size=0, max_size=60)


@settings(deadline=None, max_examples=30)
@given(LINES)
def test_the_streams_are_the_text_word_by_word(
    tmp_path_factory: pytest.TempPathFactory, lines: list[list[str]]
) -> None:
    tmp_path = tmp_path_factory.mktemp("language")
    # enough lines of words for three splits, wherever the drawn ones stand
    lines = [*[["a", "b"]] * 20, *lines, *[["b", "c"]] * 20]
    (tmp_path / "a.txt").write_text("\n".join(map(" ".join, lines)) + "\n", encoding="utf-8")
    summary = prepared(entry("language-text", {"a.txt": None}), tmp_path, tmp_path / "out")
    whole = [token for split in SPLITS for token in text_of(tmp_path / "out", split)]
    known = set(read_json(tmp_path / "out" / "vocabulary.json")["tokens"])
    expected = [token if token in known else UNKNOWN for line in lines for token in [*line, END]]
    assert whole == expected
    assert summary["rows"] == len(expected) == sum(summary["splits"].values())


def test_a_vocabulary_is_ordered_by_frequency_and_then_by_character() -> None:
    tokens = ["b", "a", "c", "b", "a", "b", "d"] + [END] * 2
    vocabulary = Vocabulary.of(iter(tokens), "word", None)
    assert vocabulary.words == ["b", END, "a", "c", "d", UNKNOWN]
    counts = Counter(tokens)
    numbers = [vocabulary.number(token) for token in counts]
    assert sorted(numbers) == list(range(5))
    assert vocabulary.number("never seen") == vocabulary.unknown == 5
    small = Vocabulary.of(iter(tokens), "word", 4)
    assert small.words == ["b", END, "a", UNKNOWN]


def test_bytes_are_their_own_numbers(tmp_path: Path) -> None:
    text = "".join(f"naïve line {i}\n" for i in range(50))
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    prepared(entry("language-text", {"a.txt": None}), tmp_path, tmp_path / "out", unit="byte")
    streams = [bytes(open_array(tmp_path / "out" / f"{split}.npy").astype("u1")) for split in SPLITS]
    assert b"".join(streams) == text.encode()
    # no line is cut in two
    assert all(stream.endswith(b"\n") for stream in streams)


def article(number: int, length: int) -> list[str]:
    """An article of `length` paragraphs, some with a line in their middle that looks like a title."""
    body = [f" words of article{number} ", f" = x of article{number} = "] * length
    return [f" = Article {number} = ", "", f" = = Section of article{number} = = ", "", *body, " "]


@settings(deadline=None, max_examples=15)
@given(st.lists(st.integers(1, 30), min_size=20, max_size=40), st.sampled_from([0.1, 0.2, 0.3]))
def test_no_article_is_in_two_splits(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], fraction: float
) -> None:
    tmp_path = tmp_path_factory.mktemp("articles")
    texts = ["\n".join(article(number, length)) + "\n" for number, length in enumerate(lengths)]
    (tmp_path / "valid").write_text("".join(texts[:9]), encoding="utf-8")
    (tmp_path / "test.gz").write_bytes(gzip.compress("".join(texts[9:]).encode()))
    of = entry("wikitext-tokens", {"valid": "validation", "test.gz": "test"})
    # bytes are all known in each split, so that what stands where can be read back
    summary = prepared(of, tmp_path, tmp_path / "out", unit="byte", validation=0.2, test=fraction)
    assert summary["published_splits"] == ["validation", "test"]
    streams = [bytes(open_array(tmp_path / "out" / f"{split}.npy").astype("u1")).decode() for split in SPLITS]
    assert "".join(streams) == "".join(texts)
    told = [set(re.findall(r"article(\d+)", stream)) for stream in streams]
    titles = [set(re.findall(r"^ = Article (\d+) = $", stream, re.MULTILINE)) for stream in streams]
    # its title, its sections and each of its lines are where it is
    assert told == titles
    assert sum(map(len, told)) == len(set.union(*told)) == len(lengths)
    # a cut is not farther from its place than half an article
    words = [len(stream.split()) for stream in streams]
    longest = max(len(text.split()) for text in texts)
    assert abs(words[2] - fraction * sum(words)) <= longest / 2 + 1
    assert abs(words[1] + words[2] - (0.2 + fraction) * sum(words)) <= longest / 2 + 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (" = Title = ", True),
        (" = A = b = ", True),
        (" = = Section = = ", False),
        (" = = = Deep = = = ", False),
        ("= a =", False),
    ],
)
def test_titles(line: str, expected: bool) -> None:
    assert is_title(" ", line) == expected
    # the same in the middle of a text is a formula
    assert not is_title("where", line)


WIKI = {f"wikitext/wiki.{part}.tokens": f" = {part} = \n words \n".encode() for part in ("train", "valid", "test")}


def test_the_archive_keeps_its_published_splits(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zip_bytes(WIKI))
    summary = prepared(entry("wikitext-archive", {"a.zip": None}), tmp_path, tmp_path / "out")
    assert summary["splits"] == {"train": 6, "validation": 6, "test": 6}
    assert text_of(tmp_path / "out", "train") == ["=", "train", "=", END, "words", END]
    assert text_of(tmp_path / "out", "test") == ["=", UNKNOWN, "=", END, "words", END]
    assert summary["unknown"] == {"train": 0, "validation": 1, "test": 1}


OPTIONS = {"language-csv": {"column": "source", "value": "films"}}
FAULTS = [
    ("wikitext-archive", zip_bytes({"wikitext/wiki.train.tokens": b"a"}), "no member wiki.valid.tokens"),
    ("wikitext-archive", zip_bytes({**WIKI, "wikitext/wiki.test.tokens": b"na\xefve"}), "wiki.test.tokens, line 1"),
    ("wikitext-archive", zip_bytes({**WIKI, "wikitext/wiki.test.tokens": b"a\0b"}), "a NUL byte"),
    ("wikitext-archive", zip_bytes({**WIKI, "wikitext/wiki.test.tokens": b"\n \n"}), "no words"),
    ("wikitext-archive", b"<html><title>Denied</title></html>", "an HTML page titled 'Denied'"),
    ("wikitext-archive", zip_bytes(WIKI)[:-30], "broken archive"),
    ("language-text", b"", "an empty file"),
    ("language-text", b"one line only\n", "some-language: got 1 documents, allowed are as many as"),
    ("language-text", b"lines\nin\nlatin-1 \xe9\n", "line 3, byte 9: got byte 0xe9"),
    ("wikitext-tokens", gzip.compress(b"a b c\n" * 100)[:-10], "broken archive"),
    ("wikitext-tokens", b"<html>", "an HTML page"),
    ("language-csv", b"text,source\na b,films\nc d\n", "row 2: got 1 fields"),
    ("language-csv", b"body,source\na b,films\n", "header: got 0 columns 'text'"),
    ("language-csv", b"text,source,text\na b,films,c\n", "header: got 2 columns 'text'"),
    ("language-csv", b"text,source\na b,books\n", "got no words"),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "content", "told"), FAULTS, ids=[f"{case[0]} {case[2][:16]}" for case in FAULTS])
def test_faults(tmp_path: Path, reader: str, content: bytes, told: str) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DataError, match=told) as caught:
        prepared(
            entry(reader, {"a": "train" if reader == "wikitext-tokens" else None}, **OPTIONS.get(reader, {})),
            tmp_path,
            tmp_path / "out",
        )
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("splits", [("train", "train"), ("train", None)])
def test_two_files_of_one_split_are_refused(tmp_path: Path, splits: tuple[str, str | None]) -> None:
    of = entry("wikitext-tokens", {"a": splits[0], "b": splits[1]})
    with pytest.raises(ConfigError, match="needs a `split` of its own for each file"):
        reader_named(of.reader)([tmp_path / "a", tmp_path / "b"], of)


def test_limits_cut_each_split(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a b c d\n" * 200, encoding="utf-8")
    of = entry("language-text", {"a.txt": None})
    summary = prepared(of, tmp_path, tmp_path / "out", tokens={"train": 33, "test": 10})
    assert summary["splits"] == {"train": 33, "validation": 100, "test": 10}
    assert summary["rows_of_entry"] == 1000


def test_progress_is_told_while_words_are_counted_and_while_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a b c d\n" * 200, encoding="utf-8")
    of = entry("language-text", {"a.txt": None})
    (tmp_path / "out").mkdir()
    told: list[int] = []
    prepare(of, [tmp_path / "a.txt"], PrepareOptions(), tmp_path / "out", lambda done, total: told.append(done))
    assert told == [800, 800, 100, 100]


def test_twice_the_same_bytes(tmp_path: Path) -> None:
    of = load_catalogue(ROOT).entry("language-rotten-tomatoes")
    paths = fetch(of, tmp_path).paths
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        prepare(of, paths, PrepareOptions(), tmp_path / name, lambda done, total: None)
    assert sha256_path(tmp_path / "one") == sha256_path(tmp_path / "two")
    # counted by other means
    lines = list(reader_named(of.reader)(paths, of).parts["train"]())
    assert len(lines) == 8530
    total = sum(len(open_array(tmp_path / "one" / f"{split}.npy")) for split in SPLITS)
    assert total == sum(len(line.split()) + 1 for line in lines)


@pytest.mark.skipif(mirror_folder(None) is None, reason="QUINTET_DATA_MIRROR is not set")
def test_the_official_counts_of_tokens(tmp_path: Path) -> None:
    of = load_catalogue(ROOT).entry("wikitext2-valid-test")
    source = reader_named(of.reader)(fetch(of, tmp_path).paths, of)
    counted = {split: sum(1 for _ in tokens_of(lines(), "word")) for split, lines in source.parts.items()}
    assert counted == {"validation": 217_646, "test": 245_569}
    # the limits of the entry that holds these articles as they are let the published share of <unk> pass, just so
    limit = GateOptions.model_validate(
        yaml.safe_load((ROOT / "conf/dataset/wikitext2.yaml").read_text(encoding="utf-8"))["gate"]
    ).max_unknown
    for split, lines in source.parts.items():
        share = sum(line.split().count(UNKNOWN) for line in lines()) / counted[split]
        assert limit / 2 < share < limit, split
    titles = {
        split: sum(starmap(source.begins_document, pairwise(["", *lines()]))) for split, lines in source.parts.items()
    }
    assert titles == {"validation": 60, "test": 60}
