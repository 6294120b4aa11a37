"""PreviSat's two forms, on lines of the published file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from components.datasets.orbital.previsat import CSV_COLUMNS, TEXT_HEADER, read_csv, read_text
from components.errors import DataError
from tests.datasets.checkouts import excluding

TEXT_LINES = (
    TEXT_HEADER,
    "00001 1957-001A     0.0  0.0  0.0 99.0 v   0.00 1957/10/04 1957/12/01      96.19     214     938  65.10 LEO/I  CIS"
    "   TTMTR SL-1 R/B",
    "00005 1958-002B     0.2  0.0  0.0 11.0 v   0.12 1958/03/17                132.75     650    3834  34.25 MEO    US "
    "   AFETR VANGUARD 1",
    "00287 1962-014A     0.0  0.0  0.0 99.0 v   0.00 1962/04/26                 90.60     185     205  65.00 LEO/I  CIS"
    "   TTMTR COSMOS 4 (SPUTNIK 14)",
    "40914               0.0  0.0  0.0 99.0 v   0.00",
)
CSV_LINES = (
    ",".join(CSV_COLUMNS),
    "00001,1957-001A,0.0,0.0,0.0,99.0,0.0,1957/10/04,1957/12/01,96.19,214.0,938.0,65.1,LEO/I,CIS,TTMTR,SL-1 R/B,LEO,"
    "6954.137,0.052055,14.97037114,ROCKET BODY,True",
    "00005,1958-002B,0.2,0.0,0.0,11.0,0.12,1958/03/17,,132.75,650.0,3834.0,34.25,MEO,US,AFETR,VANGUARD 1,MEO,"
    "8620.137,0.184684,10.84745763,PAYLOAD/OTHER,False",
    "27815,2002-042H,0.0,0.0,0.0,99.0,0.0,2002/09/10,,0.0,0.0,0.0,0.0,,JPN,TNSTA,USERS (REENTRY MODULE),LEO,"
    "6378.137,0.0,inf,PAYLOAD/OTHER,False",
)
EXCLUDED = {287: "contradicts itself", 27815: "no elements"}


def write(path: Path, lines: tuple[str, ...], old: str = "", new: str = "") -> Path:
    text = "\n".join(lines) + "\n"
    assert old in text
    path.write_text(text.replace(old, new, 1) if old else text, encoding="utf-8")
    return path


def test_both_forms_give_the_same_row(tmp_path: Path) -> None:
    from_text = read_text([write(tmp_path / "donnees.sat", TEXT_LINES)], excluding(EXCLUDED))
    from_csv = read_csv([write(tmp_path / "a.csv", CSV_LINES)], excluding(EXCLUDED))
    assert from_text.equals(from_csv)
    row = from_text.iloc[0].to_dict()
    assert (row["norad_id"], row["name"], row["kind"], row["launch"]) == (5, "VANGUARD 1", "PAYLOAD", "1958-002")
    assert (row["period_min"], row["perigee_km"], row["apogee_km"], row["regime"]) == (132.75, 650.0, 3834.0, "MEO")


@pytest.mark.parametrize(
    ("read", "lines", "old", "new", "told"),
    [
        pytest.param(read_text, TEXT_LINES, "periode", "period ", r"line 1 \(header\)", id="header"),
        pytest.param(read_text, TEXT_LINES, "132.75", "13x.75", r"line 3, columns 70 to 80 \(period\)", id="letter"),
        pytest.param(read_text, TEXT_LINES, "00005 ", "00005  ", r"line 3, columns", id="shifted line"),
        pytest.param(
            read_text, TEXT_LINES, "VANGUARD 1", "", r"line 3, columns 124 to 200 \(name\): got no name", id="name"
        ),
        pytest.param(read_text, TEXT_LINES, "00001 ", "00005 ", r"column norad_id: got 5 again", id="repeated"),
        pytest.param(read_text, TEXT_LINES, "3834", "3843", "", id="within the tolerance of Kepler's law"),
        pytest.param(
            read_text, TEXT_LINES, "3834", "4834", r"row 2 \(line 3\), column period_min: got 132.75", id="Kepler"
        ),
        pytest.param(read_csv, CSV_LINES, "0.184684", "0.184694", r"column ecc: got 0.184694", id="eccentricity"),
        pytest.param(read_csv, CSV_LINES, "8620.137", "8620.237", "column sma_km", id="axis"),
        pytest.param(read_csv, CSV_LINES, "10.84745763", "inf", "column mean_motion: got 'inf'", id="mean motion"),
        pytest.param(read_csv, CSV_LINES, "VANGUARD 1,MEO", "VANGUARD 1,LEO", "column regime: got 'LEO'", id="regime"),
        pytest.param(read_csv, CSV_LINES, "PAYLOAD/OTHER", "DEBRIS", "column object_type: got 'DEBRIS'", id="kind"),
        pytest.param(read_csv, CSV_LINES, "R/B,LEO", "R/B,LEO ", "column regime: got 'LEO '", id="decayed rows too"),
        pytest.param(read_csv, CSV_LINES, "BODY,True", "BODY,False", "column decayed: got 'False'", id="decayed"),
    ],
)
def test_faults_are_located(
    tmp_path: Path, read: Callable[..., object], lines: tuple[str, ...], old: str, new: str, told: str
) -> None:
    path = write(tmp_path / "a.txt", lines, old, new)
    if not told:
        read([path], excluding(EXCLUDED))
        return
    with pytest.raises(DataError, match=told):
        read([path], excluding(EXCLUDED))


def test_unusable_rows_are_refused_unless_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"row 3 \(line 4\), column period_min: got 0, allowed is 80 to 100000 min"):
        read_csv([write(tmp_path / "a.csv", CSV_LINES)], excluding())
    with pytest.raises(DataError, match=r"line 2: got no rows"):
        read_text([write(tmp_path / "a.sat", TEXT_LINES[:1])], excluding())
