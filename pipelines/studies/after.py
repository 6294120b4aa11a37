"""What follows the runs of a study: its comparison, written beside them, and the tracking store."""

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

from components.errors import QuintetError
from components.files import read_json
from components.studies.store import STUDY_NAME
from pipelines.after import write_report
from pipelines.services import HOST, Ports, running_services
from pipelines.studies.tables import short_links

Say = Callable[[str], None]


def tracked_parent(root: Path, folder: Path) -> str | None:
    """The tracked run of the study in `folder`, made or taken up; None when the store cannot be reached.

    The store is made here, before several processes use it. Losing it costs the live view: `quintet sync` repairs it.
    """
    from components.tracking.studies import open_study

    try:
        return str(open_study(root, read_json(folder / STUDY_NAME)))
    except QuintetError as error:
        logging.getLogger(__name__).warning(
            "the study is not tracked live: %s; it goes on, and `quintet sync` adds what is missing", error
        )
        return None


def mlflow_address(root: Path) -> tuple[str, str]:
    """Where MLflow's pages are, and what must be done before they are there."""
    from components.tracking.store import tracking_uri

    uri = tracking_uri(root)
    if uri.startswith(("http://", "https://")):
        return uri.rstrip("/"), ""
    running = next((service.url for service in running_services(root) if service.name == "mlflow-server"), None)
    return (running, "") if running else (f"http://{HOST}:{Ports().mlflow}", " (after `quintet up`)")


def stopped(root: Path, parent: str | None) -> None:
    """End the tracked run of a study that was interrupted, so that it does not look as if it went on."""
    from components.tracking.studies import end_study

    if parent is not None:
        # whatever the store says: the interrupt itself must reach the caller
        with contextlib.suppress(Exception):
            end_study(root, parent, "KILLED", "the study was stopped; `quintet ablate` goes on with it")


def conclude(root: Path, name: str, say: Say) -> tuple[str, ...]:
    """Compare the arms and track the study; returns what a reader must know, in lines.

    A comparison that is refused (undeclared differences, nothing to compare) is a note: the runs stay.
    """
    from components.studies.comparing import compare_study
    from components.studies.store import study_folder
    from components.tracking.studies import sync_study

    notes: list[str] = []
    try:
        notes += compare_study(root, name).notes
    except QuintetError as error:
        notes.append(f"not compared: {error}")
    say("bringing the tracking store up to date")
    try:
        tracked = sync_study(root, study_folder(root, name))
        notes += tracked.notes
        address, how = mlflow_address(root)
        notes += [f"MLflow{how}, {title}: {address}{link}" for title, link in short_links(tracked.links).items()]
    except QuintetError as error:
        notes.append(f"not tracked: {error}; `quintet sync` adds it")
    try:
        notes.append(f"report: {write_report(root)}")
    except QuintetError as error:
        notes.append(f"no report: {error}")
    return tuple(notes)
