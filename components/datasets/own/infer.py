"""From a path to a proposal, by what lies there."""

from collections.abc import Callable
from pathlib import Path

from components.datasets.core.faults import shown_path
from components.datasets.own.folders import propose_folder
from components.datasets.own.plain import propose_text
from components.datasets.own.proposal import Proposal, Wishes
from components.datasets.own.tables import propose_table
from components.errors import UsageError

BY_SUFFIX: dict[str, Callable[[Path, Wishes], Proposal]] = {
    ".csv": propose_table,
    ".txt": propose_text,
    ".tsv": propose_text,
}


def propose(path: Path, wishes: Wishes, scratch: Path) -> Proposal:
    """What is proposed for the file or folder at `path`; an archive of a folder is made in `scratch`.

    Raises UsageError for what is not there or of no known type, DataError for what is not in its form.
    """
    if path.is_dir():
        return propose_folder(path, wishes, scratch)
    if not path.is_file():
        raise UsageError(f"there is no file or folder {shown_path(path)}")
    proposer = BY_SUFFIX.get(path.suffix.lower())
    if proposer is None:
        allowed = f"{', '.join(BY_SUFFIX)} and folders of images"
        raise UsageError(f"{shown_path(path)} is of type {path.suffix or 'none'!r}; allowed are {allowed}")
    return proposer(path, wishes)
