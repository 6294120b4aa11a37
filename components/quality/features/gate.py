"""The gate of token features: form, agreement with the data set, finite and varied values, and rows computed anew."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.arrays import SPLITS
from components.datasets.features.computing import Texts
from components.datasets.features.config import FeatureGateOptions
from components.errors import DataError
from components.files import read_json, sha256_bytes
from components.quality.core.expectations import Suite, drop_docs, run_suites
from components.quality.core.report import Check, GateReport
from components.quality.core.requirements import (
    among,
    array_suite,
    between,
    facts_suite,
    open_arrays,
)

AGAIN = "delete the folder of the features and `quintet run` computes them again; if they come back so, report that"
SOURCE = "look at the texts and the encoder, or change the threshold in conf/features/ with a reason"

TOKENS_AT_ONCE = 1 << 15
# A dimension that varies less than this against its own size carries nothing.
LEAST_VARIATION = 1e-4
# Said where there is no difference that can be measured.
FAR = 1e9

# One row anew: from its position to (tokens, D) float32.
Recompute = Callable[[int], NDArray[np.float32]]


def gate_features(
    folder: Path,
    texts: Texts,
    encoder: Mapping[str, Any],
    options: FeatureGateOptions,
    recompute: Recompute,
    *,
    subject: str,
    docs_folder: Path | None,
) -> GateReport:
    """Judge data/features/NAME against the rows it was computed from; bad features give a refusing report.

    `encoder` are the facts of the encoder that `recompute` asks.
    """
    arrays, readable = open_arrays(folder, ["features", "offsets", "labels", "splits", "tokens"])
    told, summary = _summary(folder)
    if not readable.passed or not told.passed:
        if docs_folder is not None:
            drop_docs(docs_folder)
        return GateReport("data", subject, tuple(check for check in (readable, told) if not check.passed))
    structure = _structure(arrays, texts, summary)
    checks = run_suites(subject, structure, docs_folder)
    if not all(check.passed for check in checks):
        return GateReport("data", subject, (readable, told, *checks))
    suites = (
        *structure,
        _encoder(summary, encoder),
        _rows(arrays, texts, folder),
        _values(arrays["features"], options),
        _same(arrays, texts, options),
        _recomputed(arrays, options, recompute),
    )
    return GateReport("data", subject, (readable, told, *run_suites(subject, suites, docs_folder)))


def _summary(folder: Path) -> tuple[Check, dict[str, Any]]:
    expected = "summary.json with compute, dim, tokens and vocabulary"
    try:
        summary = read_json(folder / "summary.json")
        compute, _, _, _ = summary["compute"], summary["dim"], summary["tokens"], summary["vocabulary"]
        return Check("files/summary", True, f"{compute['dtype']}", expected), summary
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Check("files/summary", False, f"{type(error).__name__}: {error}", expected, "summary.json", AGAIN), {}


def _structure(arrays: dict[str, NDArray[Any]], texts: Texts, summary: dict[str, Any]) -> tuple[Suite, ...]:
    label = "float64" if texts.regression else "int64"
    rows = array_suite(arrays, {"labels": (label, 1), "splits": ("uint8", 1)}, len(texts))
    features, offsets = arrays["features"], arrays["offsets"]
    lengths = np.diff(offsets) if offsets.ndim == 1 and len(offsets) else np.zeros(0)
    identifiers = arrays["tokens"]
    tokens_there = len(features) if features.ndim == 2 else 0
    facts = {
        "array": "features.npy, offsets.npy and tokens.npy",
        "tokens": tokens_there,
        "form": f"{features.dtype} {features.shape[1:]}, offsets {offsets.dtype}",
        "form as expected": features.ndim == 2
        and features.dtype == np.dtype(summary["compute"]["dtype"])
        and features.shape[1:] == (summary["dim"],)
        and offsets.dtype == np.int64
        and offsets.ndim == 1,
        "offsets of rows": len(offsets) - len(texts) - 1,
        "first offset": int(offsets[0]) if offsets.ndim == 1 and len(offsets) else -1,
        "tokens beyond the last offset": (len(features) - int(offsets[-1]))
        if offsets.ndim == 1 and len(offsets)
        else -1,
        "identifiers missing": tokens_there - len(identifiers) if identifiers.ndim == 1 else tokens_there,
        "largest identifier": int(identifiers.max()) if identifiers.size else -1,
        "least tokens of a row": int(lengths.min()) if len(lengths) else 0,
        "most tokens of a row": int(lengths.max()) if len(lengths) else 0,
    }
    most = summary["compute"]["max_tokens"]
    form = f"{summary['compute']['dtype']} of width {summary['dim']}, and int64 offsets"
    tokens = facts_suite(
        "tokens",
        [facts],
        ("array",),
        between("tokens/some", ("tokens",), 1, None, "one token or more", AGAIN),
        among("tokens/form", ("form as expected", "form"), (True,), form, AGAIN),
        between("tokens/offsets", ("offsets of rows",), 0, 0, "one offset more than rows", AGAIN),
        between("tokens/begin", ("first offset",), 0, 0, "the first row at token 0", AGAIN),
        between("tokens/end", ("tokens beyond the last offset",), 0, 0, "the last row at the last token", AGAIN),
        between("tokens/identifiers", ("identifiers missing",), 0, 0, "one identifier a token", AGAIN),
        between(
            "tokens/vocabulary",
            ("largest identifier",),
            0,
            summary["vocabulary"] - 1,
            f"identifiers of a vocabulary of {summary['vocabulary']}",
            AGAIN,
        ),
        between("tokens/shortest", ("least tokens of a row",), 1, None, "a token or more in each row", AGAIN),
        between("tokens/longest", ("most tokens of a row",), 1, most, f"at most {most} tokens (max_tokens)", AGAIN),
    )
    return rows, tokens


def _encoder(summary: Mapping[str, Any], encoder: Mapping[str, Any]) -> Suite:
    """What the summary says of the encoder holds for the one that rows are computed anew with, digests included."""
    facts = [{"fact": name, "as told": summary.get(name) == value} for name, value in encoder.items()]
    expected = "the encoder as configured, and its files as catalogued"
    return facts_suite("encoder", facts, ("fact",), among("encoder/same", ("as told",), (True,), expected, AGAIN))


def _rows(arrays: dict[str, NDArray[Any]], texts: Texts, folder: Path) -> Suite:
    """Rows, labels and splits are those of the data set, in its order."""
    codes = np.asarray([SPLITS.index(name) for name in texts.splits], dtype=np.uint8)
    try:
        ids = read_json(folder / "ids.json")
    except (OSError, ValueError):
        ids = []
    facts = {
        "of": "rows",
        "other identifiers": abs(len(ids) - len(texts)) + sum(a != b for a, b in zip(ids, texts.ids, strict=False)),
        "other labels": int((arrays["labels"] != np.asarray(texts.labels)).sum()),
        "other splits": int((arrays["splits"] != codes).sum()),
    }
    expected = "those of the prepared data set, in its order"
    return facts_suite(
        "rows",
        [facts],
        ("of",),
        *(between(f"rows/{name.split()[1]}", (name,), 0, 0, expected, AGAIN) for name in list(facts)[1:]),
    )


def _values(features: NDArray[Any], options: FeatureGateOptions) -> Suite:
    count, width = features.shape
    total, squares, not_finite = np.zeros(width), np.zeros(width), 0
    norms = np.zeros(count)
    for start in range(0, count, TOKENS_AT_ONCE):
        piece = np.asarray(features[start : start + TOKENS_AT_ONCE], dtype=np.float64)
        finite = np.isfinite(piece)
        not_finite += int((~finite).sum())
        piece = np.where(finite, piece, 0.0)
        norms[start : start + len(piece)] = np.linalg.norm(piece, axis=1)
        total += piece.sum(axis=0)
        squares += (piece**2).sum(axis=0)
    deviation = np.sqrt(np.maximum(squares / count - (total / count) ** 2, 0.0))
    size = np.sqrt(squares / count)
    median = float(np.median(norms))
    facts = {
        "of": "all tokens",
        "values not finite": not_finite,
        # what was never written is zero
        "tokens without length": int((norms == 0).sum()),
        "longest by median": float(norms.max()) / median if median > 0 else FAR,
        "constant dimensions": float((deviation <= LEAST_VARIATION * np.maximum(size, 1e-12)).mean()),
    }
    ratio, constant = options.max_norm_ratio, options.max_constant_dimensions
    return facts_suite(
        "values",
        [facts],
        ("of",),
        between("values/finite", ("values not finite",), 0, 0, "finite values only", SOURCE),
        between("values/length", ("tokens without length",), 0, 0, "no vector that is all zeros", AGAIN),
        between(
            "values/norms",
            ("longest by median",),
            1,
            ratio,
            f"vectors of at most {ratio:g} times the median length (max_norm_ratio)",
            SOURCE,
        ),
        between(
            "values/constant",
            ("constant dimensions",),
            0,
            constant,
            f"a share of at most {constant:g} (max_constant_dimensions)",
            SOURCE,
        ),
    )


def _same(arrays: dict[str, NDArray[Any]], texts: Texts, options: FeatureGateOptions) -> Suite:
    """Rows of different texts differ: an encoder that does not heed its input gives every row of a length the same."""
    features, offsets = arrays["features"], arrays["offsets"].tolist()
    text_of: dict[str, str] = {}
    same = 0
    for row in range(len(texts)):
        sides = (texts.first[row], texts.second[row] if texts.second is not None else "")
        text = "\x1f".join(" ".join(side.split()).casefold() for side in sides)
        first = text_of.setdefault(sha256_bytes(features[offsets[row] : offsets[row + 1]].tobytes()), text)
        same += text != first
    return facts_suite(
        "same",
        [{"of": "all rows", "share": same / len(texts), "rows": same}],
        ("of",),
        between(
            "same/share",
            ("share", "rows"),
            0,
            options.max_same,
            f"a share of at most {options.max_same:g} with the features of another text (max_same)",
            SOURCE,
        ),
    )


def _recomputed(arrays: dict[str, NDArray[Any]], options: FeatureGateOptions, recompute: Recompute) -> Suite:
    """A few rows, spread over the set, encoded alone and so without padding."""
    offsets = arrays["offsets"]
    chosen = np.unique(np.linspace(0, len(offsets) - 2, options.recomputed_rows).astype(int))
    facts = []
    for row in chosen.tolist():
        stored = np.asarray(arrays["features"][offsets[row] : offsets[row + 1]], dtype=np.float64)
        try:
            anew = recompute(row).astype(np.float64)
        except DataError:
            anew = np.zeros((0, stored.shape[1]))
        same_form = anew.shape == stored.shape and anew.size > 0
        gap = float(np.abs(anew - stored).max() / np.abs(anew).max()) if same_form else FAR
        facts.append({"row": row, "difference": gap if np.isfinite(gap) else FAR})
    expected = (
        f"what the encoder gives for the row alone, within {options.tolerance:g} of its largest value (tolerance)"
    )
    return facts_suite(
        "recomputed",
        facts,
        ("row",),
        between("recomputed/equal", ("difference",), 0, options.tolerance, expected, SOURCE),
    )
