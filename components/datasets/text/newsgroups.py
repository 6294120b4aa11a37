"""20 Newsgroups: messages in 20 groups, some of them sent to several groups at once.

Such a cross-post is one message under several labels, and some come again under another Message-ID. Equal identifiers
or equal texts below the headers tie rows into one group, so that copies never come into two splits. A thread is all
that answers one another, told by the References, and by the subject within a newsgroup, since not every answer has
References.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from components.datasets.core.archives import Limits, members, missing_member
from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault, shown_value
from components.datasets.core.parquet import INTEGER, STRING, read_batches
from components.datasets.text.checks import Rows, checked, label_in, split_of_each_file
from components.datasets.text.messages import headers_of, message_ids, subject_of, without_headers
from components.datasets.text.options import TextOptions, text_options
from components.datasets.text.source import TextRow, TextSource
from components.files import sha256_bytes

LIMITS = Limits(member_bytes=1 << 24, total_bytes=1 << 28, members=50_000)
FOLDERS = {"train": "20news-bydate-train", "test": "20news-bydate-test"}


def read_archive(paths: Sequence[Path], entry: Entry) -> TextSource:
    """Train and test messages of the by-date archive, decoded as latin-1, which takes any byte but NUL."""
    (path,) = paths
    options = text_options(entry)
    there = [member.name for member in members(path, LIMITS)]
    for folder in FOLDERS.values():
        if not any(name.startswith(f"{folder}/") for name in there):
            raise missing_member(path, f"{folder}/", there)
    parts = {split: checked(path, _members(path, split, folder, options)) for split, folder in FOLDERS.items()}
    return TextSource(options.classes, False, parts)


def read_parquet(paths: Sequence[Path], entry: Entry) -> TextSource:
    """Messages in parquet with columns text, label, group (the class's name) and msg_id. Raises DataError."""
    options = text_options(entry)
    parts = {
        split: checked(path, _parquet_rows(path, options))
        for split, path in zip(split_of_each_file(entry), paths, strict=True)
    }
    return TextSource(options.classes, False, parts)


def _members(path: Path, split: str, folder: str, options: TextOptions) -> Rows:
    classes = options.classes or ()

    def reading() -> Iterator[TextRow]:
        for member in members(path, LIMITS):
            top, _, rest = member.name.partition("/")
            if top != folder:
                continue
            name, _, number = rest.partition("/")
            if name not in classes:
                raise fault(path, f"member {member.name}", f"group {shown_value(name)}", f"one of {', '.join(classes)}")
            yield _row(f"{split}-{name}-{number}", "\n".join(member.lines("latin-1")), classes.index(name))

    return reading


def _parquet_rows(path: Path, options: TextOptions) -> Rows:
    columns = {"text": STRING, "label": INTEGER, "group": STRING, "msg_id": STRING}
    classes = options.classes or ()

    def reading() -> Iterator[TextRow]:
        number = 0
        for batch in read_batches(path, columns):
            for text, written, name, identifier in zip(*(batch[column] for column in columns), strict=True):
                number += 1
                label = label_in(path, f"row {number}", str(written), options)
                if classes[int(label)] != name:
                    place = f"row {number}, column group"
                    raise fault(path, place, f"{shown_value(name)} beside label {label}", f"{classes[int(label)]!r}")
                yield _row(f"{name}-{identifier}", text, int(label))

    return reading


def _row(identifier: str, text: str, label: int) -> TextRow:
    headers = headers_of(text)
    own = message_ids(headers.get("message-id", ""))[:1]
    body = " ".join(without_headers(text).split())
    groups = (*own, *([f"text {sha256_bytes(body.encode())}"] if body else ()))
    subject = subject_of(headers.get("subject", ""))
    threads = (*groups, *message_ids(headers.get("references", "")))
    if subject:
        threads += (f"subject {label} {subject}",)
    return TextRow(identifier, text, None, label, groups, threads)
