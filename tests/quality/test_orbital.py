"""The orbital gate: accepts a good table, and for every check refuses a table that only this check refuses."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.errors import DataGateError
from components.files import canonical_json
from components.quality.core.report import GateReport, require_passed
from components.quality.orbital.columns import COLUMNS, FORMS, NUMBER, RANGES
from components.quality.orbital.gate import gate_orbital

from .tables import KINDS, OPTIONS, Sheet, valid_text

# A row of the LEO orbit, kind PAYLOAD, split train, and one of the same orbit and kind in split validation.
LEO_LINE, LEO_VALIDATION_LINE = 2, 4


def refused(report: GateReport) -> set[str]:
    return {check.name for check in report.refused}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "prepared" / "sample"
    folder.mkdir(parents=True)
    return folder / "table.csv"


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> GateReport:
    return gate_orbital(Sheet().write(tmp_path_factory.mktemp("prepared") / "table.csv"), OPTIONS)


def test_a_good_table_passes_with_every_check_asked(accepted: GateReport) -> None:
    assert accepted.findings == ()
    assert accepted.verdict == "passed"
    assert len({check.name for check in accepted.checks}) == len(accepted.checks)
    require_passed(accepted)


def test_the_same_table_gives_the_same_bytes(path: Path) -> None:
    Sheet().write(path)
    first, second = (canonical_json(gate_orbital(path, OPTIONS).to_json()) for _ in range(2))
    assert first == second
    assert str(path.parent.parent.parent.parent) not in first


def shift_altitudes(sheet: Sheet) -> None:
    # 30 km higher on both sides: the eccentricity stays, the semi-major axis no longer fits
    perigee, apogee = (float(sheet.get(LEO_LINE, name)) for name in ("perigee_km", "apogee_km"))
    middle = 6378.137 + (perigee + apogee) / 2
    half = (apogee - perigee) / 2 * (middle + 30) / middle
    centre = (perigee + apogee) / 2 + 30
    sheet.set(LEO_LINE, perigee_km=f"{centre - half:.6f}", apogee_km=f"{centre + half:.6f}")


def lose_class_in_split(sheet: Sheet) -> None:
    # all debris of the test split becomes payload; shares move by less than is allowed
    for line in range(2, 50):
        if (sheet.get(line, "kind"), sheet.get(line, "split")) == ("DEBRIS", "test"):
            sheet.set(line, kind="PAYLOAD" if line % 2 else "ROCKET BODY")


def lose_rows_of_class(sheet: Sheet) -> None:
    # five rocket bodies are left, in all splits
    bodies = [line for line in range(2, 50) if sheet.get(line, "kind") == "ROCKET BODY"]
    keep = {"train": 2, "validation": 2, "test": 1}
    for line in bodies:
        split = sheet.get(line, "split")
        if keep[split]:
            keep[split] -= 1
        else:
            sheet.set(line, kind="PAYLOAD" if line % 2 else "DEBRIS")


def drift_apart(sheet: Sheet) -> None:
    # the test split becomes mostly debris, every kind stays
    left = {"PAYLOAD": 1, "ROCKET BODY": 1, "DEBRIS": 99}
    for line in range(2, 50):
        if sheet.get(line, "split") == "test":
            kind = sheet.get(line, "kind")
            left[kind] -= 1
            if left[kind] < 0:
                sheet.set(line, kind="DEBRIS")


def scale_time(sheet: Sheet) -> None:
    period = float(sheet.get(LEO_LINE, "period_min")) * 1.02
    sheet.set(LEO_LINE, period_min=repr(period), mean_motion_rev_day=repr(1440.0 / period))


def swap_altitudes(sheet: Sheet) -> None:
    perigee, apogee = sheet.get(LEO_LINE, "perigee_km"), sheet.get(LEO_LINE, "apogee_km")
    sheet.set(LEO_LINE, perigee_km=apogee, apogee_km=perigee)


def sink(sheet: Sheet) -> None:
    # a consistent orbit that meets the ground
    axis = 6378.137 + 300.0
    period = 2 * math.pi * math.sqrt(axis**3 / 398600.4418) / 60
    sheet.set(
        LEO_LINE,
        period_min=repr(period),
        mean_motion_rev_day=repr(1440 / period),
        perigee_km="50.0",
        apogee_km="550.0",
        semi_major_axis_km=repr(axis),
        eccentricity=repr(250 / axis),
    )


def one(**values: str) -> Callable[[Sheet], object]:
    return lambda sheet: sheet.set(LEO_LINE, **values)


BELOW = {
    "norad_id": "0",
    "period_min": "12.5",
    "inclination_deg": "-0.01",
    "perigee_km": "-1",
    "apogee_km": "-2",
    "eccentricity": "-1e-4",
    "mean_motion_rev_day": "0.0",
    "semi_major_axis_km": "6000",
}
ABOVE = {
    "norad_id": "999999999",
    "period_min": "525601",
    "inclination_deg": "180.01",
    "perigee_km": "1500001",
    "apogee_km": "2000000",
    "eccentricity": "1.0",
    "mean_motion_rev_day": "18.5",
    "semi_major_axis_km": "1500001",
}
WRONG_FORM = {
    **dict.fromkeys((name for name, form in FORMS.items() if form is NUMBER), "1,234"),
    "norad_id": "1001.0",
    "name": " padded",
    "kind": "PAYLOAD?",
    "launch": "61-001",
    "regime": "LEO1",
    "split": "train-1",
}
# family -> (check, column -> spoilt cell); every column is spoilt in a line of its own
PER_COLUMN: dict[str, tuple[str, dict[str, str]]] = {
    "empty": ("not_null", dict.fromkeys(COLUMNS, "")),
    "missing number": ("not_null", dict.fromkeys(RANGES, "NaN")),
    "infinite": ("finite", {name: "-inf" for name, form in FORMS.items() if form is NUMBER}),
    "form": ("form", WRONG_FORM),
    "below": ("range", BELOW),
    "above": ("range", ABOVE),
}
ONLY_THIS: dict[str, Callable[[Sheet], object]] = {
    "kind/known": one(kind="TOASTER"),
    "regime/known": one(regime="XEO"),
    "split/known": one(split="holdout"),
    "orbit/perigee_apogee": swap_altitudes,
    "orbit/period_mean_motion": one(mean_motion_rev_day="15.2"),
    "orbit/semi_major_axis": shift_altitudes,
    "orbit/kepler": scale_time,
    "orbit/eccentricity": one(eccentricity="0.05"),
    "regime/rule": one(regime="MEO"),
    "norad_id/unique": lambda sheet: sheet.set(LEO_LINE, norad_id=sheet.get(LEO_LINE + 1, "norad_id")),
    "leakage/launch": lambda sheet: sheet.set(LEO_LINE, launch=sheet.get(LEO_VALIDATION_LINE, "launch")),
    "perigee_km/lasting": sink,
    "classes/in_every_split": lose_class_in_split,
    "classes/min_rows": lose_rows_of_class,
    "classes/drift": drift_apart,
    "table/min_rows": lambda sheet: sheet.cells.__delitem__(slice(40, None)),
}
# A fault that two questions meet by nature: the second one follows from the first.
IMPLIED = {
    # a share of nothing is far from any share
    "classes/in_every_split": {"classes/drift"},
    # the last rows hold all of one regime
    "table/min_rows": {"classes/min_rows", "classes/drift", "classes/in_every_split"},
    "classes/min_rows": {"classes/drift"},
}


@pytest.mark.parametrize("check", ONLY_THIS)
def test_only_this_check_refuses(check: str, path: Path) -> None:
    sheet = Sheet()
    ONLY_THIS[check](sheet)
    report = gate_orbital(sheet.write(path), OPTIONS)
    assert check in refused(report)
    assert refused(report) <= {check} | IMPLIED.get(check, set())


@pytest.mark.parametrize("family", PER_COLUMN)
def test_each_column_is_refused_on_its_own_line_and_by_no_other_check(family: str, path: Path) -> None:
    check, faults = PER_COLUMN[family]
    sheet = Sheet()
    lines = {column: line for line, column in enumerate(faults, start=5)}
    for column, text in faults.items():
        sheet.set(lines[column], **{column: text})
    report = gate_orbital(sheet.write(path), OPTIONS)
    assert refused(report) == {f"{column}/{check}" for column in faults}
    by_line = sorted(report.findings, key=lambda finding: int(finding.split()[2].rstrip(",")))
    for column, finding in zip(faults, by_line, strict=True):
        assert f"line {lines[column]}, column {column}: got {faults[column]!r}" in finding


def test_an_object_in_two_splits_is_a_duplicate_and_a_leak(path: Path) -> None:
    sheet = Sheet()
    sheet.set(LEO_LINE, norad_id=sheet.get(LEO_VALIDATION_LINE, "norad_id"))
    report = gate_orbital(sheet.write(path), OPTIONS)
    assert refused(report) == {"norad_id/unique", "leakage/norad_id"}
    leak = next(finding for finding in report.findings if "leakage" in finding)
    assert "line 2 (also line 4)" in leak
    assert "split 'train'" in leak
    assert "split 'validation'" in leak


def test_every_check_has_a_control(accepted: GateReport) -> None:
    elsewhere = {f"{column}/{check}" for check, faults in PER_COLUMN.values() for column in faults}
    elsewhere.add("leakage/norad_id")
    structural = {"file/readable", "table/rows", "table/rectangular", "table/columns"}
    assert {check.name for check in accepted.checks} == set(ONLY_THIS) | elsewhere | structural


def test_a_nan_is_reported_with_file_line_column_value_and_remedy(path: Path) -> None:
    report = gate_orbital(Sheet().set(17, eccentricity="NaN").write(path), OPTIONS)
    (finding,) = report.findings
    for part in ("data/prepared/sample/table.csv", "line 17", "column eccentricity", "'NaN'", "quintet run"):
        assert part in finding
    with pytest.raises(DataGateError, match="line 17, column eccentricity: got 'NaN'"):
        require_passed(report)


def test_many_faults_name_three_places_and_count_the_others(path: Path) -> None:
    sheet = Sheet()
    for line in range(5, 15):
        sheet.set(line, inclination_deg="nan")
    (finding,) = gate_orbital(sheet.write(path), OPTIONS).findings
    assert "line 5, column inclination_deg" in finding
    assert "7 more" in finding


STRUCTURE: dict[str, tuple[bytes, str, str]] = {
    "empty file": (b"", "table/rows", "0 rows"),
    "header alone": (",".join(COLUMNS).encode() + b"\n", "table/rows", "0 rows"),
    "NUL": (valid_text().replace("OBJECT 9", "OBJ\x00CT 9").encode(), "file/readable", "line 10"),
    "latin-1": (valid_text().replace("OBJECT 9", "OBJÉCT 9").encode("latin-1"), "file/readable", "line 10"),
    "byte order mark": (b"\xef\xbb\xbf" + valid_text().encode(), "file/readable", "byte order mark"),
    "CRLF": (valid_text().replace("\n", "\r\n").encode(), "file/readable", "carriage return"),
    "cut off": (valid_text().encode()[:-20], "file/readable", "line 49"),
    "broken quoting": (valid_text().replace("OBJECT 9,", '"OBJECT" 9,').encode(), "file/readable", "line 10"),
    "cell over two lines": (valid_text().replace("OBJECT 9,", '"OBJECT\n9",').encode(), "file/readable", "line 10"),
    "a cell too many": (valid_text().replace("OBJECT 9,", "OBJECT 9,,").encode(), "table/rectangular", "14 cells"),
    "blank line": (valid_text().replace("1010,OBJECT", "\n1010,OBJECT").encode(), "table/rectangular", "line 11"),
    "blank file": (b"\n\n\n", "table/rectangular", "0 cells"),
}


@pytest.mark.parametrize("case", STRUCTURE)
def test_what_is_no_table_is_refused_and_never_raises(case: str, path: Path) -> None:
    content, check, part = STRUCTURE[case]
    path.write_bytes(content)
    report = gate_orbital(path, OPTIONS)
    if case == "blank file":
        # three lines without a cell are rectangular, and their header is not ours
        assert refused(report) >= {"table/columns"}
    else:
        assert refused(report) == {check}
        assert part in report.findings[0]
    with pytest.raises(DataGateError):
        require_passed(report)


@pytest.mark.parametrize("kind", ["absent", "folder"])
def test_no_file_is_refused(kind: str, path: Path) -> None:
    if kind == "folder":
        path.mkdir()
    report = gate_orbital(path, OPTIONS)
    assert refused(report) == {"file/readable"}


HEADERS: dict[str, tuple[Callable[[Sheet], object], str]] = {
    "renamed": (lambda sheet: sheet.set(1, inclination_deg="inclination"), "'inclination' in place of column"),
    "missing": (lambda sheet: [row.pop(5) for row in sheet.cells], "no column 'inclination_deg'"),
    "extra": (
        lambda sheet: [row.append("colour" if not line else "red") for line, row in enumerate(sheet.cells)],
        "an unknown column 'colour'",
    ),
    "order": (
        lambda sheet: [row.__setitem__(slice(0, 2), row[1::-1]) for row in sheet.cells],
        "column 'name' at position 1, where 'norad_id' is due",
    ),
    "twice": (lambda sheet: sheet.set(1, apogee_km="perigee_km"), "column 'perigee_km' 2 times"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_wrong_header_is_named(case: str, path: Path) -> None:
    spoil, part = HEADERS[case]
    sheet = Sheet()
    spoil(sheet)
    report = gate_orbital(sheet.write(path), OPTIONS)
    assert refused(report) == {"table/columns"}
    assert part in report.findings[0]
    assert "line 1" in report.findings[0]


@pytest.mark.parametrize("text", ["nan", ""])
def test_a_table_of_nothing_but_missing_values_is_refused_everywhere(text: str, path: Path) -> None:
    sheet = Sheet()
    sheet.cells[1:] = [[text] * len(COLUMNS) for _ in sheet.cells[1:]]
    report = gate_orbital(sheet.write(path), OPTIONS)
    passed = {check.name for check in report.checks if check.passed}
    # what the library would have called success on columns without values is refused here
    assert passed == {"file/readable", "table/rows", "table/rectangular", "table/columns", "table/min_rows"}


def test_a_column_of_nothing_but_missing_values_does_not_pass_its_range(path: Path) -> None:
    sheet = Sheet()
    for line in range(2, 50):
        sheet.set(line, inclination_deg="nan")
    # the library alone would call the range met
    assert refused(gate_orbital(sheet.write(path), OPTIONS)) == {
        f"inclination_deg/{check}" for check in ("not_null", "form", "finite", "range")
    }


def test_the_regime_rule_can_be_another(path: Path) -> None:
    report = gate_orbital(Sheet().write(path), OPTIONS, regime_rule=lambda e, n, a: "LEO")
    assert refused(report) == {"regime/rule"}
    # 36 of 48 rows are not LEO; three are named
    assert "33 more" in report.findings[0]


def test_shares_are_compared_with_a_reference(path: Path) -> None:
    third = dict.fromkeys(KINDS, 1 / 3)
    Sheet().write(path)
    same = gate_orbital(path, OPTIONS, reference_shares={"kind": third})
    assert same.verdict == "passed"
    assert "classes/reference_drift" in {check.name for check in same.checks}
    other = gate_orbital(
        path, OPTIONS, reference_shares={"kind": {"PAYLOAD": 0.9, "ROCKET BODY": 0.05, "DEBRIS": 0.05}}
    )
    assert refused(other) == {"classes/reference_drift"}
    nothing = gate_orbital(path, OPTIONS, reference_shares={})
    assert refused(nothing) == {"classes/reference_drift"}


def test_pages_are_written_replaced_and_removed(path: Path, tmp_path: Path) -> None:
    docs = tmp_path / "run_info" / "data_docs" / "sample"
    gate_orbital(Sheet().write(path), OPTIONS, docs_folder=docs)
    first = sorted(page.name for page in docs.rglob("validations/**/*.html"))
    assert (docs / "index.html").is_file()
    assert len(first) == 4
    gate_orbital(path, OPTIONS, docs_folder=docs)
    assert sorted(page.name for page in docs.rglob("validations/**/*.html")) == first
    path.write_bytes(b"")
    gate_orbital(path, OPTIONS, docs_folder=docs)
    assert not docs.exists()


CORRUPTIONS = ("", "nan", "inf", "-1", "abc", "1e999", "٣", "1,5", "0x10", "9" * 40, "'", " 5", "-inf", "1e-400")


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    line=st.integers(2, 49),
    column=st.sampled_from(sorted(RANGES)),
    text=st.sampled_from(CORRUPTIONS),
)
def test_any_spoilt_number_is_refused_at_its_place(line: int, column: str, text: str, path: Path) -> None:
    report = gate_orbital(Sheet().set(line, **{column: text}).write(path), OPTIONS)
    assert report.verdict == "refused"
    assert all(check.name.startswith(column) for check in report.refused)
    assert f"line {line}, column {column}: got {text!r}" in report.findings[0]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, len(valid_text()) - 1), cut=st.integers(1, 400), content=st.binary(max_size=300))
def test_bytes_in_place_of_a_part_never_raise(position: int, cut: int, content: bytes, path: Path) -> None:
    whole = valid_text().encode()
    # structure only: at least one quote, line feed or separator lost or gained makes no table
    path.write_bytes(whole[:position] + b"\x00" + content + whole[position + cut :])
    report = gate_orbital(path, OPTIONS)
    assert refused(report) == {"file/readable"}


def test_the_few_objects_that_came_down_do_not_stop_a_catalogue(path: Path) -> None:
    sheet = Sheet()
    sink(sheet)
    # 48 rows and four more copies as other objects of other launches: one row in 240 is below 80 km
    for copy in range(1, 5):
        for index, row in enumerate(Sheet().cells[1:]):
            number, launch = str(int(row[0]) + 100 * copy), f"{1960 + copy}-{500 + index}"
            sheet.cells.append([number, *row[1:3], launch, *row[4:]])
    assert gate_orbital(sheet.write(path), OPTIONS).findings == ()
