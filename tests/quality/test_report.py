"""Gate reports: fail closed, name everything, and come back from JSON as they were."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.errors import CollapseError, DataError, DataGateError, GateError, ModelGateError, ParityError
from components.files import canonical_json, write_json
from components.quality.core.report import Check, Gate, GateReport, read_report, require_passed, write_report

GOOD = Check("a/good", True, 1, "1")
BAD = Check("a/bad", False, "nan", "a number", "line 7, column x", "mend line 7")

values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
checks = st.builds(
    Check,
    st.text("abc/_", min_size=1),
    st.booleans(),
    values,
    st.text(max_size=8),
    st.text(max_size=8),
    st.text(max_size=8),
)


@pytest.mark.parametrize("gate", ["data", "model", "export"])
def test_nothing_checked_is_refused(gate: Gate) -> None:
    report = GateReport(gate, "thing", ())
    assert report.verdict == "refused"
    with pytest.raises(GateError, match="nothing was checked"):
        require_passed(report)


def test_a_finding_says_where_what_came_what_is_allowed_and_how_to_mend() -> None:
    report = GateReport("data", "table.csv", (GOOD, BAD))
    assert report.findings == ("table.csv line 7, column x: got nan, allowed is a number (check a/bad); mend line 7",)


@pytest.mark.parametrize(
    ("gate", "check", "kind"),
    [
        ("data", BAD, DataGateError),
        ("model", BAD, ModelGateError),
        ("export", BAD, ParityError),
        ("model", Check("collapse/separation", False, 0.0, "0.1"), CollapseError),
    ],
)
def test_each_gate_raises_its_own_error_with_every_finding(gate: Gate, check: Check, kind: type[GateError]) -> None:
    report = GateReport(gate, "thing", (GOOD, check, BAD))
    with pytest.raises(GateError) as raised:
        require_passed(report)
    assert type(raised.value) is kind
    assert raised.value.findings == report.findings
    assert str(raised.value) == f"{report.findings[0]} (and 1 more)"


def test_collapse_is_not_blamed_for_what_was_refused_before_it() -> None:
    report = GateReport("model", "m", (BAD, Check("collapse/separation", False, 0.0, "0.1")))
    with pytest.raises(ModelGateError) as raised:
        require_passed(report)
    assert not isinstance(raised.value, CollapseError)


def test_a_passed_report_raises_nothing() -> None:
    require_passed(GateReport("data", "table.csv", (GOOD,)))


@given(st.lists(checks, max_size=4))
def test_json_is_canonical_and_comes_back(tmp_path_factory: pytest.TempPathFactory, found: list[Check]) -> None:
    report = GateReport("data", "table.csv", tuple(found))
    assert (report.verdict == "passed") == (bool(found) and all(check.passed for check in found))
    path = write_report(tmp_path_factory.mktemp("report"), report)
    assert read_report(path) == report
    assert path.read_text(encoding="utf-8") == canonical_json(report.to_json())
    assert all("\n" not in finding for finding in report.findings)


def test_a_verdict_written_by_hand_is_not_believed(tmp_path: Path) -> None:
    content = GateReport("data", "table.csv", (BAD,)).to_json() | {"verdict": "passed", "findings": []}
    write_json(tmp_path / "report.json", content)
    assert read_report(tmp_path / "report.json").verdict == "refused"


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"format": "other", "gate": "data", "subject": "x", "checks": []}']
)
def test_what_is_no_report_is_an_error_with_its_path(content: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(content)
    with pytest.raises(DataError, match=r"report\.json is not a gate report"):
        read_report(path)


def test_an_absent_report_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.json"):
        read_report(tmp_path / "absent.json")
