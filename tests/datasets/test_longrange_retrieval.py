"""Retrieval: pairs as they are published, and reply pairs in which neither side alone gives the answer away."""

import io
import tarfile
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from components.arrays import open_array
from components.datasets.core.archives import Limits
from components.datasets.core.catalogue import load_catalogue
from components.datasets.core.fetching import fetch
from components.datasets.core.sources import MIRROR_VARIABLE, mirror_folder
from components.datasets.longrange import aan
from components.datasets.longrange.aan import TABLES, read_pairs
from components.datasets.longrange.config import PrepareOptions
from components.datasets.longrange.kind import prepare
from components.datasets.longrange.replies import (
    MIN_CHARACTERS,
    letters_of,
    read_messages,
    reply_pairs,
    without_repeated,
)
from components.datasets.longrange.retrieval import pairs_of_texts
from components.datasets.text.messages import QUOTED_LOOSELY
from components.datasets.text.source import TextRow
from components.errors import ConfigError, DataError
from components.files import sha256_path
from tests.datasets.checkouts import ROOT, left_files
from tests.datasets.sequences import file_entry, in_memory, ragged, silent, text_source

MIRROR = mirror_folder(None)
OPTIONS = PrepareOptions(task="retrieval", seed=3)
ENTRY = file_entry("newsgroups-parquet", ["all.parquet"])


def filler(name: str) -> str:
    return f"Some thoughts on {name}, long enough to say something of its own.\nAnd one more line about {name}."


def message(
    name: str, answers: str | None = None, group: int = 0, body: str | None = None, identifier: str | None = None
) -> TextRow:
    """A Usenet message as the readers yield it."""
    head = [f"From: {name}@example.org", f"Message-ID: <{identifier or name}@example.org>", f"Subject: {name}"]
    if answers is not None:
        head.append(f"References: <root@elsewhere.org> <{answers}@example.org>")
    text = "\n".join(head) + "\n\n" + (filler(name) if body is None else body) + "\n"
    return TextRow(f"{group}-{name}", text, None, group)


def threads(count: int = 90, groups: int = 3) -> list[TextRow]:
    """Threads of a question, an answer to it and an answer to that, each thread with a root of its own."""
    rows = []
    for number in range(count):
        group = number % groups
        for name, answers in (("q", None), ("a", "q"), ("b", "a")):
            row = message(f"{name}{number}", f"{answers}{number}" if answers else None, group)
            rows.append(TextRow(row.id, row.text.replace("root@", f"root{number}@"), None, group))
    return rows


def test_every_reply_stands_once_beside_its_own_and_once_beside_another_text() -> None:
    pairs, facts = reply_pairs(threads(), OPTIONS, silent)
    assert (facts["messages"], facts["replies"], len(pairs)) == (270, 180, 360)
    by_reply = defaultdict(list)
    for pair in pairs:
        by_reply[pair.reply].append(pair)
    assert len(by_reply) == 180
    for both in by_reply.values():
        assert sorted(pair.label for pair in both) == [0, 1]
        # the same in both, so that it alone says nothing
        assert len({(pair.reply, pair.split, pair.thread) for pair in both}) == 1
        assert both[0].other != both[1].other


def named(text: str) -> tuple[str, int]:
    """Letter and number of the message that a text was made for."""
    word = text.partition(",")[0].rpartition(" ")[2]
    return word[0], int(word[1:])


def test_the_right_pair_is_the_answered_message_and_the_wrong_one_is_of_another_thread_and_the_same_group() -> None:
    for pair in reply_pairs(threads(), OPTIONS, silent)[0]:
        (letter, number), (other_letter, other_number) = named(pair.reply), named(pair.other)
        if pair.label:
            assert number == other_number
            assert {"a": "q", "b": "a"}[letter] == other_letter
        else:
            assert number != other_number
            assert number % 3 == other_number % 3


def test_the_wrong_texts_are_ones_that_are_answered_too() -> None:
    pairs, _ = reply_pairs(threads(), OPTIONS, silent)
    right, wrong = (Counter(pair.other for pair in pairs if pair.label == label) for label in (1, 0))
    # nothing is ever a wrong text that is not the right one for another reply
    assert set(wrong) <= set(right)
    assert sum(wrong.values()) == sum(right.values())


def test_whole_threads_stay_in_one_split_and_every_split_has_some() -> None:
    pairs, _ = reply_pairs(threads(), OPTIONS, silent)
    splits = defaultdict(set)
    for pair in pairs:
        splits[named(pair.reply)[1]].add(pair.split)
        splits[named(pair.other)[1]].add(pair.split)
    assert all(len(found) == 1 for found in splits.values())
    assert {split for found in splits.values() for split in found} == {"train", "validation", "test"}
    counted = Counter((pair.split, pair.label) for pair in pairs)
    assert all(counted[split, 0] == counted[split, 1] for split in ("train", "validation", "test"))


def test_a_cross_post_counts_once_and_equal_texts_are_one_thread() -> None:
    rows = [*threads(), message("q1", group=2, identifier="q1")]
    pairs, facts = reply_pairs(rows, OPTIONS, silent)
    assert (len(pairs), facts["copies_of_a_message"]) == (360, 1)
    again = message("copy", body=filler("q1"))
    found, _ = read_messages([*threads(), again], silent)
    assert found["<copy@example.org>"].thread == found["<q1@example.org>"].thread
    assert found["<copy@example.org>"].thread != found["<q2@example.org>"].thread


def test_quotes_are_taken_off_however_they_are_marked_and_wrapped() -> None:
    asked = (
        "Is there a planet beyond the last one that we know of today?\nI read so in an old book and wonder since then."
    )
    quoted = [
        "In article <asked@example.org> somebody writes:",
        "> Is there a planet beyond the last one",
        ": Is there a planet beyond the last one that",
        "}} we know of today?  I read so in an old book",
        "IS THERE A PLANET BEYOND THE LAST ONE",
    ]
    own = "No, there is none that anybody has seen so far, as I said before."
    rows = threads()
    rows += [message("asked", body=asked), message("reply", "asked", body="\n".join([*quoted, own]))]
    pairs, _ = reply_pairs(rows, OPTIONS, silent)
    replies = [pair for pair in pairs if "No, there is none" in pair.reply]
    assert [pair.reply for pair in replies] == [own, own]
    assert [pair.other for pair in replies if pair.label] == [asked]


def test_lines_are_repeated_by_letters_and_short_ones_by_chance() -> None:
    letters = letters_of("The quick brown fox jumps over the lazy dog. Yes!")
    assert (
        without_repeated("| quick, BROWN fox jumps\nYes!\nquick brown cat jumps", letters)
        == "Yes!\nquick brown cat jumps"
    )


def test_replies_to_what_is_not_there_or_with_nothing_of_their_own_are_left_out() -> None:
    rows = [
        *threads(),
        message("lost", "nowhere"),
        message("short", "q1", body="Yes."),
        message("echo", "q2", body=f"{filler('q2')}\nYes, so it is."),
    ]
    pairs, facts = reply_pairs(rows, OPTIONS, silent)
    assert (len(pairs), facts["replies"]) == (360, 181)
    assert (facts["short_messages"], facts["replies_with_little_of_their_own"]) == (1, 1)


def test_a_reply_without_another_thread_in_its_group_is_left_out() -> None:
    rows = [*threads(), message("only", group=3), message("answer", "only", group=3)]
    _, facts = reply_pairs(rows, OPTIONS, silent)
    assert facts["replies_alone_in_their_group"] == 1


def test_a_limit_on_rows_keeps_both_pairs_of_a_reply() -> None:
    limited = OPTIONS.model_copy(update={"rows": OPTIONS.rows.model_copy(update={"train": 20})})
    pairs, _ = reply_pairs(threads(), limited, silent)
    assert Counter(pair.label for pair in pairs if pair.split == "train") == {0: 10, 1: 10}


def test_the_same_messages_give_the_same_pairs_and_bytes() -> None:
    sources = [text_source(threads()) for _ in range(2)]
    first, second = (in_memory(pairs_of_texts(source, ENTRY, OPTIONS, silent)) for source in sources)
    for one, other in zip(first, second, strict=True):
        assert one.second is not None
        assert other.second is not None
        assert (one.split, one.label) == (other.split, other.label)
        assert one.tokens.tobytes() == other.tokens.tobytes()
        assert one.second.tobytes() == other.second.tobytes()


def test_texts_that_are_no_pairs_are_refused() -> None:
    single = file_entry("text-lines", ["rows.txt"])
    with pytest.raises(ConfigError, match="had holds single texts, the task retrieval takes pairs, or messages"):
        pairs_of_texts(text_source(threads()), single, OPTIONS, silent)


@pytest.mark.skipif(
    MIRROR is None or not (MIRROR / "newsgroups20").is_dir(),
    reason=f"{MIRROR_VARIABLE} names no folder with newsgroups20/",
)
def test_the_mirrored_messages_give_balanced_pairs_without_quotes(tmp_path: Path) -> None:
    entry = load_catalogue(ROOT).entry("lra-retrieval-newsgroups")
    paths = fetch(entry, tmp_path).paths
    out = tmp_path / "out"
    out.mkdir()
    summary = prepare(entry, paths, OPTIONS, out, silent)
    assert (summary["rows_of_entry"], summary["replies"], summary["rows"]) == (19997, 7292, 14520)
    for counts in summary["counts"].values():
        assert counts["answered"] == counts["unrelated"]
    first, second = ragged(out), ragged(out, "second_")
    labels = open_array(out / "labels.npy").tolist()
    # neither the length of the reply nor that of the other text tells the label
    lengths = np.asarray([len(row) for row in second], dtype=float)
    means = [lengths[np.asarray(labels) == label].mean() for label in (0, 1)]
    assert abs(means[0] - means[1]) < 4 * lengths.std() / np.sqrt(len(lengths) / 2)
    shared = 0
    for number in range(0, 2000, 2):
        reply, other = (bytes(rows[number] - 1).decode("utf-8", "ignore") for rows in (first, second))
        assert not any(QUOTED_LOOSELY.match(line) for line in reply.split("\n"))
        long_lines = {key for key in map(letters_of, reply.split("\n")) if len(key) >= MIN_CHARACTERS}
        shared += bool(long_lines & {letters_of(line) for line in other.split("\n")})
    assert shared == 0


# the published pairs


def table(rows: int, begin: str = "paper") -> bytes:
    lines = (
        f"{number % 2}.0\tid{number}\tother{number}\t{begin} {number} one\t{begin} {number} two"
        for number in range(rows)
    )
    return "".join(f"{line}\n" for line in lines).encode()


GOOD = {name: table(12, split) for split, name in TABLES.items()}


def packed(path: Path, contents: dict[str, bytes], prefix: str = "lra_release/lra_release/tsv_data/") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            info = tarfile.TarInfo(f"{prefix}{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def read_all(paths: list[Path]) -> dict[str, list[TextRow]]:
    source = read_pairs(paths, file_entry("aan-pairs", [path.name for path in paths]))
    assert source.pairs
    return {split: list(rows()) for split, rows in source.parts.items()}


def unpacked(folder: Path, contents: dict[str, bytes]) -> list[Path]:
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in contents]


def test_the_archive_and_the_tables_give_the_same_pairs(tmp_path: Path) -> None:
    # other tasks lie in the archive besides
    contents = {"one.png": b"\x89PNG", **GOOD}
    from_archive = read_all([packed(tmp_path / "lra_release.gz", contents)])
    from_tables = read_all(unpacked(tmp_path, GOOD))
    assert from_archive == from_tables
    assert {split: len(rows) for split, rows in from_tables.items()} == {"train": 12, "validation": 12, "test": 12}
    row = from_tables["validation"][3]
    assert (row.text, row.second, row.label) == ("validation 3 one", "validation 3 two", 1)


def test_published_pairs_are_prepared_with_their_splits(tmp_path: Path) -> None:
    paths = unpacked(tmp_path, GOOD)
    entry = file_entry("aan-pairs", list(GOOD))
    digests = []
    for name in ("one", "other"):
        out = tmp_path / name
        out.mkdir()
        summary = prepare(entry, paths, OPTIONS, out, silent)
        digests.append(sha256_path(out))
    assert digests[0] == digests[1]
    assert summary["splits"] == {"train": 12, "validation": 12, "test": 12}
    assert (summary["pairs"], summary["classes"]) == (True, ["unrelated", "cited"])
    assert [bytes(row - 1).decode() for row in ragged(out, "second_")][13] == "validation 1 two"
    assert left_files(out) == [
        "labels.npy",
        "offsets.npy",
        "second_offsets.npy",
        "second_tokens.npy",
        "splits.npy",
        "tokens.npy",
        "vocabulary.json",
    ]


Spoil = Callable[[dict[str, bytes]], dict[str, bytes]]
TRAIN = TABLES["train"]


def with_train(content: bytes) -> Spoil:
    return lambda contents: {**contents, TRAIN: content}


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        pytest.param(
            with_train(table(3) + b"1.0\tid\tid\tone text\n"), "line 4: got 4 fields, allowed is 5", id="ragged"
        ),
        pytest.param(
            with_train(b"2.0\ta\tb\tone\ttwo\n"), r"line 1: got label '2\.0', allowed is one of 0", id="label"
        ),
        pytest.param(
            with_train(table(2) + "1.0\ta\tb\tté\ttwo\n".encode("latin-1")),
            "line 3, byte 10: got byte 0xe9",
            id="latin-1",
        ),
        pytest.param(with_train(b"1.0\ta\tb\to\0ne\ttwo\n"), "line 1, byte 10: got a NUL byte", id="NUL"),
        pytest.param(with_train(b"1.0\ta\tb\t \ttwo\n"), "row 1: got an empty text", id="empty text"),
    ],
)
@pytest.mark.parametrize("form", ["archive", "tables"])
def test_a_broken_table_is_told_by_its_line(tmp_path: Path, form: str, spoil: Spoil, told: str) -> None:
    contents = spoil(dict(GOOD))
    paths = unpacked(tmp_path, contents) if form == "tables" else [packed(tmp_path / "lra_release.gz", contents)]
    before = left_files(tmp_path)
    with pytest.raises(DataError, match=told) as caught:
        read_all(paths)
    assert "\n" not in str(caught.value)
    assert (TRAIN in str(caught.value)) or "row 1" in str(caught.value)
    assert left_files(tmp_path) == before


def test_an_empty_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no rows, allowed is one row or more"):
        read_all([packed(tmp_path / "lra_release.gz", {**GOOD, TRAIN: b""})])
    with pytest.raises(DataError, match=r"new_aan_pairs\.train\.tsv: got an empty file"):
        read_all(unpacked(tmp_path, {**GOOD, TRAIN: b""}))


def archive_of(contents: dict[str, bytes], prefix: str = "tsv_data/") -> Callable[[Path], None]:
    return lambda path: packed(path, contents, prefix) and None


def truncated(path: Path) -> None:
    packed(path, {name: content * 200 for name, content in GOOD.items()})
    path.write_bytes(path.read_bytes()[:400])


@pytest.mark.parametrize(
    ("write", "told"),
    [
        pytest.param(truncated, "a broken archive", id="truncated"),
        pytest.param(
            lambda path: path.write_bytes(b"<!DOCTYPE html><title>403</title>"), "an HTML page", id="web page"
        ),
        pytest.param(
            archive_of({"aan.train.tsv": table(2)}),
            r"no member new_aan_pairs\.train\.tsv \(it has tsv_data/aan\.train\.tsv\)",
            id="wrong member",
        ),
        pytest.param(archive_of(GOOD, "../"), "a path that leaves its folder", id="traversal"),
        pytest.param(lambda path: path.write_bytes(b""), "an empty file", id="empty"),
    ],
)
def test_a_broken_archive_is_refused(tmp_path: Path, write: Callable[[Path], None], told: str) -> None:
    path = tmp_path / "lra_release.gz"
    write(path)
    with pytest.raises(DataError, match=told) as caught:
        read_all([path])
    assert "lra_release.gz" in str(caught.value)
    assert left_files(tmp_path) == ["lra_release.gz"]


def test_an_archive_that_swells_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = packed(tmp_path / "lra_release.gz", {**GOOD, TRAIN: b"0" * (1 << 21)})
    monkeypatch.setattr(aan, "LIMITS", Limits(member_bytes=1 << 20, total_bytes=1 << 30, members=10))
    with pytest.raises(DataError, match="more than 1,048,576 bytes unpacked"):
        read_all([path])


def test_other_files_are_refused(tmp_path: Path) -> None:
    paths = unpacked(tmp_path, {TRAIN: table(2), "rest.tsv": table(2)})
    with pytest.raises(DataError, match=r"got the files new_aan_pairs\.train\.tsv, rest\.tsv, allowed is the archive"):
        read_all(paths)
