"""The comparison of a study, from the files of its runs: tables, pictures, and all that a reader must know beside them.

It refuses what cannot be compared: runs that differ in something the study does not vary. What it writes depends on the
results alone, but for `times.md` and the picture of times, which are facts of the moment and of the machine.
"""

import csv
import io
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from components.errors import ComparisonError, UsageError
from components.files import digest_of, write_json, write_text
from components.markdown import table
from components.studies.checking import Results, Switch, switches, undeclared_differences
from components.studies.config import Goal
from components.studies.running import account
from components.studies.store import Gathered, gather, read_study, study_folder

if TYPE_CHECKING:
    from components.evaluation.comparison.paired import Comparison

# More of a kind are counted, not told.
MOST_TOLD = 5
COSTS = {"parameters": "parameters", "multiply_adds": "multiply-adds of a row", "steps": "steps"}
SECONDS = "seconds of training"


@dataclass(frozen=True)
class StudyComparison:
    """`metrics`: the comparison for each metric, the study's own first. `systems`: the reference beside baselines.

    `costs`: of each arm, by the names of COSTS; `seconds`: the median of its trainings, where times are known.
    `notes` are lines for a reader: what is missing, which switches are dead.
    """

    name: str
    metrics: "Mapping[str, Comparison]"
    systems: "Comparison | None"
    costs: Mapping[str, Mapping[str, float]]
    seconds: Mapping[str, float]
    switches: tuple[Switch, ...]
    notes: tuple[str, ...]


def compare_study(root: Path, name: str, metric: str | None = None, goal: Goal | None = None) -> StudyComparison:
    """Compare the arms by the study's metrics, and by `metric` when one is named; write all of it beside `study.json`.

    `goal` is that of `metric`, by default the study's own if it has one, else to maximise. An arm that lacks a run is
    left out and named. Raises UsageError for a study that was not run, a metric that its runs do not have, or a goal
    that is not the study's, ComparisonError when the reference is incomplete or runs differ undeclared.
    """
    study = read_study(root, name)
    gathered = gather(root, study)
    results = _comparable(study, gathered)
    goals: dict[str, Goal] = {wanted: study["goals"][wanted] for wanted in (study["metric"], *study["also"])}
    if metric is not None and goals.setdefault(metric, goal or "maximise") != (goal or goals[metric]):
        raise UsageError(f"study {name} has {metric} to {goals[metric]}, not to {goal}; change it in ablations.yaml")
    compared = {wanted: _compare(study, values_of(results, wanted), goal) for wanted, goal in goals.items()}
    told = switches(gathered.results, study["knobs"])
    times = times_of(root, results)
    comparison = StudyComparison(
        name,
        compared,
        _beside_baselines(study, results),
        costs_of(results),
        {arm: median(said["train_seconds"] for said in of_arm) for arm, of_arm in times.items() if of_arm},
        told,
        (
            *_missing(gathered),
            *_other_data(results, study["reference"]),
            *(str(switch) for switch in told if switch.dead or not switch.alone),
        ),
    )
    _write(root, study, comparison, times)
    return comparison


def values_of(results: Results, metric: str) -> dict[str, dict[int, float]]:
    """The values of one metric by arm and seed. Raises UsageError for a metric that a run does not have."""
    for arm, runs in results.items():
        for seed, run in runs.items():
            if metric not in run["metrics"]:
                raise UsageError(
                    f"arm {arm}, seed {seed} has no metric {metric!r}; there are: {', '.join(sorted(run['metrics']))}"
                )
    return {arm: {seed: run["metrics"][metric] for seed, run in runs.items()} for arm, runs in results.items()}


def _comparable(study: Mapping[str, Any], gathered: Gathered) -> Results:
    reference = study["reference"]
    if reference not in gathered.complete:
        missing = [f"seed {seed}: {why}" for arm, seed, why in gathered.missing if arm == reference]
        raise ComparisonError(
            f"the reference {reference} lacks {len(missing)} of {len(study['seeds'])} runs ({missing[0]}); "
            f"`quintet ablate {study['name']}` makes what is missing"
        )
    found = undeclared_differences(gathered.results, reference, study["knobs"])
    if found:
        shown = "; ".join(str(difference) for difference in found[:MOST_TOLD])
        more = f"; and {len(found) - MOST_TOLD} more" if len(found) > MOST_TOLD else ""
        raise ComparisonError(
            f"study {study['name']} cannot be compared, its runs differ in what it does not vary: {shown}{more}. "
            "Declare the knob, or run the study again"
        )
    return gathered.complete


def _compare(study: Mapping[str, Any], values: Mapping[str, Mapping[int, float]], goal: Goal) -> "Comparison":
    from components.evaluation.comparison.paired import compare

    options = study["comparison"]
    return compare(
        values,
        reference=study["reference"],
        goal=goal,
        confidence=options["confidence"],
        resamples=options["resamples"],
        seed=options["seed"],
    )


def _beside_baselines(study: Mapping[str, Any], results: Results) -> "Comparison | None":
    """The reference arm beside every baseline that has the study's metric, as `test/NAME` has `baseline/X/NAME`."""
    split, _, name = study["metric"].partition("/")
    runs = results[study["reference"]]
    pattern = re.compile(rf"baseline/([^/]+)/{re.escape(name)}")
    systems = sorted({found[1] for run in runs.values() for key in run["metrics"] if (found := pattern.fullmatch(key))})
    if split != "test" or not systems:
        return None
    values = {study["reference"]: {seed: run["metrics"][study["metric"]] for seed, run in runs.items()}}
    for system in systems:
        values[f"baseline {system}"] = {seed: run["metrics"][f"baseline/{system}/{name}"] for seed, run in runs.items()}
    return _compare(study, values, study["goal"])


def _missing(gathered: Gathered) -> list[str]:
    by_arm: dict[str, list[str]] = {}
    for arm, seed, why in gathered.missing:
        by_arm.setdefault(arm, []).append(f"seed {seed}: {why}")
    return [
        f"arm {arm} is left out, it lacks {len(lines)} runs ({lines[0]}{'; ...' if len(lines) > 1 else ''})"
        for arm, lines in by_arm.items()
    ]


def _other_data(results: Results, reference: str) -> list[str]:
    """What a reader must know of arms whose data a knob has changed: their test rows may be others as well."""
    prepared = {
        arm: {digest_of({path: of["sha256"] for path, of in run["data"].items()}) for run in runs.values()}
        for arm, runs in results.items()
    }
    others = [arm for arm, digests in prepared.items() if digests != prepared[reference]]
    if not others:
        return []
    return [f"not on the data of the reference, so that a difference may be that of the test rows: {', '.join(others)}"]


def costs_of(results: Results) -> dict[str, dict[str, float]]:
    """Parameters, multiply-adds and steps of each arm, the largest over its seeds."""
    return {
        arm: {cost: max(run["costs"][cost] for run in runs.values()) for cost in COSTS} for arm, runs in results.items()
    }


def times_of(root: Path, results: Results) -> dict[str, list[dict[str, Any]]]:
    """The accounts of each arm's runs that tell of a whole training: made in one go, by this checkout.

    The first run of a process pays for what is loaded and compiled then; it counts only where all are first ones.
    """
    accounts = {arm: [account(root, run["digest"]) for run in runs.values()] for arm, runs in results.items()}
    whole = {
        arm: [said for said in of_arm if said.get("state") == "succeeded" and not said.get("resumed", True)]
        for arm, of_arm in accounts.items()
    }
    warm = {arm: [said for said in of_arm if said["warm"]] for arm, of_arm in whole.items()}
    return warm if any(warm.values()) else whole


def _write(
    root: Path, study: Mapping[str, Any], comparison: StudyComparison, times: Mapping[str, list[dict[str, Any]]]
) -> None:
    from components.evaluation.comparison.tables import csv_text, markdown

    folder = study_folder(root, study["name"])
    for part in ("metrics", "plots"):
        shutil.rmtree(folder / part, ignore_errors=True)
    costs = comparison.costs
    own = comparison.metrics[study["metric"]]
    write_json(
        folder / "comparison.json",
        {
            "format": "quintet-comparison/1",
            "study": study["name"],
            # the study's own, whatever was asked for besides
            "metrics": {metric: comparison.metrics[metric].to_json() for metric in (study["metric"], *study["also"])},
            "systems": comparison.systems.to_json() if comparison.systems else None,
            "costs": costs,
            "switches": [
                {"knob": switch.knob, "pairs": switch.pairs, "equal": switch.equal, "dead": switch.dead}
                for switch in comparison.switches
            ],
            "notes": list(comparison.notes),
        },
    )
    parts = [f"# {study['name']}", study["question"].strip(), f"## {study['metric']}", markdown(own, study["metric"])]
    if comparison.systems:
        parts += ["## The reference beside baselines", markdown(comparison.systems, study["metric"])]
    parts += ["## What the arms cost", table(["arm", *COSTS.values()], _cost_rows(costs), right=tuple(COSTS.values()))]
    if comparison.notes:
        parts += ["## To be known", "\n".join(f"- {note}" for note in comparison.notes)]
    write_text(folder / "table.md", "\n\n".join(part.strip() for part in parts) + "\n")
    write_text(folder / "summary.md", _summary(own, study["metric"]))
    write_text(folder / "table.csv", csv_text(own))
    write_text(folder / "costs.csv", _csv(["arm", *COSTS], _cost_rows(costs)))
    for metric, compared in comparison.metrics.items():
        name = metric.replace("/", "_")
        write_text(folder / "metrics" / f"{name}.md", f"# {metric}\n\n{markdown(compared, metric)}")
        write_text(folder / "metrics" / f"{name}.csv", csv_text(compared))
    write_text(folder / "times.md", _times_page(times))
    _draw(folder / "plots", study, comparison)


def _draw(folder: Path, study: Mapping[str, Any], comparison: StudyComparison) -> None:
    from components.evaluation.comparison.pictures import plot_arms, plot_differences, plot_front

    title = study["name"]
    for metric, compared in comparison.metrics.items():
        name = metric.replace("/", "_")
        plot_arms(compared, folder / f"{name}_arms.png", metric, title)
        if compared.differences:
            plot_differences(compared, folder / f"{name}_differences.png", metric, title)
    own = comparison.metrics[study["metric"]]
    if comparison.systems:
        plot_arms(comparison.systems, folder / "baselines.png", study["metric"], f"{title}: beside baselines")
    for cost, label in COSTS.items():
        of_arms = {arm: values[cost] for arm, values in comparison.costs.items()}
        plot_front(own, of_arms, label, folder / f"front_{cost}.png", study["metric"], title)
    if len(comparison.seconds) == len(own.arms):
        plot_front(own, comparison.seconds, SECONDS, folder / "front_seconds.png", study["metric"], title)


def _summary(compared: "Comparison", metric: str) -> str:
    """The columns that a reader looks at first, where there is little room: in the description of a tracked run."""
    from components.evaluation.comparison.tables import rows

    difference = f"minus {compared.reference}"
    columns = {"arm": "arm", metric: metric, difference: "difference", "p (Holm)": "p (Holm)", "verdict": "verdict"}
    lines = [[row[column] for column in columns] for row in rows(compared, metric)]
    return table(list(columns.values()), lines, right=(metric, "difference", "p (Holm)")) + "\n"


def _cost_rows(costs: Mapping[str, Mapping[str, float]]) -> list[list[str]]:
    return [[arm, *(f"{values[cost]:d}" for cost in COSTS)] for arm, values in costs.items()]


def _times_page(times: Mapping[str, list[dict[str, Any]]]) -> str:
    """Median and range of the seconds of each arm: of this machine and its load, so not for other studies."""

    def middle(accounts: list[dict[str, Any]], key: str) -> str:
        values = sorted(said[key] for said in accounts)
        return f"{median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})" if values else "-"

    rows = [
        [
            arm,
            str(len(accounts)),
            middle(accounts, "train_seconds"),
            middle(accounts, "train_cpu_seconds"),
            ", ".join(sorted({str(said["at_once"]) for said in accounts})) or "-",
        ]
        for arm, accounts in times.items()
    ]
    header = ["arm", "runs timed", SECONDS, "seconds of the processor", "processes at once"]
    return (
        f"## Times\n\n{table(header, rows, right=header[1:])}\n\nMedian (range) over seeds, of runs made in one go. "
        "They depend on the machine and on what else it did.\n"
    )


def _csv(header: list[str], rows: list[list[str]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([header, *rows])
    return buffer.getvalue()
