"""Tables: four digits, nothing where there is nothing, and the same text for the same comparison."""

import csv
import io

import pytest

from components.evaluation.comparison.intervals import Interval
from components.evaluation.comparison.paired import Comparison, compare
from components.evaluation.comparison.tables import csv_text, digits, interval_text, markdown, mean_text, rows

BASE = {1: 0.70, 2: 0.72, 3: 0.71, 4: 0.69, 5: 0.73}
UP = {1: 0.80, 2: 0.83, 3: 0.80, 4: 0.795, 5: 0.82}


def comparison(**arms: dict[int, float]) -> Comparison:
    return compare({"up": UP, "base": BASE} | arms, reference="base", goal="maximise", resamples=999)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (-0.0, "0"),
        (0.77, "0.7700"),
        (0.123456, "0.1235"),
        (-12.345678, "-12.35"),
        (1234.4, "1234"),
        (0.000012345, "1.234e-05"),
        (1234567.0, "1.235e+06"),
    ],
)
def test_digits(value: float | None, text: str) -> None:
    assert digits(value) == text


def test_signs_and_intervals() -> None:
    assert digits(0.5, sign=True) == "+0.5000"
    assert interval_text(Interval(-0.01, 0.5), sign=True) == "[-0.01000, +0.5000]"
    assert interval_text(None) == "-"


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (0.7713, 0.00314159, "0.7713 ± 0.0031"),
        (0.7713, 0.000001234, "0.7713 ± 1.234e-06"),
        (0.7713, 0.0, "0.7713 ± 0"),
        (71.0, 12.3456, "71.00 ± 12.35"),
        (123456.0, 1234.5, "1.235e+05 ± 1234"),
        (0.0, 0.25, "0 ± 0.2500"),
    ],
)
def test_means(mean: float, half: float, text: str) -> None:
    assert mean_text(mean, Interval(mean - half, mean + half) if half else Interval(mean, mean)) == text
    assert mean_text(mean, None) == text.split(" ", maxsplit=1)[0]


def test_rows_hold_the_comparison() -> None:
    compared = comparison(same=dict(BASE))
    (difference, _) = compared.differences
    reference, up, same = rows(compared, "test/accuracy")
    assert reference["arm"] == "base"
    assert reference["verdict"] == "reference"
    assert reference["test/accuracy"] == "0.7100 ± 0.0196"
    assert (reference["p (Holm)"], reference["smallest shown"]) == ("-", "-")
    assert up["n"] == "5"
    assert up["minus base"] == "+0.09900"
    assert up["verdict"] == "better"
    assert up["p (Holm)"] == digits(difference.p_holm)
    assert up["interval"] == interval_text(difference.t_interval, sign=True)
    assert (same["verdict"], same["minus base"], same["effect"]) == ("equal", "0", "-")


def test_markdown_is_one_table_with_its_notes() -> None:
    text = markdown(comparison(same=dict(BASE)), "test/accuracy")
    lines = text.splitlines()
    assert len({line.count("|") for line in lines[:5]}) == 1
    assert lines[5] == ""
    assert "95 %" in text
    assert "higher is better" in text
    assert text.endswith("- same: the values are the reference's for all 5 seeds\n")
    assert text == markdown(comparison(same=dict(BASE)), "test/accuracy")


def test_markdown_of_one_seed_and_of_the_reference_alone() -> None:
    text = markdown(compare({"a": {1: 0.5}, "b": {1: 0.75}}, reference="a", goal="minimise"))
    assert "| b | 1 | 0.7500 | +0.2500 | - | - | - | - | one seed | - |" in text
    assert "lower is better" in text
    assert "| a | 2 |" in markdown(compare({"a": {1: 0.5, 2: 0.6}}, reference="a", goal="minimise"))


def test_a_bar_in_a_name_is_no_column() -> None:
    text = markdown(compare({"a|b": {1: 0.5}}, reference="a|b", goal="minimise"))
    assert "| a\\|b | 1 |" in text


def test_csv_is_read_back() -> None:
    compared = comparison()
    text = csv_text(compared)
    assert "\r" not in text
    reference, up = csv.DictReader(io.StringIO(text))
    assert float(up["mean"]) == pytest.approx(compared.arm("up").mean, rel=5e-4)
    (difference,) = compared.differences
    for name in ("p", "p_holm", "p_sign_flip", "effect", "smallest_shown"):
        assert float(up[name]) == pytest.approx(getattr(difference, name), rel=5e-4)
    assert difference.t_interval is not None
    assert float(up["difference_t_low"]) == pytest.approx(difference.t_interval.low, rel=5e-4)
    assert (reference["difference"], reference["p"], reference["verdict"]) == ("", "", "reference")
