"""The gate of prepared images: form, classes, statistics against the published ones, copies, blank images, drift."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.arrays import SPLITS
from components.datasets.images.config import GateOptions
from components.errors import DataError
from components.files import read_json
from components.quality.core.drift import Drift
from components.quality.core.expectations import Suite, drop_docs, run_suites
from components.quality.core.profile import Observations
from components.quality.core.report import Check, GateReport
from components.quality.core.requirements import (
    AGAIN,
    SOURCE,
    among,
    array_suite,
    between,
    classes_suite,
    copies,
    facts_suite,
    open_arrays,
    shares_suite,
    splits_suite,
)
from components.quality.images.pixels import Reduced, reduce_images
from components.quality.images.statistics import published_suite

FORMS = {"images": ("uint8", 4), "labels": ("int64", 1), "splits": ("uint8", 1)}


def gate(folder: Path, options: GateOptions, *, subject: str, docs_folder: Path | None, drift: Drift) -> GateReport:
    """Judge a prepared folder of images, see `components.quality.registry.DataGate`."""
    arrays, readable = open_arrays(folder, list(FORMS))
    summary, told = _summary(folder)
    if not readable.passed or not told.passed:
        if docs_folder is not None:
            drop_docs(docs_folder)
        return GateReport("data", subject, tuple(check for check in (readable, told) if not check.passed))
    # what is asked later needs arrays of the right form
    structure = [array_suite(arrays, FORMS, len(arrays["labels"]) if arrays["labels"].ndim else 0)]
    structure.append(_shape(arrays["images"], summary["shape"]))
    checks = run_suites(subject, tuple(structure), docs_folder)
    if not all(check.passed for check in checks):
        return GateReport("data", subject, (readable, told, *checks))
    images, labels, splits = (arrays[name] for name in FORMS)
    reduced = reduce_images(images)
    suites: list[Suite] = [
        *structure,
        splits_suite(_rows(splits), int((splits >= len(SPLITS)).sum()), options.min_rows),
        _classes(labels, splits, summary["classes"], options),
        _range(reduced, options),
        _shares(reduced, splits, options),
    ]
    if options.published is not None:
        # the published values are those of the train part, from which the validation split was taken
        chosen = np.asarray(splits) != SPLITS.index("test")
        suites.append(published_suite(reduced.means[chosen], reduced.squares[chosen], options.published))
    suites.append(drift.suite(_observations(reduced, labels, summary["classes"])))
    return GateReport("data", subject, (readable, told, *run_suites(subject, tuple(suites), docs_folder)))


def observations(folder: Path) -> Observations:
    """Brightness and contrast of each image, and its class. Raises DataError where the folder cannot be read."""
    arrays, readable = open_arrays(folder, list(FORMS))
    summary, told = _summary(folder)
    for check in (readable, told):
        if not check.passed:
            raise DataError(f"{folder}: got {check.observed}, allowed is {check.expected}; {check.mend}")
    return _observations(reduce_images(arrays["images"]), arrays["labels"], summary["classes"])


def _summary(folder: Path) -> tuple[dict[str, Any], Check]:
    """What the gate needs of summary.json: the names of the classes and the shape of an image."""
    expected = "a summary.json with the different names of the classes, and the shape of an image"
    try:
        summary = read_json(folder / "summary.json")
        classes, shape = summary["classes"], summary["shape"]
        good = isinstance(classes, list) and all(isinstance(name, str) and name for name in classes)
        good = good and len(set(classes)) == len(classes) > 0
        good = good and isinstance(shape, list) and len(shape) == 3 and all(isinstance(side, int) for side in shape)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return {}, Check("files/summary", False, f"{type(error).__name__}: {error}", expected, "summary.json", AGAIN)
    observed = f"classes {str(classes)[:60]}, shape {shape}" if not good else f"{len(classes)} classes, shape {shape}"
    return summary, Check("files/summary", good, observed, expected, "" if good else "summary.json", AGAIN)


def _shape(images: NDArray[Any], expected: list[int]) -> Suite:
    came = list(images.shape[1:])
    facts = [{"array": "images.npy", "shape": str(came), "as expected": came == expected and min(came, default=0) > 0}]
    requirement = among("arrays/shape", ("as expected", "shape"), (True,), f"images of shape {expected}", AGAIN)
    return facts_suite("shape", facts, ("array",), requirement)


def _rows(splits: NDArray[Any]) -> dict[str, int]:
    return {name: int((splits == code).sum()) for code, name in enumerate(SPLITS)}


def _classes(labels: NDArray[Any], splits: NDArray[Any], classes: list[str], options: GateOptions) -> Suite:
    counts = {
        split: {name: int(((splits == code) & (labels == label)).sum()) for label, name in enumerate(classes)}
        for code, split in enumerate(SPLITS)
    }
    strangers = int(((labels < 0) | (labels >= len(classes))).sum())
    return classes_suite(counts, strangers, options.max_share_drift)


def _range(reduced: Reduced, options: GateOptions) -> Suite:
    darkest, brightest = int(reduced.least.min()), int(reduced.largest.max())
    facts = [{"what": "all images", "span": brightest - darkest, "darkest": darkest, "brightest": brightest}]
    expected = f"bytes from dark to bright, {options.min_span} apart or more (min_span)"
    about = ("span", "darkest", "brightest")
    return facts_suite(
        "range", facts, ("what",), between("images/range", about, options.min_span, None, expected, SOURCE)
    )


def _shares(reduced: Reduced, splits: NDArray[Any], options: GateOptions) -> Suite:
    within, across = copies(reduced.digests, splits)
    return shares_suite(
        "images",
        {
            "copies within a split": (within, options.max_duplicates_within, "max_duplicates_within"),
            "copies across splits": (across, options.max_duplicates_across, "max_duplicates_across"),
            "one value only": (float(reduced.blank.mean()), options.max_blank, "max_blank"),
        },
    )


def _observations(reduced: Reduced, labels: NDArray[Any], classes: list[str]) -> Observations:
    words = [classes[label] if 0 <= label < len(classes) else "none of them" for label in labels.tolist()]
    return {"brightness": reduced.brightness, "contrast": reduced.contrast, "class": words}
