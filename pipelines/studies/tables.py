"""The comparison of a study on a terminal: what fits there. The files beside `study.json` have all of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from components.studies.comparing import COSTS, StudyComparison
from components.studies.store import study_folder

STYLES = {"better": "bold green", "worse": "bold red", "reference": "bold"}


def print_comparison(root: Path, console: Console, comparison: StudyComparison, metric: str | None = None) -> None:
    """The table of the study's own metric, or of `metric`; below it the baselines, the costs and the times."""
    from components.evaluation.comparison.tables import rows

    shown = metric or next(iter(comparison.metrics))
    tables = [(f"{comparison.name}: {shown}", comparison.metrics[shown])]
    if metric is None and comparison.systems:
        tables.append(("the reference beside baselines", comparison.systems))
    for title, compared in tables:
        found = rows(compared, shown)
        columns = ["arm", shown, "difference", "interval", "p (Holm)", "verdict"]
        difference = f"minus {compared.reference}"
        _print(
            console,
            title,
            columns,
            [[row[difference if column == "difference" else column] for column in columns] for row in found],
        )
    if metric is None:
        _print(console, "what the arms cost", *_costs(comparison))
    folder = study_folder(root, comparison.name).relative_to(root)
    console.print(f"all of it: {folder}/table.md, times.md, plots/", markup=False, highlight=False, soft_wrap=True)


def _costs(comparison: StudyComparison) -> tuple[list[str], list[list[str]]]:
    header = ["arm", *COSTS.values(), "seconds of training"]
    seconds = comparison.seconds
    return header, [
        [arm, *(f"{values[cost]:d}" for cost in COSTS), f"{seconds[arm]:.2f}" if arm in seconds else "-"]
        for arm, values in comparison.costs.items()
    ]


def _print(console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left", padding=(0, 1, 0, 0), box=None)
    for column in columns:
        table.add_column(column, justify="left" if column in ("arm", "verdict") else "right", overflow="fold")
    for row in rows:
        style = STYLES.get(row[-1], "")
        # a name of several knobs may be broken between them
        table.add_row(row[0].replace(",", ", "), *row[1:], style=style)
    console.print(table)


def short_links(links: Mapping[str, str], longest: int = 200) -> dict[str, str]:
    """The pages whose address a reader could copy from a terminal; the description of the tracked run has all."""
    return {title: link for title, link in links.items() if len(link) <= longest}
