"""The door to Great Expectations: fails closed, keeps order, leaves no trace, and is imported only when used."""

import ast
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import pytest

from components.quality.core.expectations import Place, Requirement, Suite, run_suites

FRAME = pd.DataFrame({"x": [1.0, 2.0, float("nan"), 9.0], "void": [float("nan")] * 4})


def between(name: str, column: str) -> Requirement:
    return Requirement(
        name, "ExpectColumnValuesToBeBetween", {"column": column, "min_value": 0, "max_value": 5}, "0..5"
    )


def suite(*requirements: Requirement, frame: pd.DataFrame = FRAME, name: str = "cells") -> Suite:
    return Suite(name, frame, requirements, lambda row, _: Place(f"row {row}", str(frame["x"][row])))


def test_one_answer_for_each_requirement_in_the_order_given() -> None:
    rows = Requirement("rows", "ExpectTableRowCountToBeBetween", {"min_value": 4}, "4 rows")
    null = Requirement("null", "ExpectColumnValuesToNotBeNull", {"column": "x"}, "a value", "mend it")
    checks = run_suites("a/b.csv", (suite(between("range", "x"), rows, null), suite(rows, name="again")))
    assert [(check.name, check.passed) for check in checks] == [
        ("range", False),
        ("rows", True),
        ("null", False),
        ("rows", True),
    ]
    assert (checks[0].observed, checks[0].detail, checks[0].expected) == ("9.0", "row 3", "0..5")
    assert checks[2].mend == "mend it"


def test_a_column_without_values_and_a_frame_without_rows_pass_nothing() -> None:
    null = Requirement("null", "ExpectColumnValuesToNotBeNull", {"column": "x"}, "a value")
    unique = Requirement("unique", "ExpectColumnValuesToBeUnique", {"column": "x"}, "once")
    void = run_suites("s", (suite(between("range", "void")),))
    empty = run_suites("s", (suite(between("range", "x"), null, unique, frame=FRAME.iloc[:0]),))
    assert [check.passed for check in [*void, *empty]] == [False] * 4
    assert {check.observed for check in [*void, *empty]} == {"no value to compare"}


def test_what_cannot_be_evaluated_is_refused() -> None:
    (check,) = run_suites("s", (suite(between("range", "absent")),))
    assert not check.passed
    assert "absent" in str(check.observed)


def test_wrong_declarations_are_refused() -> None:
    with pytest.raises(ValueError, match="ExpectMiracles"):
        run_suites("s", (suite(Requirement("m", "ExpectMiracles", {}, "")),))
    with pytest.raises(ValueError, match="twice"):
        run_suites("s", (suite(between("range", "x"), between("range", "void")),))


def test_nothing_is_left_outside_the_folder_for_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = {name: tmp_path / name for name in ("home", "temporary", "work")}
    for folder in elsewhere.values():
        folder.mkdir()
    monkeypatch.setenv("HOME", str(elsewhere["home"]))
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere["temporary"]))
    monkeypatch.chdir(elsewhere["work"])
    docs = tmp_path / "docs"
    run_suites("data/prepared/a/table.csv", (suite(between("range", "x")),), docs)
    assert len(list(docs.rglob("validations/cells/**/*.html"))) == 1
    assert [list(folder.iterdir()) for folder in elsewhere.values()] == [[], [], []]


def test_the_library_is_imported_here_alone_and_late() -> None:
    root = Path(__file__).parents[2]
    importers = set()
    for file in [*root.glob("components/**/*.py"), *root.glob("pipelines/**/*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0] == "great_expectations" for name in names):
                importers.add(file.relative_to(root).as_posix())
    assert importers == {"components/quality/core/expectations.py"}
    modules = "components.quality.orbital.gate, components.quality.images.gate, components.quality.text.gate"
    code = f"import sys, {modules}, components.quality.model; print('great_expectations' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
