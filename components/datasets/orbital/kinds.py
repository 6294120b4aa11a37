"""What an object is, told from its catalogue name: the catalogues name debris and rocket bodies by fixed words.

An object without such a word counts as a payload, also when it has no proper name yet ("OBJECT A", "TBA - TO BE
ASSIGNED"); so PAYLOAD means "payload or not yet identified".
"""

import re

KINDS = ("PAYLOAD", "ROCKET BODY", "DEBRIS")

# Whole words only: the payload DEBUT is no debris. Debris is asked first: "SL-8 R/B DEB" is a piece of a rocket body.
_WORDS = (
    ("DEBRIS", re.compile(r"\b(DEB|DEBRIS|COOLANT|NEEDLES)\b")),
    ("ROCKET BODY", re.compile(r"\b(R/B|AKM|PKM|ROCKET)\b")),
)


def kind_of(name: str) -> str:
    """The kind of the object called `name`, one of `KINDS`."""
    for kind, words in _WORDS:
        if words.search(name.upper()):
            return kind
    return "PAYLOAD"
