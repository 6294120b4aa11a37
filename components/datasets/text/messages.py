"""Usenet messages: their headers, and what to take off so that a classifier reads the text and not the envelope."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

Removable = Literal["headers", "footers", "quotes"]

HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]*):[ \t]*(.*)", re.ASCII)
MESSAGE_ID = re.compile(r"<[^<>\s]+>")
# A quoted line, or the line that says whose words follow.
QUOTED = re.compile(
    r"\s*[>|]|.*\b(?:writes in|writes:|wrote:|says:|said:)|\s*In article\b|\s*Quoted from\b", re.IGNORECASE
)


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


def without_headers(message: str) -> str:
    """The text after the first blank line; all of it where there is none."""
    head, blank, body = message.partition("\n\n")
    return body if blank else head


def without_quotes(message: str) -> str:
    """Without the lines that repeat or announce another's words."""
    return "\n".join(line for line in message.split("\n") if not QUOTED.match(line))


def without_footer(message: str) -> str:
    """Without a signature: what follows the last line that is blank or of dashes, if text comes before that line."""
    lines = message.strip().split("\n")
    for number in range(len(lines) - 1, 0, -1):
        if not lines[number].strip().strip("-"):
            return "\n".join(lines[:number])
    return "\n".join(lines)


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
