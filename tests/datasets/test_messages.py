"""Usenet messages: headers, quotes and signatures come off, and cross-posts stay together."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.datasets.core.sources import mirror_folder
from components.datasets.text.messages import (
    headers_of,
    message_ids,
    stripped,
    without_footer,
    without_headers,
    without_quotes,
)
from components.errors import DataError
from tests.datasets.texts import read, rows_of, tar_bytes, text_entry, write_parquet

MESSAGE = """From: someone@example.org
Subject: Re: an answer
\tcontinued
Message-ID: <2@example.org>
References: <1@example.org> <0@example.org>

In article <1@example.org> another writes:
> what was asked
| and quoted otherwise
The answer: yes.
--
A Signature"""


def test_headers_are_fields_by_name() -> None:
    headers = headers_of(MESSAGE)
    assert headers["subject"] == "Re: an answer continued"
    assert message_ids(headers["references"]) == ["<1@example.org>", "<0@example.org>"]
    assert "the answer" not in headers


def test_what_is_taken_off_and_what_stays() -> None:
    assert without_headers(MESSAGE).startswith("In article")
    assert stripped(MESSAGE, ("headers", "footers", "quotes")) == "The answer: yes."
    assert stripped(MESSAGE, ("headers", "quotes")).endswith("A Signature")
    assert stripped(MESSAGE, ()) == MESSAGE
    # a message without a blank line has no headers that could be told apart
    assert without_headers("just words") == "just words"
    assert without_footer("only one line") == "only one line"
    assert without_quotes("a\n  > b\nJoe wrote: c\nsaid: d\nnothing said") == "a\nnothing said"


@given(st.lists(st.sampled_from(["words here", "> quoted", "--", "", "X writes:", "Subject: s"]), max_size=12))
def test_taking_off_never_adds_and_is_done_once(lines: list[str]) -> None:
    message = "\n".join(lines)
    for remove in (without_headers, without_quotes, without_footer):
        once = remove(message)
        assert set(once.split("\n")) <= set(message.split("\n")) | {""}
    assert without_quotes(without_quotes(message)) == without_quotes(message)
    assert not any(line.startswith(">") for line in without_quotes(message).split("\n"))


CLASSES = ["alt.atheism", "sci.space"]


def bydate(tmp_path: Path, files: dict[str, bytes]):  # type: ignore[no-untyped-def]
    (tmp_path / "news.tar.gz").write_bytes(tar_bytes(files))
    return read(text_entry("newsgroups-archive", {"news.tar.gz": None}, classes=CLASSES), tmp_path)


def test_the_archive_by_date(tmp_path: Path) -> None:
    files = {
        "20news-bydate-train/sci.space/1": MESSAGE.encode() + b" caf\xe9",
        "20news-bydate-train/alt.atheism/1": MESSAGE.encode(),
        "20news-bydate-test/sci.space/9": b"words",
    }
    source = bydate(tmp_path, files)
    train = rows_of(source)
    assert [(row.id, row.label) for row in train] == [("train-sci.space-1", 1), ("train-alt.atheism-1", 0)]
    # bytes beyond ASCII are latin-1
    assert train[0].text.endswith("café")
    assert {row.group for row in train} == {"<2@example.org>"}
    assert {row.thread for row in train} == {"<1@example.org>"}
    assert rows_of(source, "test")[0].group is None


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"20news-bydate-train/sci.space/1": b"x"}, r"no member 20news-bydate-test/"),
        (
            {"20news-bydate-train/sci.spice/1": b"x", "20news-bydate-test/sci.space/1": b"y"},
            "got group 'sci.spice', allowed is one of alt.atheism, sci.space",
        ),
        ({"20news-bydate-train/sci.space/1": b"x\0", "20news-bydate-test/sci.space/1": b"y"}, "a NUL byte"),
    ],
    ids=["half", "group", "NUL"],
)
def test_archive_faults(tmp_path: Path, files: dict[str, bytes], told: str) -> None:
    with pytest.raises(DataError, match=told):
        rows_of(bydate(tmp_path, files))


def test_a_label_that_is_not_its_groups_is_refused(tmp_path: Path) -> None:
    columns = {"text": ["a"], "label": [0], "group": ["sci.space"], "msg_id": ["1"]}
    write_parquet(tmp_path / "a.parquet", columns)
    with pytest.raises(DataError, match=r"column group: got 'sci.space' beside label 0, allowed is 'alt.atheism'"):
        rows_of(read(text_entry("newsgroups-parquet", {"a.parquet": "train"}, classes=CLASSES), tmp_path))


@pytest.mark.skipif(mirror_folder(None) is None, reason="QUINTET_DATA_MIRROR is not set")
def test_no_cross_post_of_the_original_messages_is_in_two_splits(tmp_path: Path) -> None:
    from components.datasets.core.catalogue import load_catalogue
    from components.datasets.core.fetching import fetch
    from components.datasets.core.parquet import NUMBER, STRING, read_batches
    from components.datasets.text.config import PrepareOptions
    from components.datasets.text.kind import prepare
    from tests.datasets.checkouts import ROOT

    entry = load_catalogue(ROOT).entry("newsgroups20-original")
    paths = fetch(entry, tmp_path / "root").paths
    # nothing is taken off, so that equal texts are told by an independent look at them
    options = PrepareOptions(seed=3, validation=0.1, test=0.2)
    summary = prepare(entry, paths, options, tmp_path, lambda done, total: None)
    assert summary["rows"] == summary["rows_of_entry"] == 19_997
    columns = {"id": STRING, "text": STRING, "label": NUMBER, "group": STRING, "split": STRING}
    splits_of: dict[str, set[str]] = {}
    texts_of: dict[str, set[str]] = {}
    cross_posts = set()
    for batch in read_batches(tmp_path / "rows.parquet", columns):
        for text, label, group, split in zip(*(batch[name] for name in list(columns)[1:]), strict=True):
            del label
            splits_of.setdefault(group, set()).add(split)
            body = " ".join(text.partition("\n\n")[2].split())
            texts_of.setdefault(body, set()).add(split)
            headers = text.partition("\n\n")[0]
            newsgroups = [line for line in headers.split("\n") if line.lower().startswith("newsgroups:")]
            if newsgroups and "," in newsgroups[0]:
                cross_posts.add(group)
    assert len(cross_posts) > 2000
    assert all(len(splits) == 1 for splits in splits_of.values())
    assert summary["duplicates"]["within"] > 0
