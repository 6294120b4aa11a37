"""A comparison as a table for a reader: rows of text, and those as Markdown and CSV. Four significant digits.

The text depends on the comparison alone. What stands here is rounded; `Comparison.to_json` has the numbers themselves.
"""

import csv
import io

from components.evaluation.comparison.intervals import Interval
from components.evaluation.comparison.paired import ArmSummary, Comparison, PairedDifference
from components.markdown import table

DIGITS = 4
# What stands where a number does not exist: one seed has no spread, the reference no difference from itself.
NONE = "-"


def rows(comparison: Comparison, metric: str = "mean") -> list[dict[str, str]]:
    """A row an arm, in the comparison's order; column name -> text. `metric` names the column of means.

    Means and differences stand with the half width of their t interval, which is symmetric. An arm has as many seeds
    as `n` says; where it is paired on fewer, its note says so.
    """
    by_arm = {difference.arm: difference for difference in comparison.differences}
    return [_row(comparison, arm, by_arm.get(arm.name), metric) for arm in comparison.arms]


def markdown(comparison: Comparison, metric: str = "mean") -> str:
    """The rows as a Markdown table, notes below it, and how to read it in one line."""
    found = rows(comparison, metric)
    header = list(found[0])
    # names to the left, numbers to the right
    lines = [table(header, [list(row.values()) for row in found], right=set(header) - {"arm", "verdict"})]
    notes = [f"- {name}: {note}" for name, of_arm in _notes(comparison) for note in of_arm]
    return "\n".join([*lines, "", _legend(comparison), *(["", *notes] if notes else [])]) + "\n"


def csv_text(comparison: Comparison) -> str:
    """One line an arm with plain numbers a column, and empty cells where there is none. Lines end in a line feed."""
    buffer = io.StringIO()
    by_arm = {difference.arm: difference for difference in comparison.differences}
    lines = [_numbers(arm, by_arm.get(arm.name)) for arm in comparison.arms]
    writer = csv.DictWriter(buffer, fieldnames=list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return buffer.getvalue()


def digits(value: float | None, *, sign: bool = False) -> str:
    """Four significant digits, zeros at the end kept: 0.7700 and not 0.77. `-` for None, `0` for nothing at all."""
    if value is None:
        return NONE
    if value == 0:
        return "0"
    return format(value, f"{'+' if sign else ''}#.{DIGITS}g").removesuffix(".")


def interval_text(interval: Interval | None, *, sign: bool = False) -> str:
    return NONE if interval is None else f"[{digits(interval.low, sign=sign)}, {digits(interval.high, sign=sign)}]"


def mean_text(mean: float, interval: Interval | None) -> str:
    """A mean and the half width of its interval, to the decimals of the mean; to four digits where those are zeros."""
    text = digits(mean)
    if interval is None:
        return text
    decimals = len(text.partition(".")[2]) if "e" not in text else 0
    half = f"{interval.half_width:.{decimals}f}"
    return f"{text} ± {half if decimals and float(half) else digits(interval.half_width)}"


def _row(comparison: Comparison, arm: ArmSummary, difference: PairedDifference | None, metric: str) -> dict[str, str]:
    one = difference
    return {
        "arm": arm.name,
        "n": str(arm.n),
        metric: mean_text(arm.mean, arm.t_interval),
        f"minus {comparison.reference}": NONE if one is None else digits(one.mean, sign=True),
        "interval": NONE if one is None else interval_text(one.t_interval, sign=True),
        "bootstrap": NONE if one is None else interval_text(one.bootstrap_interval, sign=True),
        "effect": NONE if one is None else digits(one.effect, sign=True),
        "p (Holm)": NONE if one is None else digits(one.p_holm),
        "verdict": "reference" if one is None else one.verdict,
        "smallest shown": NONE if one is None else digits(one.smallest_shown),
    }


def _numbers(arm: ArmSummary, difference: PairedDifference | None) -> dict[str, str]:
    of_arm = {
        "arm": arm.name,
        "n": str(arm.n),
        "mean": digits(arm.mean),
        "sd": digits(arm.sd),
        **_ends("mean_t", arm.t_interval),
        **_ends("mean_bootstrap", arm.bootstrap_interval),
    }
    one = difference
    of_difference = {
        "pairs": NONE if one is None else str(one.n),
        "difference": NONE if one is None else digits(one.mean),
        "difference_sd": NONE if one is None else digits(one.sd),
        **_ends("difference_t", None if one is None else one.t_interval),
        **_ends("difference_bootstrap", None if one is None else one.bootstrap_interval),
        "effect": NONE if one is None else digits(one.effect),
        "p": NONE if one is None else digits(one.p),
        "p_holm": NONE if one is None else digits(one.p_holm),
        "p_sign_flip": NONE if one is None else digits(one.p_sign_flip),
        "smallest_shown": NONE if one is None else digits(one.smallest_shown),
        "verdict": "reference" if one is None else one.verdict,
    }
    cells = of_arm | of_difference
    return {name: "" if text == NONE else text for name, text in cells.items()}


def _ends(name: str, interval: Interval | None) -> dict[str, str]:
    return {
        f"{name}_low": digits(None if interval is None else interval.low),
        f"{name}_high": digits(None if interval is None else interval.high),
    }


def _notes(comparison: Comparison) -> list[tuple[str, tuple[str, ...]]]:
    by_arm = {difference.arm: difference.notes for difference in comparison.differences}
    return [(arm.name, (*arm.notes, *by_arm.get(arm.name, ()))) for arm in comparison.arms]


def _legend(comparison: Comparison) -> str:
    percent = f"{comparison.confidence * 100:.4g} %"
    wanted = "higher" if comparison.goal == "maximise" else "lower"
    return (
        f"± and interval: {percent}, Student's t over seeds; bootstrap: {percent}, expanded percentiles, from 5 seeds "
        f"on. Differences are paired by seed; {wanted} is better. Effect: d_z with Hedges' correction. p: paired t "
        "test, corrected by Holm over this table. Smallest shown: the true difference that these seeds would show in "
        "80 % of studies; a smaller one may well be inconclusive."
    )
