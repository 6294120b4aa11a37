"""The gate of prepared texts: encoding, empty and over-long rows, labels, copies, groups, pairs, drift.

Texts are reduced to a few numbers a row before anything is compared, a batch at a time.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from components.arrays import SPLITS
from components.datasets.core.parquet import NUMBER, STRING, read_batches
from components.datasets.text.config import GateOptions
from components.errors import DataError
from components.files import read_json, sha256_bytes
from components.quality.core.drift import Drift
from components.quality.core.expectations import Suite, drop_docs, run_suites
from components.quality.core.profile import Observations
from components.quality.core.report import Check, GateReport
from components.quality.core.requirements import (
    AGAIN,
    READABLE,
    SOURCE,
    between,
    classes_suite,
    copies,
    facts_suite,
    shares_suite,
    splits_suite,
)

ROWS = "rows.parquet"
# The replacement character, and the control characters between ASCII and Latin-1 that no text has.
UNDECODED = re.compile("[�\x80-\x9f]")


@dataclass
class Reduced:
    """Facts by row, in the order of the file."""

    ids: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    labels: list[float] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    identities: list[str] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    beyond_ascii: list[float] = field(default_factory=list)
    undecoded: int = 0
    nul: int = 0
    empty: int = 0
    equal_pairs: int = 0


def gate(folder: Path, options: GateOptions, *, subject: str, docs_folder: Path | None, drift: Drift) -> GateReport:
    """Judge a prepared folder of texts, see `components.quality.registry.DataGate`."""
    expected = f"a readable {ROWS} and summary.json"
    try:
        summary = read_json(folder / "summary.json")
        reduced = _reduce(folder, bool(summary["pairs"]))
    except (DataError, OSError, ValueError, KeyError, TypeError) as error:
        if docs_folder is not None:
            drop_docs(docs_folder)
        came = " ".join(str(error).split()).split("; ")[0]
        return GateReport("data", subject, (Check(READABLE, False, came, expected, "", AGAIN),))
    readable = Check(READABLE, True, f"{len(reduced.ids)} rows", expected)
    codes = np.asarray([SPLITS.index(name) if name in SPLITS else 255 for name in reduced.splits], dtype=np.uint8)
    suites: list[Suite] = [
        splits_suite(
            {name: int((codes == code).sum()) for code, name in enumerate(SPLITS)},
            int((codes == 255).sum()),
            options.min_rows,
        ),
        _texts(reduced, options),
        _labels(reduced, summary["classes"], options),
        _shares(reduced, codes, options, bool(summary["pairs"])),
        drift.suite(_observations(reduced, summary["classes"])),
    ]
    return GateReport("data", subject, (readable, *run_suites(subject, tuple(suites), docs_folder)))


def observations(folder: Path) -> Observations:
    """Characters and words of each row, share of characters beyond ASCII, and the class or target."""
    summary = read_json(folder / "summary.json")
    return _observations(_reduce(folder, bool(summary["pairs"])), summary["classes"])


def _reduce(folder: Path, pairs: bool) -> Reduced:
    columns = {"id": STRING, "text": STRING, "label": NUMBER, "group": STRING, "split": STRING}
    if pairs:
        columns["second"] = STRING
    reduced = Reduced()
    for batch in read_batches(folder / ROWS, columns):
        reduced.ids += batch["id"]
        reduced.splits += batch["split"]
        reduced.labels += [float(label) for label in batch["label"]]
        reduced.groups += batch["group"]
        for text, second in zip(batch["text"], batch["second"] if pairs else [""] * len(batch["text"]), strict=True):
            whole = f"{text}\x1f{second}" if pairs else text
            # each side for itself, since the mark between them counts as a blank
            sides = (" ".join(side.split()) for side in (text, second))
            reduced.identities.append(sha256_bytes("\x1f".join(sides).encode()))
            reduced.lengths.append(max(len(text), len(second)))
            reduced.words.append(len(text.split()) + len(second.split()))
            reduced.beyond_ascii.append(1 - len(whole.encode("ascii", "ignore")) / max(len(whole), 1))
            reduced.undecoded += bool(UNDECODED.search(whole))
            reduced.nul += "\0" in whole
            reduced.empty += not text.strip() or (pairs and not second.strip())
            reduced.equal_pairs += pairs and text.split() == second.split()
    return reduced


def _texts(reduced: Reduced, options: GateOptions) -> Suite:
    repeated = sum(count - 1 for count in Counter(reduced.ids).values())
    longest = max(reduced.lengths)
    most = options.max_characters
    facts = {
        "of": "all rows",
        "empty texts": reduced.empty,
        "NUL bytes": reduced.nul,
        "repeated identifiers": repeated,
        "characters of the longest": longest,
    }
    return facts_suite(
        "texts",
        [facts],
        ("of",),
        between("texts/empty", ("empty texts",), 0, 0, "no row with an empty text", SOURCE),
        between("texts/nul", ("NUL bytes",), 0, 0, "no row with a NUL byte", SOURCE),
        between("texts/unique", ("repeated identifiers",), 0, 0, "each identifier once", AGAIN),
        between("texts/length", ("characters of the longest",), 1, most, f"at most {most} characters", SOURCE),
    )


def _labels(reduced: Reduced, classes: list[str] | None, options: GateOptions) -> Suite:
    if classes is None:
        finite = sum(math.isfinite(label) for label in reduced.labels)
        facts = [{"what": "labels", "not finite": len(reduced.labels) - finite, "different": len(set(reduced.labels))}]
        return facts_suite(
            "labels",
            facts,
            ("what",),
            between("labels/finite", ("not finite",), 0, 0, "finite labels", SOURCE),
            between("labels/different", ("different",), 2, None, "at least 2 different labels", SOURCE),
        )
    counts = {split: dict.fromkeys(classes, 0) for split in SPLITS}
    strangers = 0
    for split, label in zip(reduced.splits, reduced.labels, strict=True):
        if label not in range(len(classes)):
            strangers += 1
        elif split in counts:
            counts[split][classes[int(label)]] += 1
    return classes_suite(counts, strangers, options.max_share_drift)


def _shares(reduced: Reduced, codes: Any, options: GateOptions, pairs: bool) -> Suite:
    within, across = copies(reduced.identities, codes)
    # a row without a group is in a group of its own
    named = [group or f"row {i}" for i, group in enumerate(reduced.groups)]
    _, groups_across = copies(named, codes)
    rows = len(reduced.ids)
    shares = {
        "copies within a split": (within, options.max_duplicates_within, "max_duplicates_within"),
        "copies across splits": (across, options.max_duplicates_across, "max_duplicates_across"),
        "groups across splits": (groups_across, options.max_groups_across, "max_groups_across"),
        "wrongly decoded": (reduced.undecoded / rows, options.max_undecoded, "max_undecoded"),
    }
    if pairs:
        shares["pairs of equal texts"] = (reduced.equal_pairs / rows, options.max_equal_pairs, "max_equal_pairs")
    return shares_suite("flaws", shares)


def _observations(reduced: Reduced, classes: list[str] | None) -> Observations:
    numbers = {
        "characters": np.asarray(reduced.lengths, dtype=np.float64),
        "words": np.asarray(reduced.words, dtype=np.float64),
        "beyond ascii": np.asarray(reduced.beyond_ascii, dtype=np.float64),
    }
    if classes is None:
        return {**numbers, "label": np.asarray(reduced.labels, dtype=np.float64)}
    known = {float(i): name for i, name in enumerate(classes)}
    return {**numbers, "class": [known.get(label, "none of them") for label in reduced.labels]}
