"""Pages of MLflow's user interface that show a study's runs side by side, as paths from the server's address on.

Charts and columns of a page are kept as MLflow keeps a view that somebody shares: as a tag of the experiment, which the
page's address names. The form of these views is not documented; it was read from what MLflow 3.17 itself stores.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from components.tracking.runs import PARENT_TAG
from components.tracking.study_files import StudyFiles

VIEW_PREFIX = "mlflow.sharedViewState."
# the address of a comparison names every run, and browsers and servers cut an address at some length.
MAX_COMPARED = 60
# more lines than these in one picture cannot be told apart, nor read from the legend.
MAX_AXES = 8

_COSTS = ("cost/parameters", "cost/multiply_adds", "cost/train_seconds")
_CURVES = ("train/loss", "validation/loss", "train/accuracy", "validation/accuracy")
# without it, pages of runs open among those for language model applications.
_TRAINING = {"workflowType": "machine_learning"}

Chart = dict[str, Any]


@dataclass(frozen=True)
class StudyPages:
    """`links`: title -> address. `tags`: those of the experiment that hold what the addresses show."""

    links: Mapping[str, str]
    tags: Mapping[str, str]


def study_pages(
    files: StudyFiles, experiment_id: str, parent_id: str, children: Mapping[tuple[str, int], str]
) -> StudyPages:
    """The pages for the runs `children` (arm and seed -> run id) below `parent_id`.

    A page that compares runs is left out while there are fewer than two.
    """
    run_page = f"/#/experiments/{experiment_id}/runs"
    links = {"the study: table, pictures, files": f"{run_page}/{parent_id}?{_query(_TRAINING)}"}
    tags: dict[str, str] = {}
    for name, (title, mode, view) in _views(files, parent_id, len(children)).items():
        key = f"{files.digest[:16]}-{name}"
        # as MLflow itself reads it, and the same text every time.
        tags[VIEW_PREFIX + key] = json.dumps(view, sort_keys=True)
        links[title] = f"{run_page}?{_query({'compareRunsMode': mode, 'viewStateShareKey': key, **_TRAINING})}"
    first_of_arm: dict[str, str] = {}
    for (arm, _), run_id in children.items():
        first_of_arm.setdefault(arm, run_id)
    chosen = {
        "one run of each arm side by side: box, contour, parameters that differ": list(first_of_arm.values()),
        "every run side by side": list(children.values()),
    }
    for title, run_ids in chosen.items():
        if 2 <= len(run_ids) <= MAX_COMPARED:
            links[title] = compare_page(experiment_id, run_ids)
    return StudyPages(links, tags)


def compare_page(experiment_id: str, run_ids: list[str]) -> str:
    query = {"runs": json.dumps(run_ids), "experiments": json.dumps([experiment_id]), **_TRAINING}
    return f"/#/compare-runs?{_query(query)}"


def _query(values: Mapping[str, str]) -> str:
    return urlencode(values, quote_via=quote)


def _views(files: StudyFiles, parent_id: str, runs: int) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Name -> (title, mode of the page, state of the view)."""
    study = files.study
    there = {name for run in files.runs for name in (*run.result.metrics, *run.costs)}
    measured = list(dict.fromkeys([study.metric, *study.also]))
    costs = [name for name in _COSTS if name in there]
    knobs = study.knobs[:MAX_AXES]
    shown = {
        "searchFilter": f"tags.`{PARENT_TAG}` = '{parent_id}'",
        # runs stand below their parent in any other order than that of a value, and then charts show the parent alone.
        "orderByKey": f"metrics.`{study.metric}`",
        "orderByAsc": study.goal == "minimise",
        "runsHiddenMode": "SHOW_ALL",
        "selectedColumns": [
            *(f"params.`{name}`" for name in dict.fromkeys(["arm", "seed", *study.knobs])),
            *(f"metrics.`{name}`" for name in (*measured, *costs)),
        ],
        "hideEmptyCharts": True,
    }
    means = _charts(
        {
            "Means over the seeds of each arm": [*map(_bar, measured)],
            "Learning curves, means over seeds": [_line(name) for name in _CURVES if name in there],
            "Cost": [*map(_bar, costs)],
        },
        runs,
    )
    single = _charts(
        {
            "Knobs and what came of them": [_parallel(knobs, measured)],
            "What it cost, and what came of it": [_scatter(cost, study.metric) for cost in costs],
        },
        runs,
    )
    by_arm = {"aggregateFunction": "average", "groupByKeys": [{"mode": "param", "groupByData": "arm"}]}
    return {
        "arms": ("arms: means over seeds, learning curves, cost", "CHART", {**shown, **means, "groupBy": by_arm}),
        "runs": ("runs: knobs and cost against what came of them", "CHART", {**shown, **single}),
        "table": ("table of all runs", "TABLE", shown),
    }


def _charts(sections: Mapping[str, Iterable[Chart]], runs: int) -> dict[str, Any]:
    """The part of a view that says which charts there are; sections stay in this order."""
    charts = [
        {
            "uuid": f"{title} {number}",
            "metricSectionId": title,
            "runsCountToCompare": max(runs, 10),
            "deleted": False,
            "isGenerated": False,
            **chart,
        }
        for title, listed in sections.items()
        for number, chart in enumerate(listed, start=1)
    ]
    placed = [{"uuid": title, "name": title, "display": True, "isReordered": True} for title in sections]
    return {"compareRunCharts": charts, "compareRunSections": placed, "isAccordionReordered": True}


def _bar(metric: str) -> Chart:
    return {"type": "BAR", "metricKey": metric}


def _line(metric: str) -> Chart:
    return {
        "type": "LINE",
        "metricKey": metric,
        "selectedMetricKeys": [metric],
        "lineSmoothness": 0,
        "scaleType": "linear",
        "xAxisScaleType": "linear",
        "xAxisKey": "step",
        "selectedXAxisMetricKey": "",
        "range": {},
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "ignoreOutliers": False,
        "useGlobalXaxisKey": True,
        "useGlobalLineSmoothing": True,
    }


def _parallel(parameters: Iterable[str], metrics: Iterable[str]) -> Chart:
    return {
        "type": "PARALLEL",
        "selectedParams": list(parameters),
        "selectedMetrics": list(metrics)[::-1],
        "showAllRuns": True,
    }


def _scatter(across: str, up: str) -> Chart:
    return {"type": "SCATTER", "xaxis": {"key": across, "type": "METRIC"}, "yaxis": {"key": up, "type": "METRIC"}}
