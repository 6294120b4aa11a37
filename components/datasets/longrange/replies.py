"""Reply pairs: a Usenet message beside the message that it answers, and beside one that it does not.

The pairs are made so that neither text gives the answer away alone: every reply stands in one pair of each label, the
same in both, and the text that does not belong to it is one that another reply of the same group answers. Headers,
signatures and quoted lines are taken off, and off the reply every line that the answered message has too, however it
is marked or wrapped, so that the task is not to find equal strings. Whole threads stay in one split.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from components.arrays import SPLITS
from components.datasets.core.joining import Joined
from components.datasets.core.options import RowLimits
from components.datasets.core.planning import RowIndex, plan_rows
from components.datasets.longrange.config import PrepareOptions
from components.datasets.text.messages import QUOTED_LOOSELY, headers_of, message_ids, stripped, without_quotes
from components.datasets.text.source import TextRow
from components.files import sha256_bytes
from components.progress import Tell

CLASSES = ("unrelated", "answered")
# Shorter texts say too little.
MIN_CHARACTERS = 40
# A line of fewer letters and digits may stand in both texts by chance.
REPEATED_CHARACTERS = 16
ROWS_BETWEEN_TELLING = 1024

_NEITHER = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class ReplyPair:
    """A reply, the text it answers or another one, whether it answers it, its thread and split."""

    reply: str
    other: str
    label: int
    thread: str
    split: str


@dataclass(frozen=True)
class Message:
    """What is used of a message: its text as another's answer sees it, the letters of all of it, what it answers."""

    id: str
    body: str
    letters: str
    label: int
    answers: str
    thread: str


def reply_pairs(rows: Iterable[TextRow], options: PrepareOptions, tell: Tell) -> tuple[list[ReplyPair], dict[str, Any]]:
    """The pairs in order of split, and facts for the summary. The messages are held in memory."""
    messages, facts = read_messages(rows, tell)
    replies = [
        replace(message, body=without_repeated(message.body, messages[message.answers].letters))
        for message in messages.values()
        if message.answers in messages
    ]
    told = [reply for reply in replies if len(reply.body) >= MIN_CHARACTERS]
    index = RowIndex()
    for reply in told:
        both = (reply.body, messages[reply.answers].body)
        identity = sha256_bytes("\x1f".join(" ".join(text.split()) for text in both).encode())
        index.add("train", identity, reply.label, reply.thread)
    # a reply becomes two rows
    halves = {split: max(limit // 2, 1) if limit else None for split, limit in options.rows.model_dump().items()}
    plan = plan_rows(index, options.model_copy(update={"rows": RowLimits(**halves)}))
    pairs: list[ReplyPair] = []
    alone = 0
    for code, split in enumerate(SPLITS):
        by_group: dict[int, list[Message]] = defaultdict(list)
        for reply, planned in zip(told, plan.splits.tolist(), strict=True):
            if planned == code:
                by_group[reply.label].append(reply)
        for label in sorted(by_group):
            made, left = _pairs_of_group(by_group[label], messages, options.seed, split)
            pairs += made
            alone += left
    return pairs, {
        "rows_of_entry": facts["messages"],
        "duplicates": plan.facts["duplicates"],
        **facts,
        "replies": len(replies),
        "replies_with_little_of_their_own": len(replies) - len(told),
        "replies_alone_in_their_group": alone,
    }


def read_messages(rows: Iterable[TextRow], tell: Tell) -> tuple[dict[str, Message], dict[str, int]]:
    """Messages by Message-ID, each once; threads are joined over all references and over equal texts."""
    found: dict[str, Message] = {}
    threads = Joined()
    count = short = again = 0
    for row in rows:
        count += 1
        headers = headers_of(row.text)
        own = message_ids(headers.get("message-id", ""))
        answered = message_ids(headers.get("references", ""))
        body = without_quotes(stripped(row.text, ("headers", "footers")), QUOTED_LOOSELY).strip()
        name = own[0] if own else f"row {row.id}"
        for other in (*answered, f"text {sha256_bytes(' '.join(body.split()).encode())}"):
            threads.join(name, other)
        if name in found:
            again += 1
        elif len(body) < MIN_CHARACTERS:
            short += 1
        else:
            letters = letters_of(stripped(row.text, ("headers",)))
            found[name] = Message(name, body, letters, int(row.label), answered[-1] if answered else "", "")
        if count % ROWS_BETWEEN_TELLING == 0:
            tell(count, None)
    named = {name: replace(message, thread=threads.root(name)) for name, message in found.items()}
    return named, {"messages": count, "copies_of_a_message": again, "short_messages": short}


def _pairs_of_group(
    replies: list[Message], messages: dict[str, Message], seed: int, split: str
) -> tuple[list[ReplyPair], int]:
    """Both pairs of each reply of one group and split, and how many replies found no other thread to be beside."""
    ordered = sorted(replies, key=lambda reply: sha256_bytes(f"{seed} {reply.id}".encode()))
    pairs: list[ReplyPair] = []
    left = 0
    for place, reply in enumerate(ordered):
        strangers = (ordered[(place + step) % len(ordered)] for step in range(1, len(ordered)))
        stranger = next((other for other in strangers if other.thread != reply.thread), None)
        if stranger is None:
            left += 1
            continue
        for label, other in ((1, reply.answers), (0, stranger.answers)):
            pairs.append(ReplyPair(reply.body, messages[other].body, label, reply.thread, split))
    return pairs, left


def without_repeated(text: str, letters: str) -> str:
    """`text` without the lines whose letters and digits stand in `letters`, too many of them to be chance."""
    lines = text.split("\n")
    return "\n".join(
        line for line in lines if len(letters_of(line)) < REPEATED_CHARACTERS or letters_of(line) not in letters
    ).strip()


def letters_of(text: str) -> str:
    """Its letters and digits in lower case: what stays the same when text is quoted and wrapped anew."""
    return _NEITHER.sub("", text).lower()
