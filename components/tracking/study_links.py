"""Pages of MLflow's user interface that show a study's runs side by side, as paths from the server's address on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from components.tracking.runs import PARENT_TAG
from components.tracking.study_files import StudyFiles

# the page names every run in its address, which browsers and servers cut at some length.
MAX_COMPARED = 60


def study_links(
    files: StudyFiles, experiment_id: str, parent_id: str, children: Mapping[tuple[str, int], str]
) -> dict[str, str]:
    """Title -> address of each page. Those that need a run of some arm are left out while there is none."""
    search = f"tags.`{PARENT_TAG}` = '{parent_id}'"
    runs_page = f"/#/experiments/{experiment_id}/runs?"
    links = {
        "the study's run: table, pictures, files": f"/#/experiments/{experiment_id}/runs/{parent_id}",
        "all runs, charts": runs_page
        + urlencode({"searchFilter": search, "compareRunsMode": "CHART"}, quote_via=quote),
        "all runs, table": runs_page + urlencode({"searchFilter": search}, quote_via=quote),
    }
    first_of_arm: dict[str, str] = {}
    for (arm, _), run_id in children.items():
        first_of_arm.setdefault(arm, run_id)
    chosen = {
        "one run of each arm": list(first_of_arm.values()),
        "every run": list(children.values()),
    }
    for title, run_ids in chosen.items():
        if 2 <= len(run_ids) <= MAX_COMPARED:
            links[f"{title}: parallel coordinates, scatter, parameters"] = compare_page(experiment_id, run_ids)
    return links


def compare_page(experiment_id: str, run_ids: list[str]) -> str:
    query = {"runs": json.dumps(run_ids), "experiments": json.dumps([experiment_id])}
    return "/#/compare-runs?" + urlencode(query, quote_via=quote)
