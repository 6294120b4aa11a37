"""Usenet messages: headers, quotes and signatures come off, and cross-posts stay together."""

from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets._twenty_newsgroups import (
    strip_newsgroup_footer,
    strip_newsgroup_header,
    strip_newsgroup_quoting,
)

from components.datasets.core.sources import mirror_folder
from components.datasets.text.config import PrepareOptions
from components.datasets.text.kind import prepare
from components.datasets.text.messages import (
    QUOTED_LOOSELY,
    headers_of,
    message_ids,
    stripped,
    subject_of,
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
    assert without_quotes("a\n  > b\nIn Article c\nunsaid: d", QUOTED_LOOSELY) == "a\nunsaid: d"
    # an indented mark may be a drawing, and is no quote in scikit-learn's reading
    assert without_quotes("a\n> b\n  > c\nJoe wrote: c\nsaid: d\nnothing said") == "a\n  > c\nnothing said"


LINES = ["words here", "> quoted", " | drawn", "|bar", "--", " - ", "", "X writes:", "In article <1>", "Subject: s"]


@given(st.lists(st.sampled_from(LINES), max_size=12))
def test_taking_off_never_adds_and_is_that_of_scikit_learn(lines: list[str]) -> None:
    message = "\n".join(lines)
    for remove in (without_headers, without_quotes, without_footer):
        once = remove(message)
        assert {line.strip() for line in once.split("\n")} <= {line.strip() for line in lines} | {""}
    assert without_quotes(without_quotes(message)) == without_quotes(message)
    assert without_quotes(message) == strip_newsgroup_quoting(message)
    assert without_footer(message) == strip_newsgroup_footer(message)
    assert without_headers(message) == (strip_newsgroup_header(message) if "\n\n" in message else message)
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
    assert [row.groups[0] for row in train] == ["<2@example.org>"] * 2
    assert train[0].groups[1] != train[1].groups[1]
    assert {"<1@example.org>", "<0@example.org>", "subject 1 an answer continued"} < set(train[0].threads)
    words = rows_of(source, "test")[0]
    assert words.groups == words.threads
    assert len(words.groups) == 1


@pytest.mark.parametrize(
    ("field", "subject"),
    [
        ("Re: An  Answer", "an answer"),
        ("RE: re:Re : x", "x"),
        ("Re^2: x", "x"),
        ("re[3]: x", "x"),
        ("Reply: x", "reply: x"),
        ("Re: ", ""),
        ("", ""),
    ],
)
def test_subjects_without_marks_of_an_answer(field: str, subject: str) -> None:
    assert subject_of(field) == subject


def post(identifier: str, subject: str, body: str, references: str = "") -> str:
    fields = {"Message-ID": f"<{identifier}@x>", "Subject": subject, "References": references}
    return "".join(f"{name}: {value}\n" for name, value in fields.items() if value) + f"\n{body}"


@pytest.mark.parametrize("group_by", ["message", "thread"])
def test_what_belongs_together_is_in_one_split_and_one_group(tmp_path: Path, group_by: str) -> None:
    texts, label = [], []
    for i in range(60):
        # a message in both groups, the same text sent again, an answer by references, an answer by its subject alone
        texts += [post(f"a{i}", f"s {i}", f"first {i}"), post(f"a{i}", f"s {i}", f"first {i}")]
        texts += [post(f"b{i}", f"t {i}", f"first  {i}")]
        texts += [
            post(f"c{i}", f"u {i}", f"second {i}", f"<lost{i}@x> <a{i}@x>"),
            post(f"d{i}", f"Re: S {i}", f"d {i}"),
        ]
        label += [0, 1, 0, 1, 0]
    columns = {"text": texts, "label": label, "group": [CLASSES[i] for i in label]}
    write_parquet(tmp_path / "a.parquet", {**columns, "msg_id": [str(i) for i in range(300)]})
    entry = text_entry("newsgroups-parquet", {"a.parquet": "train"}, classes=CLASSES)
    options = PrepareOptions(seed=2, validation=0.2, test=0.2, group_by=group_by)
    summary = prepare(entry, [tmp_path / "a.parquet"], options, tmp_path, lambda done, total: None)
    assert summary["rows"] == 300
    rows = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    parts = {"message": (slice(0, 3), slice(3, 4), slice(4, 5)), "thread": (slice(0, 5),)}[group_by]
    for start in range(0, 300, 5):
        for part in parts:
            together = rows[start : start + 5][part]
            assert len({row["split"] for row in together}) == 1
            assert len({row["group"] for row in together}) == 1
    assert len({row["group"] for row in rows}) == 60 * len(parts)
    assert {row["split"] for row in rows} == {"train", "validation", "test"}


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
    from tests.datasets.checkouts import ROOT

    entry = load_catalogue(ROOT).entry("newsgroups20-original")
    paths = fetch(entry, tmp_path / "root").paths
    # nothing is taken off, so that equal texts are told by an independent look at them
    options = PrepareOptions(seed=3, validation=0.1, test=0.2)
    summary = prepare(entry, paths, options, tmp_path, lambda done, total: None)
    assert summary["rows"] == summary["rows_of_entry"] == 19_997
    columns = {"id": STRING, "text": STRING, "label": NUMBER, "group": STRING, "split": STRING}
    splits_of: dict[str, set[str]] = {}
    texts_of: dict[str, set[str]] = defaultdict(set)
    cross_posts = set()
    for batch in read_batches(tmp_path / "rows.parquet", columns):
        for text, label, group, split in zip(*(batch[name] for name in list(columns)[1:]), strict=True):
            del label
            splits_of.setdefault(group, set()).add(split)
            body = " ".join(text.partition("\n\n")[2].split())
            if body:
                texts_of[body].add(split)
            headers = text.partition("\n\n")[0]
            newsgroups = [line for line in headers.split("\n") if line.lower().startswith("newsgroups:")]
            if newsgroups and "," in newsgroups[0]:
                cross_posts.add(group)
    assert len(cross_posts) > 2000
    assert all(len(splits) == 1 for splits in splits_of.values())
    assert all(len(splits) == 1 for splits in texts_of.values())
    assert summary["duplicates"] == {"within": 531, "across": 0}
