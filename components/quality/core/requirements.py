"""The requirements that every kind of data has, on small frames of facts: arrays, splits, classes, shares of copies."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from components.arrays import SPLITS, open_array
from components.errors import DataError
from components.quality.core.expectations import Place, Requirement, Suite
from components.quality.core.report import Check

AGAIN = (
    "delete the prepared folder and `quintet run` prepares it again; if it comes back so, the preparation is at fault"
)
SPLIT_AGAIN = "change the split's seed or fractions in conf/dataset/, or take more rows"
SOURCE = "look at the source, or change the threshold in conf/dataset/ with a reason"
READABLE = "files/readable"


def between(
    name: str, about: Sequence[str], minimum: float | None, maximum: float | None, expected: str, mend: str
) -> Requirement:
    """Each value of the column `about[0]` is in the interval; of one that is not, the columns `about` are shown."""
    bounds = {"column": about[0], "min_value": minimum, "max_value": maximum}
    return Requirement(name, "ExpectColumnValuesToBeBetween", bounds, expected, mend, tuple(about))


def among(name: str, about: Sequence[str], allowed: Sequence[object], expected: str, mend: str) -> Requirement:
    """Each value of the column `about[0]` is one of `allowed`."""
    arguments = {"column": about[0], "value_set": list(allowed)}
    return Requirement(name, "ExpectColumnValuesToBeInSet", arguments, expected, mend, tuple(about))


def facts_suite(
    name: str, rows: Sequence[Mapping[str, object]], keys: Sequence[str], *requirements: Requirement
) -> Suite:
    """A suite on a frame of `rows`; `keys` are the columns that name a row to a reader."""
    frame = pd.DataFrame(list(rows))
    return Suite(name, frame, requirements, _locator(frame, keys))


def _locator(frame: pd.DataFrame, keys: Sequence[str]) -> Callable[[int, Requirement], Place]:
    def locate(row: int, requirement: Requirement) -> Place:
        entry = frame.iloc[row]
        shown = (f"{name} {_short(entry[name])}" for name in requirement.about or (requirement.arguments["column"],))
        return Place(", ".join(f"{key} {entry[key]}" for key in keys), ", ".join(shown))

    return locate


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def open_arrays(folder: Path, names: Sequence[str]) -> tuple[dict[str, NDArray[Any]], Check]:
    """The arrays NAME.npy of `folder`, mapped, and the check that all could be opened."""
    arrays: dict[str, NDArray[Any]] = {}
    expected = f"the arrays {', '.join(f'{name}.npy' for name in names)}"
    for name in names:
        try:
            arrays[name] = open_array(folder / f"{name}.npy")
        except DataError as error:
            reason = str(error).split(";")[0]
            return {}, Check(READABLE, False, reason, expected, f"{name}.npy", AGAIN)
    return arrays, Check(READABLE, True, f"{len(arrays)} arrays", expected)


def array_suite(arrays: Mapping[str, NDArray[Any]], forms: Mapping[str, tuple[str, int]], rows: int) -> Suite:
    """Type and rank of each array as in `forms`, and as many rows in each as are expected. Emptiness comes first."""
    facts = [
        {
            "array": f"{name}.npy",
            "form": f"{arrays[name].dtype} of rank {arrays[name].ndim}",
            "as expected": arrays[name].dtype == np.dtype(kind) and arrays[name].ndim == rank,
            "rows": len(arrays[name]) if arrays[name].ndim else 0,
            "rows too few or many": len(arrays[name]) - rows if arrays[name].ndim else -rows,
        }
        for name, (kind, rank) in forms.items()
    ]
    forms_told = ", ".join(f"{name}.npy {kind} of rank {rank}" for name, (kind, rank) in forms.items())
    return facts_suite(
        "arrays",
        facts,
        ("array",),
        between("arrays/rows", ("rows",), 1, None, "one row or more", AGAIN),
        among("arrays/form", ("as expected", "form"), (True,), forms_told, AGAIN),
        between("arrays/same_rows", ("rows too few or many", "rows"), 0, 0, f"{rows} rows in each", AGAIN),
    )


def splits_suite(rows: Mapping[str, int], strangers: int, min_rows: int) -> Suite:
    """Every split has rows, all together are enough, and no row is in a split that does not exist."""
    facts: list[dict[str, object]] = [
        {"split": name, "rows": rows.get(name, 0), "rows in all": None, "strangers": None} for name in SPLITS
    ]
    facts.append({"split": "all", "rows": None, "rows in all": sum(rows.values()), "strangers": strangers})
    return facts_suite(
        "splits",
        facts,
        ("split",),
        between("splits/rows", ("rows",), 1, None, "at least 1 row in each split", SPLIT_AGAIN),
        between(
            "splits/min_rows",
            ("rows in all",),
            min_rows,
            None,
            f"at least {min_rows} rows (min_rows)",
            "give more data, or change gate.min_rows in conf/dataset/",
        ),
        between("splits/known", ("strangers",), 0, 0, f"only the splits {', '.join(SPLITS)}", AGAIN),
    )


def classes_suite(counts: Mapping[str, Mapping[str, int]], strangers: int, max_share_drift: float) -> Suite:
    """Every class in every split with a similar share. `counts`: rows by split and class; `strangers`: of no class."""
    classes = list(dict.fromkeys(name for of_split in counts.values() for name in of_split))
    totals = {split: sum(of_split.values()) for split, of_split in counts.items()}
    whole = sum(totals.values())
    facts: list[dict[str, object]] = []
    for name in classes:
        share = sum(of_split.get(name, 0) for of_split in counts.values()) / max(whole, 1)
        for split, of_split in counts.items():
            rows = of_split.get(name, 0)
            here = rows / totals[split] if totals[split] else 0.0
            facts.append({"class": name, "split": split, "rows": rows, "share": here, "drift": here - share})
    facts.append({"class": "none of them", "split": "all", "strangers": float(strangers)})
    return facts_suite(
        "classes",
        facts,
        ("class", "split"),
        between("classes/in_every_split", ("rows",), 1, None, "1 row of each class or more in each split", SPLIT_AGAIN),
        between(
            "classes/drift",
            ("drift", "share"),
            -max_share_drift,
            max_share_drift,
            f"a share within {max_share_drift:g} of the class's share in the whole (max_share_drift)",
            SPLIT_AGAIN,
        ),
        between("classes/known", ("strangers",), 0, 0, f"only labels of the {len(classes)} classes", AGAIN),
    )


def shares_suite(name: str, shares: Mapping[str, tuple[float, float, str]]) -> Suite:
    """Shares of rows with some flaw: by what is counted, the share, the most that is allowed, and its option's name."""
    facts = {"of": "all rows"} | {what: share for what, (share, _, _) in shares.items()}
    requirements = (
        between(f"{name}/{what.replace(' ', '_')}", (what,), 0, most, f"a share of at most {most:g} ({option})", SOURCE)
        for what, (_, most, option) in shares.items()
    )
    return facts_suite(name, [facts], ("of",), *requirements)


def copies(identities: Sequence[bytes | str], splits: NDArray[np.uint8]) -> tuple[float, float]:
    """Shares of rows that come again in their split, and of rows that also stand in another split."""
    first: dict[bytes | str, int] = {}
    several: set[bytes | str] = set()
    again = 0
    seen: set[tuple[bytes | str, int]] = set()
    for identity, code in zip(identities, splits.tolist(), strict=True):
        if (identity, code) in seen:
            again += 1
        seen.add((identity, code))
        if first.setdefault(identity, code) != code:
            several.add(identity)
    across = sum(1 for identity in identities if identity in several)
    total = max(len(identities), 1)
    return again / total, across / total
