"""CSV files and catalogue facts: each trap of lenient readers is refused, with its place."""

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.datasets.core.strict_csv import Decimal, FieldError, Integer, Pattern, Word, read_rows
from components.datasets.orbital.satcat import FACTS_COLUMNS, read_facts
from components.errors import DataError
from tests.datasets.checkouts import SAMPLES, excluding

HEADER = ",".join(FACTS_COLUMNS)
VANGUARD = "11,VANGUARD 2,PAYLOAD,1959-001,121.49,32.88,553,2942,0.1470039,11.85282739"
DEBRIS = '12,"PIECE, ""A"" DEB",DEBRIS,1959-001,121.49,32.88,553,2942,0.1470039,11.85282739'
COLUMNS = {"number": Integer(0, 99), "value": Decimal(-1.0, 1.0), "word": Word(("a", "b"))}


def facts(path: Path, *lines: str, header: str = HEADER, encoding: str = "utf-8") -> Path:
    path.write_bytes("".join(f"{line}\n" for line in (header, *lines)).encode(encoding))
    return path


def test_facts_become_the_common_table(tmp_path: Path) -> None:
    table = read_facts([facts(tmp_path / "a.csv", DEBRIS, VANGUARD)], excluding())
    assert table.loc[:, ["norad_id", "name", "kind", "launch", "regime"]].values.tolist() == [
        [11, "VANGUARD 2", "PAYLOAD", "1959-001", "LEO"],
        [12, 'PIECE, "A" DEB', "DEBRIS", "1959-001", "LEO"],
    ]
    assert table.loc[0, "semi_major_axis_km"] == 8125.637
    assert table.loc[0, "eccentricity"] == 0.1470039
    assert read_facts([tmp_path / "a.csv"], excluding({11: "left out"}))["norad_id"].tolist() == [12]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        pytest.param("121.49", "NA", "column period_min: got 'NA'.*missing values are not part", id="NA"),
        pytest.param("121.49", "nan", "column period_min: got 'nan'.*missing values are not part", id="NaN"),
        pytest.param("121.49", "", "column period_min: got ''.*missing values are not part", id="nothing"),
        pytest.param("121.49", "inf", "column period_min: got 'inf', allowed is a decimal number", id="infinity"),
        pytest.param("2942", '"2,942"', "column apogee_km: got '2,942'.*without thousands separators", id="thousands"),
        pytest.param("2942", "2,942", "got 11 fields, allowed is 10 fields", id="unquoted thousands"),
        pytest.param("32.88", " 32.88", "column inclination_deg: got ' 32.88'", id="blank before a number"),
        pytest.param("32.88", "1e999", "column inclination_deg: got '1e999'", id="overflow"),
        pytest.param("32.88", "\u0663\u0662", "column inclination_deg: got '\u0663\u0662'", id="Arabic digits"),
        pytest.param("32.88", "-0.01", "column inclination_deg: got '-0.01', allowed is .* from 0 to 180", id="range"),
        pytest.param("11,V", "011,V", "column norad_id: got '011', allowed is a whole number", id="leading zero"),
        pytest.param("11,V", "11.0,V", "column norad_id: got '11.0'", id="decimal identifier"),
        pytest.param("11,V", "340000,V", "column norad_id: got '340000'.* from 1 to 339999", id="identifier too large"),
        pytest.param("PAYLOAD", "payload", "column kind: got 'payload', allowed is one of 'PAYLOAD'", id="class"),
        pytest.param("PAYLOAD", "DEBRIS", "column kind: got 'DEBRIS', allowed is 'PAYLOAD', as the name", id="kind"),
        pytest.param("1959-001", "59-001", "column launch: got '59-001', allowed is a launch such as", id="launch"),
        pytest.param("VANGUARD 2", "VANGUARD 2 ", "column name: got 'VANGUARD 2 '", id="blank after a name"),
        pytest.param("553", "3000", "column perigee_km: got 3000, allowed is no more than the apogee", id="perigee"),
        pytest.param(
            "121.49", "122.49", "column period_min: got 122.49, allowed is 121.49, which perigee", id="Kepler"
        ),
        pytest.param(
            "0.1470039", "0.1470049", "column eccentricity: got 0.1470049.*follows from the facts", id="derived"
        ),
        pytest.param(
            "11.85282739", "11.85282740", "column mean_motion_rev_day.*follows from the facts", id="derived n"
        ),
        pytest.param(",32.88", "", "got 9 fields, allowed is 10 fields", id="field lost"),
        pytest.param("32.88", "32.88,", "got 11 fields, allowed is 10 fields", id="field too many"),
        pytest.param("VANGUARD 2", "VANGUARD\0002", r"line 3, column 12: got a NUL byte", id="NUL"),
        pytest.param("VANGUARD 2", '"VANGUARD" 2', r"line 3: got text that is not CSV", id="quotes"),
        pytest.param(VANGUARD, "", "got a blank line", id="blank line"),
    ],
)
def test_faults_are_named_by_row_line_and_column(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in VANGUARD
    path = facts(tmp_path / "a.csv", DEBRIS, VANGUARD.replace(old, new, 1))
    with pytest.raises(DataError, match=told) as caught:
        read_facts([path], excluding())
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "line 3" in message
    assert "correct it there or restore the file" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("header", "told"),
    [
        (HEADER.replace("period_min", "period"), r"got column 'period' \(perhaps 'period_min' renamed\)"),
        (HEADER.removesuffix(",mean_motion_rev_day"), "got no column 'mean_motion_rev_day'"),
        (HEADER + ",extra", "got column 'extra'"),
        (HEADER.replace("norad_id,name", "name,norad_id"), "got the columns name, norad_id"),
        ("," + HEADER, "got column ''"),
        (HEADER.replace(",", ";"), "got column "),
    ],
)
def test_headers_must_be_exact(tmp_path: Path, header: str, told: str) -> None:
    path = facts(tmp_path / "a.csv", VANGUARD, header=header)
    with pytest.raises(DataError, match=rf"line 1 \(header\): {told}.*exactly these columns in this order: norad_id"):
        read_facts([path], excluding())


def test_an_extra_column_on_every_row_never_becomes_an_index(tmp_path: Path) -> None:
    path = facts(tmp_path / "a.csv", VANGUARD + ",0", DEBRIS + ",0")
    # the general reader makes an index of the first column and shifts all others: why it is not used
    assert pd.read_csv(path)["norad_id"].tolist() == ["VANGUARD 2", 'PIECE, "A" DEB']
    with pytest.raises(DataError, match=r"row 1 \(line 2\): got 11 fields"):
        read_facts([path], excluding())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "got an empty file"),
        (b"\n\n", "got an empty file"),
        (HEADER.encode() + b"\n", "line 2: got no rows after the header"),
        (b"\xef\xbb\xbf" + HEADER.encode(), "line 1, column 1: got a byte order mark"),
        (f"{HEADER}\n{VANGUARD}\n".encode("utf-16"), "got byte 0x|got a NUL byte"),
        (
            f"{HEADER}\n{VANGUARD}\n".replace("VANGUARD", "VAN\u00c9").encode("latin-1"),
            "line 2, column 7: got byte 0xc9",
        ),
    ],
)
def test_files_that_are_no_table(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=told):
        read_facts([path], excluding())


def test_absent_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read_facts([tmp_path / "a.csv"], excluding())
    with pytest.raises(DataError, match="is a folder"):
        read_facts([tmp_path], excluding())


def test_an_object_comes_once_over_all_files(tmp_path: Path) -> None:
    first, second = facts(tmp_path / "a.csv", VANGUARD), facts(tmp_path / "b.csv", DEBRIS, VANGUARD)
    again = r"row 2 \(line 3\), column norad_id: got 11 again \(first in a\.csv, row 1 \(line 2\)\)"
    with pytest.raises(DataError, match=again):
        read_facts([first, second], excluding())


def test_line_numbers_hold_after_a_quoted_line_end(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('number,value,word\n1,0.5,"a"\n2,0.5,"x\ny"\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"row 2 \(line 3\), column word"):
        list(read_rows(path, COLUMNS))
    path.write_text('number,value,text\n1,0.5,"x\ny"\n2,9.5,z\n', encoding="utf-8")
    columns = {"number": Integer(0, 99), "value": Decimal(-1.0, 1.0), "text": Pattern(r"(?s).*", "text")}
    with pytest.raises(DataError, match=r"row 2 \(line 4\), column value"):
        list(read_rows(path, columns))


@given(st.integers())
def test_integers_are_taken_exactly_within_their_range(number: int) -> None:
    rule = Integer(-1000, 1000)
    if -1000 <= number <= 1000:
        assert rule(str(number)) == number
    else:
        with pytest.raises(FieldError):
            rule(str(number))


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_decimals_read_back_to_the_same_float(number: float) -> None:
    rule = Decimal(-1e6, 1e6)
    if abs(number) <= 1e6:
        assert rule(repr(number)) == number
    else:
        with pytest.raises(FieldError):
            rule(repr(number))


@given(st.text(max_size=12))
def test_arbitrary_text_is_a_plain_number_or_refused(text: str) -> None:
    try:
        value = Decimal(-1e300, 1e300)(text)
    except FieldError:
        return
    assert text.isascii()
    assert text.strip() == text
    assert value == float(text)
    assert "_" not in text


@pytest.mark.parametrize("place", [0, 1, 2999, 5999])
def test_a_spoilt_sample_is_located_in_its_row(tmp_path: Path, place: int) -> None:
    lines = (SAMPLES / "satcat_2016_sample.csv").read_text(encoding="utf-8").splitlines()
    fields = lines[place + 1].split(",")
    fields[-4] = "nan"
    lines[place + 1] = ",".join(fields)
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=rf"row {place + 1} \(line {place + 2}\), column perigee_km: got 'nan'"):
        read_facts([path], excluding())
