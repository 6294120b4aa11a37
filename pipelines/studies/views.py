"""Tables of a study for a terminal and for Prefect's pages: what its arms are, and how far each one is."""

from pathlib import Path

from components.markdown import table
from components.studies.plan import Plan
from components.studies.running import account, finished
from pipelines.studies.progress import Count


def states_markdown(root: Path, plan: Plan, count: Count) -> str:
    """A row an arm: its runs done, running, failed, waiting."""
    rows = []
    for arm, runs in plan.arms.items():
        done = sum(finished(root, run.digest) is not None for run in runs)
        states = [account(root, run.digest).get("state") for run in runs if finished(root, run.digest) is None]
        running, failed = states.count("running"), states.count("failed")
        rows.append([arm, *(str(number) for number in (done, running, failed, len(runs) - done - running - failed))])
    header = ["arm", "done", "running", "failed", "waiting"]
    return f"**{plan.config.question}**\n\n{count}\n\n{table(header, rows, right=header[1:])}\n"
