"""The gate of each kind of data: the module `gate` in the folder of this package that bears the kind's name."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from components.datasets.registry import kind_named
from components.quality.core.report import GateReport

if TYPE_CHECKING:
    from components.quality.core.drift import Drift
    from components.quality.core.profile import Observations


class DataGate(Protocol):
    """What the module `gate` of a folder offers."""

    def gate(self, folder: Path, options: Any, *, subject: str, docs_folder: Path | None, drift: "Drift") -> GateReport:
        """Judge the prepared files in `folder`; bad data give a refusing report, never an exception.

        `subject` names the folder in the report. `docs_folder`, if given, gets the results as HTML.
        """

    def observations(self, folder: Path) -> "Observations":
        """What is followed from version to version: numbers and words by feature, one a row."""


def gate_named(kind: str) -> DataGate:
    """The gate of data of that kind. Raises ConfigError for a kind that does not exist."""
    kind_named(kind)
    loaded: DataGate = importlib.import_module(f"components.quality.{kind}.gate")
    return loaded
