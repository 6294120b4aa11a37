"""The gate of prepared long sequences: form, lengths, tokens, labels, copies, rows worked out again, drift.

Tokens are reduced to a few numbers before anything is compared, a part at a time.
"""

from pathlib import Path

import numpy as np

from components.arrays import SPLITS
from components.datasets.longrange.config import GateOptions
from components.quality.core.drift import Drift
from components.quality.core.expectations import Suite, drop_docs, run_suites
from components.quality.core.profile import Observations
from components.quality.core.report import GateReport
from components.quality.core.requirements import (
    AGAIN,
    SOURCE,
    between,
    classes_suite,
    copies,
    facts_suite,
    shares_suite,
    splits_suite,
)
from components.quality.longrange.prepared import (
    Prepared,
    count_tokens,
    form_suites,
    identities,
    mean_tokens,
    open_prepared,
    require_prepared,
)
from components.quality.longrange.reworked import faults

# Where a row is an image, its brightness is followed too.
IMAGES = ("pixels", "pathfinder")
# So many faults are told in words.
FAULTS_TOLD = 3


def gate(folder: Path, options: GateOptions, *, subject: str, docs_folder: Path | None, drift: Drift) -> GateReport:
    """Judge a prepared folder of long sequences, see `components.quality.registry.DataGate`."""
    prepared, opened = open_prepared(folder)
    if prepared is None:
        if docs_folder is not None:
            drop_docs(docs_folder)
        return GateReport("data", subject, tuple(check for check in opened if not check.passed))
    structure = form_suites(prepared)
    checks = run_suites(subject, structure, docs_folder)
    if not all(check.passed for check in checks):
        return GateReport("data", subject, (*opened, *checks))
    splits = np.asarray(prepared.arrays["splits"])
    suites: tuple[Suite, ...] = (
        *structure,
        splits_suite(
            {name: int((splits == code).sum()) for code, name in enumerate(SPLITS)},
            int((splits >= len(SPLITS)).sum()),
            options.min_rows,
        ),
        _lengths(prepared, options),
        _tokens(prepared),
        _classes(prepared, options),
        _shares(prepared, options),
        _reworked(prepared, options),
        drift.suite(_observations(prepared)),
    )
    return GateReport("data", subject, (*opened, *run_suites(subject, suites, docs_folder)))


def observations(folder: Path) -> Observations:
    """Length of each row, of both sequences of a pair; of images the mean token; and the class. Raises DataError."""
    return _observations(require_prepared(folder))


def _lengths(prepared: Prepared, options: GateOptions) -> Suite:
    splits = np.asarray(prepared.arrays["splits"])
    facts = []
    for name, side in prepared.sides.items():
        for code, split in enumerate(SPLITS):
            lengths = side.lengths[splits == code]
            shortest, longest = (int(lengths.min()), int(lengths.max())) if len(lengths) else (None, None)
            facts.append({"of": name, "split": split, "shortest": shortest, "longest": longest})
    expected = f"rows of {options.min_length} to {options.max_length} tokens (min_length, max_length)"
    bounds = (options.min_length, options.max_length, expected, SOURCE)
    return facts_suite(
        "lengths",
        facts,
        ("of", "split"),
        between("lengths/shortest", ("shortest",), *bounds),
        between("lengths/longest", ("longest",), *bounds),
    )


def _tokens(prepared: Prepared) -> Suite:
    facts = []
    for name, side in prepared.sides.items():
        padding, strangers = count_tokens(prepared, side)
        facts.append({"of": name, "padding": padding, "strangers": strangers})
    known = f"only the {len(prepared.vocabulary)} tokens of vocabulary.json"
    return facts_suite(
        "tokens",
        facts,
        ("of",),
        between("tokens/known", ("strangers",), 0, 0, known, AGAIN),
        between("tokens/no_padding", ("padding",), 0, 0, "no padding inside a row", AGAIN),
    )


def _classes(prepared: Prepared, options: GateOptions) -> Suite:
    labels, splits = (np.asarray(prepared.arrays[name]) for name in ("labels", "splits"))
    counts = {
        split: {
            name: int(((splits == code) & (labels == label)).sum())
            for label, name in enumerate(prepared.summary.classes)
        }
        for code, split in enumerate(SPLITS)
    }
    strangers = int(((labels < 0) | (labels >= len(prepared.summary.classes))).sum())
    return classes_suite(counts, strangers, options.max_share_drift)


def _shares(prepared: Prepared, options: GateOptions) -> Suite:
    digests = identities(prepared)
    within, across = copies(digests, np.asarray(prepared.arrays["splits"]))
    shares = {
        "copies within a split": (within, options.max_duplicates_within, "max_duplicates_within"),
        "copies across splits": (across, options.max_duplicates_across, "max_duplicates_across"),
    }
    if prepared.summary.pairs:
        equal = sum(len(set(digest.split())) == 1 for digest in digests) / max(prepared.rows, 1)
        shares["pairs of equal sequences"] = (equal, options.max_equal_pairs, "max_equal_pairs")
    return shares_suite("flaws", shares)


def _reworked(prepared: Prepared, options: GateOptions) -> Suite:
    """Rows spread evenly over the set, worked out again."""
    sample = np.unique(np.linspace(0, prepared.rows - 1, min(options.sample, prepared.rows)).astype(int)).tolist()
    told = [(row, fault) for row, fault in zip(sample, faults(prepared, sample), strict=True) if fault]
    first = "; ".join(f"row {row}: {fault}" for row, fault in told[:FAULTS_TOLD]) or "none"
    facts = [
        {"what": f"{len(sample)} of {prepared.rows} rows", "examined": len(sample), "faults": len(told), "first": first}
    ]
    return facts_suite(
        "reworked",
        facts,
        ("what",),
        between("reworked/examined", ("examined",), 1, None, "1 row or more worked out again", AGAIN),
        between(
            "reworked/agree",
            ("faults", "first"),
            0,
            0,
            f"no row that is not what its {prepared.summary.task} task says",
            AGAIN,
        ),
    )


def _observations(prepared: Prepared) -> Observations:
    numbers = {
        "length" if name == "sequence" else "second length": side.lengths.astype(np.float64)
        for name, side in prepared.sides.items()
    }
    if prepared.summary.task in IMAGES:
        numbers["mean token"] = mean_tokens(prepared.sides["sequence"])
    classes = prepared.summary.classes
    labels = prepared.arrays["labels"].tolist()
    return {**numbers, "class": [classes[label] if 0 <= label < len(classes) else "none of them" for label in labels]}
