"""Usenet messages: their headers, and what to take off so that a classifier reads the text and not the envelope."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

Removable = Literal["headers", "footers", "quotes"]

HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]*):[ \t]*(.*)", re.ASCII)
MESSAGE_ID = re.compile(r"<[^<>\s]+>")
# A quoted line, or the line that says whose words follow. These are the marks that scikit-learn takes off, so that
# figures on the stripped texts can be compared; a mark after a blank is not among them.
QUOTED = re.compile(r"[>|]|In article|Quoted from|.*(?:writes in|writes:|wrote:|says:|said:)")
# The same whatever blanks and case: it takes off drawings too, for uses where no quotation may stay.
QUOTED_LOOSELY = re.compile(
    r"\s*[>|]|.*\b(?:writes in|writes:|wrote:|says:|said:)|\s*In article\b|\s*Quoted from\b", re.IGNORECASE
)
# What mail and news programs put before the subject of an answer.
ANSWER_MARKS = re.compile(r"(?:\s*re\s*(?:\^\d+|\[\d+\])?\s*:)+", re.IGNORECASE)


def headers_of(message: str) -> dict[str, str]:
    """The header fields by name in lower case; a line that begins with a blank continues the one before."""
    fields: dict[str, str] = {}
    name = ""
    for line in message.partition("\n\n")[0].split("\n"):
        if name and line[:1] in (" ", "\t"):
            fields[name] += f" {line.strip()}"
            continue
        found = HEADER.fullmatch(line)
        if found:
            name = found[1].lower()
            fields.setdefault(name, found[2].strip())
    return fields


def message_ids(field: str) -> list[str]:
    """The identifiers in a Message-ID or References field, in their order."""
    return MESSAGE_ID.findall(field)


def subject_of(field: str) -> str:
    """A subject without marks of an answer, in lower case and with single blanks; empty where nothing is left."""
    found = ANSWER_MARKS.match(field)
    return " ".join(field[found.end() if found else 0 :].lower().split())


def without_headers(message: str) -> str:
    """The text after the first blank line; all of it where there is none."""
    head, blank, body = message.partition("\n\n")
    return body if blank else head


def without_quotes(message: str, quoted: re.Pattern[str] = QUOTED) -> str:
    """Without the lines that repeat or announce another's words: those that begin as `quoted` says."""
    return "\n".join(line for line in message.split("\n") if not quoted.match(line))


def without_footer(message: str) -> str:
    """Without a signature: the last line that is blank or of dashes, and what follows; all, where no text precedes."""
    lines = message.strip().split("\n")
    for number in range(len(lines) - 1, 0, -1):
        if not lines[number].strip().strip("-"):
            return "\n".join(lines[:number])
    return message


REMOVERS: Mapping[Removable, Callable[[str], str]] = {
    "headers": without_headers,
    "footers": without_footer,
    "quotes": without_quotes,
}


def stripped(message: str, remove: Sequence[Removable]) -> str:
    """The message without what is named in `remove`, taken off in the order headers, footers, quotes."""
    for what, remover in REMOVERS.items():
        if what in remove:
            message = remover(message)
    return message
