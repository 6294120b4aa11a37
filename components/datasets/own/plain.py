"""Infer whether a plain text is labelled lines, or text to model as language."""

from collections import Counter
from pathlib import Path

from components.datasets.core.faults import fault, shown_value
from components.datasets.own.proposal import Proposal, Wishes
from components.datasets.own.tables import MOST_CLASSES
from components.datasets.text.lines import lines_of


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
    words = sum(len(line.split()) for line in lines)
    told = (f"{len(lines)} lines of text, {words} words, no labels", f"for example {shown_value(lines[0])}")
    return Proposal("language", "language", "language-text", path, "train", words, {}, shown=told)
