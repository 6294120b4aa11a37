"""Infer whether a plain text is labelled lines, or text to model as language."""

from collections import Counter
from pathlib import Path

from components.datasets.core.faults import fault, shown_value
from components.datasets.own.proposal import Proposal, Wishes
from components.datasets.own.tables import MOST_CLASSES
from components.datasets.text.lines import lines_of

# The later part of a text, which validation and test are cut from, and the share of words in it that the earlier part
# lacks: a text with more is too small to be modelled by words.
LATER = 0.3
MOST_NEW = 0.1
# Of the later part validation is a third: 0.3 of it would be new were all new words there.
WORD_GATE = {"max_unknown": 0.35, "max_most_frequent": 0.5}
BYTE_GATE = {"max_most_frequent": 0.5}


def propose_text(path: Path, wishes: Wishes) -> Proposal:
    """Every line a label, a tab and a text: labelled text. Otherwise text for language modelling. Raises DataError."""
    del wishes
    lines = [line for line in lines_of(path) if line.strip()]
    if not lines:
        raise fault(path, "", "no text", "lines of text")
    labels = Counter(line.partition("\t")[0] for line in lines)
    if all("\t" in line for line in lines) and 2 <= len(labels) <= min(MOST_CLASSES, len(lines) // 2):
        written = sorted(labels)
        shown = (
            f"{len(lines)} lines of a label, a tab and a text",
            f"{len(written)} classes: " + ", ".join(f"{value} ({labels[value]})" for value in written[:10]),
            f"for example {shown_value(lines[0].partition(chr(9))[2])}",
        )
        options = {"classes": written, "written": written}
        return Proposal("text", "text", "text-lines", path, "train", len(lines), options, shown=shown)
    return _language(path, lines)


def _language(path: Path, lines: list[str]) -> Proposal:
    words = [word for line in lines for word in line.split()]
    place = int(len(words) * (1 - LATER))
    known = set(words[:place])
    new = sum(word not in known for word in words[place:]) / (len(words) - place)
    unit, gate = ("word", WORD_GATE) if new <= MOST_NEW else ("byte", BYTE_GATE)
    shown = (
        f"{len(lines)} lines of text, {len(words)} words, no labels",
        f"tokens: {unit}s, since {100 * new:.0f} % of the words in its last third are new (words up to {MOST_NEW:.0%})",
        f"for example {shown_value(lines[0])}",
    )
    prepare = {"unit": unit}
    return Proposal("language", "language", "language-text", path, "train", len(words), {}, prepare, gate, shown)
