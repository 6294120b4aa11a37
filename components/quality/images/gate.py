"""The gate of prepared images: form, classes, statistics against the published ones, copies, blank images, drift.

Pixels are reduced to a few numbers an image before anything is compared, a batch at a time.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.arrays import SPLITS
from components.datasets.images.config import GateOptions
from components.errors import DataError
from components.files import read_json, sha256_bytes
from components.quality.core.drift import Drift
from components.quality.core.expectations import Suite, drop_docs, run_suites
from components.quality.core.profile import Observations
from components.quality.core.report import Check, GateReport
from components.quality.core.requirements import (
    AGAIN,
    SOURCE,
    array_suite,
    between,
    classes_suite,
    copies,
    facts_suite,
    open_arrays,
    shares_suite,
    splits_suite,
)

FORMS = {"images": ("uint8", 4), "labels": ("int64", 1), "splits": ("uint8", 1)}
ROWS_AT_ONCE = 2048
# Means of so many standard errors are met by practically every sample of the published set.
STANDARD_ERRORS = 5.0
# Said where no number of standard errors can be.
FAR = 1e9
# Published values have four decimals.
ROUNDING = 0.5e-4 + 1e-6


@dataclass(frozen=True)
class Reduced:
    """By image: mean (n, C) and mean square (n, C) of the pixels in units of 255, range of values, digest."""

    means: NDArray[np.float64]
    squares: NDArray[np.float64]
    spans: NDArray[np.int64]
    digests: list[str]


def gate(folder: Path, options: GateOptions, *, subject: str, docs_folder: Path | None, drift: Drift) -> GateReport:
    """Judge a prepared folder of images, see `components.quality.registry.DataGate`."""
    arrays, readable = open_arrays(folder, list(FORMS))
    summary, told = _summary(folder)
    if not readable.passed or not told.passed:
        if docs_folder is not None:
            drop_docs(docs_folder)
        return GateReport("data", subject, tuple(check for check in (readable, told) if not check.passed))
    structure = array_suite(arrays, FORMS, len(arrays["labels"]) if arrays["labels"].ndim else 0)
    checks = run_suites(subject, (structure,), docs_folder)
    if not all(check.passed for check in checks):
        return GateReport("data", subject, (readable, *checks))
    images, labels, splits = (arrays[name] for name in FORMS)
    reduced = reduce_images(images)
    suites: list[Suite] = [
        structure,
        splits_suite(_rows(splits), int((splits >= len(SPLITS)).sum()), options.min_rows),
        _classes(labels, splits, summary["classes"], options),
        _shares(reduced, splits, options),
    ]
    if options.published is not None:
        suites.append(_published(reduced, splits, options))
    suites.append(drift.suite(_observations(reduced, labels, summary["classes"])))
    return GateReport("data", subject, (readable, told, *run_suites(subject, tuple(suites), docs_folder)))


def observations(folder: Path) -> Observations:
    """Brightness and contrast of each image, and its class."""
    arrays, readable = open_arrays(folder, list(FORMS))
    if not readable.passed:
        raise DataError(f"{folder}: {readable.observed}; {readable.mend}")
    classes = read_json(folder / "summary.json")["classes"]
    return _observations(reduce_images(arrays["images"]), arrays["labels"], classes)


def reduce_images(images: NDArray[Any]) -> Reduced:
    """A few numbers for each of the images (n, H, W, C) uint8, of which a batch at a time is in memory."""
    means, squares, spans, digests = [], [], [], []
    for start in range(0, len(images), ROWS_AT_ONCE):
        batch = np.ascontiguousarray(images[start : start + ROWS_AT_ONCE])
        scaled = batch.astype(np.float64) / 255
        means.append(scaled.mean(axis=(1, 2)))
        squares.append((scaled**2).mean(axis=(1, 2)))
        flat = batch.reshape(len(batch), -1)
        spans.append(flat.max(axis=1).astype(np.int64) - flat.min(axis=1))
        digests += [sha256_bytes(image.tobytes()) for image in batch]
    return Reduced(np.concatenate(means), np.concatenate(squares), np.concatenate(spans), digests)


def _summary(folder: Path) -> tuple[dict[str, Any], Check]:
    expected = "a summary.json with the names of the classes"
    try:
        summary = read_json(folder / "summary.json")
        classes = summary["classes"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return {}, Check("files/summary", False, f"{type(error).__name__}: {error}", expected, "summary.json", AGAIN)
    return summary, Check("files/summary", bool(classes), f"{len(classes)} classes", expected, "", AGAIN)


def _rows(splits: NDArray[Any]) -> dict[str, int]:
    return {name: int((splits == code).sum()) for code, name in enumerate(SPLITS)}


def _classes(labels: NDArray[Any], splits: NDArray[Any], classes: list[str], options: GateOptions) -> Suite:
    counts = {
        split: {name: int(((splits == code) & (labels == label)).sum()) for label, name in enumerate(classes)}
        for code, split in enumerate(SPLITS)
    }
    strangers = int(((labels < 0) | (labels >= len(classes))).sum())
    return classes_suite(counts, strangers, options.max_share_drift)


def _shares(reduced: Reduced, splits: NDArray[Any], options: GateOptions) -> Suite:
    within, across = copies(reduced.digests, splits)
    blank = float((reduced.spans == 0).mean())
    return shares_suite(
        "copies",
        {
            "copies within a split": (within, options.max_duplicates_within, "max_duplicates_within"),
            "copies across splits": (across, options.max_duplicates_across, "max_duplicates_across"),
            "blank images": (blank, options.max_blank, "max_blank"),
        },
    )


def _published(reduced: Reduced, splits: NDArray[Any], options: GateOptions) -> Suite:
    """Mean and standard deviation of each channel against the published ones of the train split.

    The tolerance is what the number of images implies: the mean is one of n image means, the variance one of n image
    contributions s - 2 m x (with m the mean of all), so both have a standard error that the images themselves tell.
    """
    chosen = np.asarray(splits) != SPLITS.index("test")
    means, squares = reduced.means[chosen], reduced.squares[chosen]
    rows = len(means)
    published = options.published
    channels = means.shape[1]
    mean = means.mean(axis=0)
    std = np.sqrt(np.maximum(squares.mean(axis=0) - mean**2, 1e-12))
    mean_error = means.std(axis=0) / np.sqrt(rows)
    std_error = (squares - 2 * mean * means).std(axis=0) / np.sqrt(rows) / (2 * std)
    facts = []
    for what, observed, errors, wanted in (
        ("mean", mean, mean_error, published.mean if published else ()),
        ("standard deviation", std, std_error, published.std if published else ()),
    ):
        for channel in range(max(channels, len(wanted))):
            if channel >= min(channels, len(wanted)):
                facts.append(
                    {"channel": channel, "what": what, "errors away": 1e9, "observed": None, "published": None}
                )
                continue
            gap = max(abs(observed[channel] - wanted[channel]) - ROUNDING, 0.0)
            away = float(gap / errors[channel]) if errors[channel] else (0.0 if gap == 0 else FAR)
            facts.append(
                {
                    "channel": channel,
                    "what": what,
                    "errors away": away,
                    "observed": float(observed[channel]),
                    "published": wanted[channel],
                }
            )
    expected = f"the published value within {STANDARD_ERRORS:g} standard errors of {rows} images, in every channel"
    requirement = between(
        "statistics/published", ("errors away", "observed", "published"), 0, STANDARD_ERRORS, expected, SOURCE
    )
    return facts_suite("statistics", facts, ("what", "channel"), requirement)


def _observations(reduced: Reduced, labels: NDArray[Any], classes: list[str]) -> Observations:
    brightness = reduced.means.mean(axis=1)
    contrast = np.sqrt(np.maximum(reduced.squares.mean(axis=1) - brightness**2, 0.0))
    words = [classes[label] if 0 <= label < len(classes) else "none of them" for label in labels.tolist()]
    return {"brightness": brightness, "contrast": contrast, "class": words}
