"""What a gate says: one report of named checks, the same bytes for the same input, and an error when it refuses.

A report fails closed: with no check in it, it refuses. Its JSON form holds neither time nor host, so that a gate's
output can be cached by content.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from components.errors import CollapseError, DataError, DataGateError, GateError, ModelGateError, ParityError
from components.files import read_json, write_json

FORMAT = "quintet-gate/1"
REPORT_NAME = "report.json"
# Checks below this prefix speak of collapse, which has an error class of its own.
COLLAPSE = "collapse/"

Gate = Literal["data", "model", "export"]
Verdict = Literal["passed", "refused"]
Value = str | int | float | bool | None

ERRORS: Mapping[Gate, type[GateError]] = {"data": DataGateError, "model": ModelGateError, "export": ParityError}


@dataclass(frozen=True)
class Check:
    """One question and its answer: what was observed, what is expected, where (`detail`) and how to mend it."""

    name: str
    passed: bool
    observed: Value
    expected: str
    detail: str = ""
    mend: str = ""

    def __post_init__(self) -> None:
        # NaN and infinity have no JSON form, and a gate must be able to report exactly these.
        if isinstance(self.observed, float) and not math.isfinite(self.observed):
            object.__setattr__(self, "observed", str(self.observed))


@dataclass(frozen=True)
class GateReport:
    """All checks of one gate on one subject (a file or a model, named without machine paths)."""

    gate: Gate
    subject: str
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> Verdict:
        return "passed" if self.checks and all(check.passed for check in self.checks) else "refused"

    @property
    def refused(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.passed)

    @property
    def findings(self) -> tuple[str, ...]:
        """One line per refused check: file or model, place, what came, what is allowed, how to mend it."""
        if not self.checks:
            return (f"{self.subject}: nothing was checked, so nothing can pass; give the {self.gate} gate its input",)
        return tuple(_line(self.subject, check) for check in self.refused)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "gate": self.gate,
            "subject": self.subject,
            "verdict": self.verdict,
            "checks": [asdict(check) for check in self.checks],
            "findings": list(self.findings),
        }


def write_report(folder: Path, report: GateReport) -> Path:
    """Write `report.json` into `folder` and return its path."""
    path = folder / REPORT_NAME
    write_json(path, report.to_json())
    return path


def read_report(path: Path) -> GateReport:
    """The report in `path`. Raises DataError when it is not one; the verdict is derived from the checks anew."""
    try:
        content = read_json(path)
        known = content["format"] == FORMAT and content["gate"] in ERRORS
        report = GateReport(content["gate"], content["subject"], tuple(Check(**check) for check in content["checks"]))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise _no_report(path, f"{type(error).__name__}: {error}") from None
    if not known:
        raise _no_report(path, f"format {content['format']!r}, gate {content['gate']!r}")
    return report


def require_passed(report: GateReport) -> None:
    """Raise the gate's own error, with every finding, unless the report passed."""
    if report.verdict == "passed":
        return
    findings = report.findings
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    collapsed = report.gate == "model" and report.refused and report.refused[0].name.startswith(COLLAPSE)
    kind = CollapseError if collapsed else ERRORS[report.gate]
    raise kind(findings[0] + more, findings)


def _no_report(path: Path, came: str) -> DataError:
    return DataError(f"{path} is not a gate report ({came}); allowed is {FORMAT}; run its gate stage again")


def _line(subject: str, check: Check) -> str:
    place = f"{subject} {check.detail}" if check.detail else subject
    line = f"{place}: got {check.observed}, allowed is {check.expected} (check {check.name})"
    return " ".join((f"{line}; {check.mend}" if check.mend else line).split())
