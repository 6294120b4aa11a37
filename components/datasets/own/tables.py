"""Infer which columns of a CSV file are text and label."""

from collections import Counter
from pathlib import Path

from components.datasets.core.csv_records import read_records
from components.datasets.core.faults import fault, shown_path, shown_value
from components.datasets.own.proposal import Proposal, Wishes
from components.errors import DataError, UsageError

LABEL_NAMES = ("label", "class", "target", "category", "sentiment", "y")
# A label has at most so many different values, and each of them so many rows.
MOST_CLASSES = 200
SHOWN_ROWS = 3


def propose_table(path: Path, wishes: Wishes) -> Proposal:
    """The text is the column of longest values, the label one that is called so or has few values. Raises DataError."""
    records = read_records(path)
    header = next(records, [])
    rows = list(records)
    if not header or not rows:
        raise fault(path, "", "no rows", "a header and one row or more")
    if len(set(header)) != len(header):
        raise fault(path, "header", f"column {Counter(header).most_common(1)[0][0]!r} twice", "each name once")
    separators = [separator for separator in ";\t|" if separator in header[0]]
    if len(header) == 1 and separators:
        came = f"one column {shown_value(header[0])}, perhaps separated by {separators[0]!r}"
        raise fault(path, "header", came, "columns separated by commas")
    columns = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    text = _wished(path, wishes.text, header, "--text") or _longest(path, columns)
    label = _wished(path, wishes.label, header, "--label") or _label(path, columns, text)
    values = Counter(columns[label])
    if len(values) < 2 or len(values) > MOST_CLASSES:
        came = f"{len(values)} different values in column {label!r}"
        raise fault(path, f"column {label}", came, f"2 to {MOST_CLASSES} classes; name another column by --label")
    written = sorted(values)
    shown = [
        f"{len(rows)} rows, {len(header)} columns: {', '.join(header)}",
        f"text: column {text!r}, for example {shown_value(columns[text][0])}",
        f"label: column {label!r}, {len(written)} classes: "
        + ", ".join(f"{value} ({values[value]})" for value in written[:10]),
    ]
    ignored = [name for name in header if name not in (text, label)]
    if ignored:
        shown.append(f"not used: {', '.join(ignored)}")
    options = {"text": text, "label": label, "ignored": ignored, "classes": written, "written": written}
    return Proposal("text", "text", "text-csv", path, "train", len(rows), options, shown=tuple(shown))


def _wished(path: Path, wish: str | None, header: list[str], option: str) -> str | None:
    if wish is not None and wish not in header:
        raise UsageError(f"{option} names {wish!r}, but {shown_path(path)} has the columns {', '.join(header)}")
    return wish


def _longest(path: Path, columns: dict[str, list[str]]) -> str:
    means = {name: sum(map(len, values)) / len(values) for name, values in columns.items() if not _numeric(values)}
    if not means:
        raise DataError(
            f"{shown_path(path)}: no column holds text, only numbers; allowed is a table of texts and labels; "
            "name the column by --text if it is one"
        )
    return max(means, key=lambda name: means[name])


def _label(path: Path, columns: dict[str, list[str]], text: str) -> str:
    others = [name for name in columns if name != text]
    called = [name for name in others if name.lower() in LABEL_NAMES]
    few = [name for name in others if 2 <= len(set(columns[name])) <= min(MOST_CLASSES, len(columns[name]) // 2)]
    for candidates in (called, few):
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            break
    came = f"{len(candidates)} columns that could be the label ({', '.join(candidates) or 'none'})"
    raise DataError(f"{shown_path(path)}: {came}; name it by --label; the columns are {', '.join(columns)}")


def _numeric(values: list[str]) -> bool:
    try:
        for value in values:
            float(value)
    except ValueError:
        return False
    return True
