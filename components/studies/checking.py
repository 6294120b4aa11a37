"""Whether the runs of a study can be compared, read from their results: from what ran, not from what was planned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from components.files import digest_of
from components.studies.knobs import differing
from components.studies.plan import undeclared_knobs

# Results by arm and seed.
Results = Mapping[str, Mapping[int, Mapping[str, Any]]]

# What must be the same in all runs, beside the settings, and what it is called.
SAME = {"method": "method", "experiment": "experiment", "scale": "scale", "device": "device", "code": "code"}


@dataclass(frozen=True)
class Difference:
    """An arm differs from the reference in something that the study does not vary."""

    arm: str
    seed: int
    what: str
    arm_value: Any
    reference_value: Any

    def __str__(self) -> str:
        return (
            f"arm {self.arm}, seed {self.seed}: {self.what} is {_short(self.arm_value)}, "
            f"that of the reference is {_short(self.reference_value)}"
        )


def undeclared_differences(results: Results, reference: str, knobs: Sequence[str]) -> tuple[Difference, ...]:
    """Every way in which a run differs from the reference's of the same seed that no declared knob explains."""
    found = []
    declared = tuple(knobs)
    # other data, or another selection of rows, is declared by a knob of theirs
    of_data = any(knob == "dataset" or knob.startswith(("datasets.", "features.", "task.")) for knob in declared)
    for arm, runs in results.items():
        for seed, run in runs.items():
            base = results[reference].get(seed)
            if arm == reference or base is None:
                continue
            pairs = {name: (run[key], base[key]) for key, name in SAME.items()}
            for knob in undeclared_knobs(base["settings"], run["settings"], declared):
                pairs[knob] = (run["settings"].get(knob), base["settings"].get(knob))
            for package in differing(base["versions"], run["versions"]):
                pairs[f"version of {package}"] = (run["versions"].get(package), base["versions"].get(package))
            if not of_data:
                for path in differing(base["data"], run["data"]):
                    pairs[path] = (run["data"].get(path), base["data"].get(path))
                if not same_order(run["data_order"], base["data_order"]):
                    pairs["order of the training rows"] = (run["data_order"][:1], base["data_order"][:1])
            found += [
                Difference(arm, seed, what, ours, theirs) for what, (ours, theirs) in pairs.items() if ours != theirs
            ]
    return tuple(found)


def same_order(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether two runs saw the same rows in the same order, for as many epochs as both had."""
    return all(one == other for one, other in zip_longest(first, second) if None not in (one, other))


@dataclass(frozen=True)
class Switch:
    """What a knob did: the pairs of runs that differ in it alone, and how many of them came out the same.

    `dead`: it changed nothing in any pair. `alone`: there is such a pair at all.
    """

    knob: str
    pairs: int
    equal: int

    @property
    def dead(self) -> bool:
        return self.pairs > 0 and self.equal == self.pairs

    @property
    def alone(self) -> bool:
        return self.pairs > 0

    def __str__(self) -> str:
        if not self.alone:
            return f"{self.knob} is never varied alone, so its own effect cannot be told"
        if self.dead:
            return (
                f"{self.knob} is dead: in all {self.pairs} pairs of runs that differ in it alone, every output agrees"
            )
        return f"{self.knob} changes the output in {self.pairs - self.equal} of {self.pairs} pairs"


def switches(results: Results, knobs: Sequence[str]) -> tuple[Switch, ...]:
    """For each declared knob, what varying it alone did to weights, history and metrics."""
    runs = [(seed, run) for of_arm in results.values() for seed, run in of_arm.items()]
    told = []
    for knob in knobs:
        # runs that agree in everything else, the seed included, by the rest of their settings
        groups: dict[str, list[Mapping[str, Any]]] = {}
        for seed, run in runs:
            rest = {name: value for name, value in run["settings"].items() if not _covers(knob, name)}
            groups.setdefault(digest_of([seed, rest]), []).append(run)
        pairs = equal = 0
        for group in groups.values():
            for position, run in enumerate(group):
                for other in group[:position]:
                    pairs += 1
                    equal += run["output"] == other["output"]
        told.append(Switch(knob, pairs, equal))
    return tuple(told)


def _covers(knob: str, name: str) -> bool:
    return name == knob or name.startswith(f"{knob}.") or (knob == "dataset" and name.startswith("datasets."))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
