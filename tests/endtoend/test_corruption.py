"""Spoilt data stop the run before anything is made from them, in one line that says what to do."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from components.files import read_json, sha256_file
from tests.endtoend.copies import Copy, Ended
from tests.endtoend.undisturbed import First, differences

pytestmark = pytest.mark.endtoend

CSV = "data/samples/orbital/satcat_2016_sample.csv"
TLE = "data/samples/orbital/gpredict_2018.tle"
# Which stage reads which file, and what both must say of any fault.
READERS = {"prepare@orbital-sample": CSV, "prepare@orbital-tle-sample": TLE}

# What data sets, features and experiments that read neither of the two are called.
OTHERS = ("fashion", "reviews", "rotten")

Edit = Callable[[list[str]], list[str]]


def replaced(line: int, old: str, new: str) -> Edit:
    """The lines with the first `old` of line `line`, counted from 1, replaced."""

    def edit(lines: list[str]) -> list[str]:
        assert old in lines[line - 1], lines[line - 1]
        changed = lines[line - 1].replace(old, new, 1)
        return [*lines[: line - 1], changed, *lines[line:]]

    return edit


def cell(line: int, column: int, value: str) -> Edit:
    """The lines with one cell of a CSV line replaced."""

    def edit(lines: list[str]) -> list[str]:
        cells = lines[line - 1].split(",")
        cells[column] = value
        return [*lines[: line - 1], ",".join(cells), *lines[line:]]

    return edit


def at(line: int, first: int, text: str) -> Edit:
    """The lines with the columns of one line from `first`, counted from 1, overwritten."""

    def edit(lines: list[str]) -> list[str]:
        old = lines[line - 1]
        return [*lines[: line - 1], old[: first - 1] + text + old[first - 1 + len(text) :], *lines[line:]]

    return edit


def flipped(line: int, column: int) -> Edit:
    """The lines with one digit replaced by the next."""

    def edit(lines: list[str]) -> list[str]:
        return at(line, column, str((int(lines[line - 1][column - 1]) + 1) % 10))(lines)

    return edit


def emptied(_: list[str]) -> list[str]:
    return []


@dataclass(frozen=True)
class Spoilt:
    """An edit of each file, and parts of what the run must say of it."""

    csv: Edit
    csv_said: tuple[str, ...]
    tle: Edit
    tle_said: tuple[str, ...]


CASES = {
    "a NaN, and a flipped digit": Spoilt(
        cell(8, 5, "nan"),
        ("row 7 (line 8), column", "'nan'", "allowed is a decimal number", "missing values are not part"),
        flipped(5, 20),
        ("line 5, column 69 (checksum)", "a character of this line was changed"),
    ),
    "an empty file, and one cut off": Spoilt(
        emptied,
        ("an empty file", "a file with data"),
        lambda lines: lines[:-1],
        ("(the last)", "2 of the 3 lines of an element set"),
    ),
    "a renamed column, and a NaN": Spoilt(
        replaced(1, "inclination_deg", "inclination"),
        ("line 1 (header)", "'inclination'", "'inclination_deg' renamed", "exactly these columns"),
        at(6, 9, "     NaN"),
        ("line 6, columns 9-16 (inclination)", "'     NaN'", "an angle"),
    ),
}


def spoil(path: Path, edit: Edit) -> None:
    lines = path.read_text(encoding="utf-8").split("\n")
    last = [""] if lines[-1] == "" else []
    changed = edit(lines[: len(lines) - len(last)])
    path.write_text("\n".join([*changed, *last]) if changed else "", encoding="utf-8", newline="\n")


def said_of(ended: Ended, address: str) -> str:
    """The one line of the summary that says why a stage failed."""
    (line,) = [line for line in ended.errors if line.startswith(f"error: {address}: ")]
    return line


def test_spoilt_files_are_refused_where_they_are_spoilt(
    done: Copy, by_flow: First, server: dict[str, str], subtests: pytest.Subtests
) -> None:
    good = {name: (done.root / name).read_bytes() for name in READERS.values()}
    kept = {name: sha256_file(done.root / name) for name in ("dvc.lock", "params.yaml")}
    for title, spoilt in CASES.items():
        with subtests.test(title):
            for name, edit in ((CSV, spoilt.csv), (TLE, spoilt.tle)):
                (done.root / name).write_bytes(good[name])
                spoil(done.root / name, edit)
            done.forget_notes()
            ended = done.run_graph(**server)
            assert ended.code == 1, ended.text
            assert "Traceback" not in ended.text
            for (address, name), parts in zip(READERS.items(), (spoilt.csv_said, spoilt.tle_said), strict=True):
                line = said_of(ended, address)
                assert all(part in line for part in (name, f"git checkout -- {name}", *parts)), line
            # the readers alone were started: what they feed was not, and nothing of it was touched
            assert set(done.stages_started()) == set(READERS)
            outcomes = done.outcomes()
            assert {address for address, outcome in outcomes.items() if outcome == "failed"} == set(READERS)
            # what has nothing to do with them stands
            others = {address for address in outcomes if address.partition("@")[2].startswith(OTHERS)}
            assert {outcomes[address] for address in others} == {"cached"}
            assert {outcomes[address] for address in outcomes if address not in {*READERS, *others}} == {"not run"}
            assert differences(done.outputs(), by_flow.outputs) == []
            assert {name: sha256_file(done.root / name) for name in kept} == kept
    for name, content in good.items():
        (done.root / name).write_bytes(content)
    ended = done.run_graph(**server)
    assert ended.code == 0, ended.text
    assert set(done.outcomes().values()) == {"cached"}


@pytest.mark.parametrize(
    ("edit", "parts"),
    [
        (cell(12, 4, "nan"), ("line 12", "nan")),
        (replaced(1, "perigee_km", "perigee"), ("line 1", "'perigee' in place of column 'perigee_km'")),
    ],
    ids=["NaN", "renamed column"],
)
def test_a_spoilt_table_is_refused_by_the_gate(done: Copy, by_flow: First, edit: Edit, parts: tuple[str, ...]) -> None:
    table = "data/prepared/orbital-sample/table.csv"
    spoil(done.root / table, edit)
    ended = done.quintet("stage", "gate_data@orbital-sample")
    assert ended.code == 1, ended.text
    (line,) = ended.errors
    assert all(part in line for part in (table, "quintet run", *parts)), line
    assert "Traceback" not in ended.text
    verdict = read_json(done.root / "run_info" / "gates" / "gate_data@orbital-sample.json")
    assert verdict["verdict"] == "refused"
    # only what we spoilt ourselves is different
    assert differences(done.outputs(), by_flow.outputs) == [table]
