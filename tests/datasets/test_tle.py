"""Element sets: golden cases from the literature, and every way in which a general parser is fooled."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.datasets.orbital.tle import (
    ALPHA5_LETTERS,
    ElementSet,
    TleError,
    catalogue_number,
    checksum,
    parse_element_set,
)
from components.datasets.orbital.tle_table import read_catalogue, read_element_sets
from components.errors import DataError
from tests.datasets.checkouts import CONTENT, STATION, VANGUARD, excluding, three_line_text

BLANK_DESIGNATOR = (
    "1 81036U          22021.73850566 +.00002568 +00000+0 +41609-2 0  9997",
    "2 81036  65.9835 223.3318 2742071 153.1844 224.2069  9.15026170271654",
)
# Element lines and where their fields lie, 1-based: shared by the cases below.
DIGITS = [(line, at) for line in (0, 1) for at, character in enumerate(STATION[line]) if character.isdigit()]


def with_checksum(line: str) -> str:
    """`line` with the checksum that its columns 1 to 68 ask for: faults other than the sum then stand alone."""
    return line[:68] + str(checksum(line))


def put(line: str, first: int, text: str) -> str:
    """`line` with `text` from column `first`, and the checksum that belongs to it."""
    return with_checksum(line[: first - 1] + text + line[first - 1 + len(text) :])


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_the_published_element_set_is_read_to_its_last_digit() -> None:
    assert parse_element_set(*VANGUARD, "VANGUARD 1") == ElementSet(
        norad_id=5,
        name="VANGUARD 1",
        launch="1958-002",
        epoch=(2000, 179.78495062),
        inclination_deg=34.2682,
        ascending_node_deg=348.7242,
        eccentricity=0.1859667,
        argument_of_perigee_deg=331.7664,
        mean_anomaly_deg=19.3264,
        mean_motion_rev_day=10.82419157,
    )
    station = parse_element_set(*STATION)
    assert (station.norad_id, station.launch, station.epoch) == (25544, "1998-067", (2008, 264.51782528))


def test_checksum_counts_minus_signs_as_one() -> None:
    assert checksum(STATION[0]) == 7
    assert checksum("1-A.+ " + " " * 62) == 2


@given(place=st.sampled_from(DIGITS), step=st.integers(1, 9))
def test_any_flipped_digit_is_refused(place: tuple[int, int], step: int) -> None:
    line, at = place
    lines = list(STATION)
    flipped = str((int(lines[line][at]) + step) % 10)
    lines[line] = lines[line][:at] + flipped + lines[line][at + 1 :]
    with pytest.raises(TleError):
        parse_element_set(lines[0], lines[1])


@given(st.integers(0, 1), st.integers(0, 68), st.characters(codec="utf-8", exclude_categories=("Nd",)))
def test_any_character_put_in_place_of_a_digit_is_refused(line: int, at: int, character: str) -> None:
    lines = list(VANGUARD)
    # a minus counts one in the checksum and a plus like a blank counts nothing, so signs are a form of their own
    if not lines[line][at].isdigit() or character in " -+":
        return
    lines[line] = lines[line][:at] + character + lines[line][at + 1 :]
    with pytest.raises(TleError):
        parse_element_set(lines[0], lines[1])


@given(st.integers(1, 339999))
def test_alpha5_numbers_round_trip(number: int) -> None:
    head, rest = divmod(number, 10000)
    text = f"{number:05d}" if head < 10 else f"{ALPHA5_LETTERS[head - 10]}{rest:04d}"
    assert catalogue_number(text) == number
    lines = [put(line, 3, text) for line in STATION]
    assert parse_element_set(lines[0], lines[1]).norad_id == number


def test_alpha5_against_published_pairs() -> None:
    pairs = {"A0000": 100000, "E8493": 148493, "H9999": 179999, "J2931": 182931, "P4018": 234018, "Z9999": 339999}
    assert {text: catalogue_number(text) for text in pairs} == pairs


@pytest.mark.parametrize(("year", "epoch"), [("57", 1957), ("99", 1999), ("00", 2000), ("56", 2056)])
def test_epoch_years_pivot_at_57(year: str, epoch: int) -> None:
    assert parse_element_set(put(STATION[0], 19, year), STATION[1], propagate=False).epoch[0] == epoch


@pytest.mark.parametrize(
    ("line", "first", "text", "place", "allowed"),
    [
        pytest.param(1, 3, "I5544", "columns 3-7 (catalogue number)", "without I and O", id="letter I"),
        pytest.param(1, 3, "O5544", "columns 3-7 (catalogue number)", "without I and O", id="letter O"),
        pytest.param(1, 3, "00000", "columns 3-7 (catalogue number)", "1 or more", id="number zero"),
        pytest.param(2, 3, "25545", "columns 3-7 (catalogue number)", "'25544', as in line 1", id="other object"),
        pytest.param(1, 8, "X", "column 8 (classification)", "U, C or S", id="classification"),
        pytest.param(1, 10, "9806A7  ", "columns 10-17 (international designator)", "a designator", id="designator"),
        pytest.param(
            1, 21, "000.51782528", "columns 21-32 (epoch day)", "a day from 1 to 366 of the year 2008", id="day 0"
        ),
        pytest.param(1, 21, "367.00000000", "columns 21-32 (epoch day)", "1 to 366 of the year 2008", id="day 367"),
        pytest.param(
            1, 19, "07366.00000000", "columns 21-32 (epoch day)", "1 to 365 of the year 2007", id="no leap year"
        ),
        pytest.param(1, 21, "400.51782528", "columns 21-32 (epoch day)", "1 to 366", id="day 400"),
        pytest.param(1, 63, "4", "column 63 (ephemeris type)", "another theory", id="SGP4-XP"),
        pytest.param(1, 34, "-.0000218x", "columns 34-43 (first derivative)", "a decimal", id="letter in a number"),
        pytest.param(2, 9, "180.0001", "columns 9-16 (inclination)", "0 to 180 degrees", id="inclination"),
        pytest.param(2, 18, "360.0001", "columns 18-25 (right ascension of the node)", "0 to 360 degrees", id="node"),
        pytest.param(2, 35, "999.5360", "columns 35-42 (argument of perigee)", "0 to 360 degrees", id="perigee"),
        pytest.param(2, 44, "361.0288", "columns 44-51 (mean anomaly)", "0 to 360 degrees", id="anomaly"),
        pytest.param(2, 27, "000 703", "columns 27-33 (eccentricity)", "seven digits", id="blank in eccentricity"),
        pytest.param(2, 53, " 0.00000001", "columns 53-63 (mean motion)", "0.0144 to 18.0 rev/day", id="slow"),
        pytest.param(2, 53, "18.10000000", "columns 53-63 (mean motion)", "0.0144 to 18.0 rev/day", id="fast"),
        pytest.param(2, 8, "0", "column 8 (blank)", "a blank", id="shifted"),
    ],
)
def test_faults_are_named_by_line_and_column(line: int, first: int, text: str, place: str, allowed: str) -> None:
    lines = list(STATION)
    lines[line - 1] = put(lines[line - 1], first, text)
    with pytest.raises(TleError) as caught:
        parse_element_set(lines[0], lines[1])
    assert caught.value.line == line
    assert caught.value.place == place
    assert allowed in caught.value.allowed


@pytest.mark.parametrize("day", ["366.99999999", "001.00000000"])
def test_first_and_last_moment_of_a_leap_year_are_taken(day: str) -> None:
    assert parse_element_set(put(STATION[0], 21, day), STATION[1], propagate=False).epoch == (2008, float(day))


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        pytest.param((STATION[1], STATION[0]), "column 1 (line number): got '2', allowed is '1'", id="swapped"),
        pytest.param((STATION[0], STATION[0]), "line 2, column 1 (line number): got '1'", id="line 1 twice"),
        pytest.param((STATION[0][:-1], STATION[1]), "column 69: got a line of 68 columns", id="no checksum"),
        pytest.param((STATION[0] + " ", STATION[1]), "column 70: got a line of 70 columns", id="a column too many"),
        pytest.param((STATION[0][:40], STATION[1]), "column 41: got a line of 40 columns", id="truncated"),
        pytest.param(("\ufeff" + STATION[0], STATION[1]), "column 1: got character '\\ufeff'", id="byte order mark"),
        pytest.param(
            (STATION[0].replace("U", "\u00dc"), STATION[1]), "column 8: got character '\\xdc'", id="not ASCII"
        ),
        pytest.param((STATION[0].replace("  ", "\t ", 1), STATION[1]), "got character '\\t'", id="tab"),
        pytest.param(("", STATION[1]), "column 1 (line number): got ''", id="empty"),
    ],
)
def test_broken_lines_are_refused(lines: tuple[str, str], told: str) -> None:
    with pytest.raises(TleError) as caught:
        parse_element_set(*lines)
    assert told in str(caught.value)


def test_lines_without_checksum_are_taken_where_asked_for() -> None:
    short = (VANGUARD[0][:68], VANGUARD[1][:68])
    assert parse_element_set(*short, legacy=True) == parse_element_set(*VANGUARD)
    with pytest.raises(TleError, match="69 columns"):
        parse_element_set(*short)
    # a checksum that is there is checked in that mode too
    with pytest.raises(TleError, match="checksum"):
        parse_element_set(VANGUARD[0][:68] + "4", VANGUARD[1], legacy=True)


def test_elements_that_sgp4_cannot_propagate_are_refused_with_its_reason() -> None:
    deep = put(put(STATION[1], 27, "9884983"), 53, " 0.01958082")
    with pytest.raises(TleError, match=r"SGP4 refuses at epoch: .*eccentricity"):
        parse_element_set(STATION[0], deep)


def test_numbers_padded_with_blanks_and_blank_designators_are_forms_in_use() -> None:
    padded = tuple(put(line, 3, "   20") for line in STATION)
    assert parse_element_set(padded[0], padded[1]).norad_id == 20
    assert parse_element_set(*BLANK_DESIGNATOR).launch == "unknown-81036"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("prefix", ["0 ", ""])
def test_three_line_files(tmp_path: Path, end: str, prefix: str) -> None:
    text = end.join([f"{prefix}VANGUARD 1", *VANGUARD, f"{prefix}ISS (ZARYA)           ", *STATION, ""])
    sets = list(read_element_sets(write(tmp_path / "a.tle", text)))
    assert [(placed.line, placed.elements.name) for placed in sets] == [(2, "VANGUARD 1"), (5, "ISS (ZARYA)")]


def test_two_line_files_have_no_names_and_so_no_kinds(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tle", "\n".join([*VANGUARD, *STATION]))
    assert [placed.elements.norad_id for placed in read_element_sets(path)] == [5, 25544]
    with pytest.raises(
        DataError, match=r"line 1: got the two-line form, which has no names, allowed is the three-line"
    ):
        read_catalogue([path], excluding())


def test_gzip_files_and_broken_ones(tmp_path: Path) -> None:
    whole = gzip.compress(CONTENT)
    assert len(list(read_element_sets(write(tmp_path / "a.3le.gz", whole)))) == 2
    for name, content, told in (
        ("short", whole[:-12], "a broken archive"),
        ("flipped", whole[:40] + bytes([whole[40] ^ 1]) + whole[41:], "a broken archive"),
        ("page", b"<!DOCTYPE html><html></html>", "an HTML page came in place of the file"),
        ("empty", b"", "got an empty file"),
    ):
        with pytest.raises(DataError, match=told):
            list(read_element_sets(write(tmp_path / f"{name}.3le.gz", content)))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("", "got an empty file", id="empty"),
        pytest.param("\n \n", "got an empty file", id="blank"),
        pytest.param(b"\xef\xbb\xbf" + CONTENT, "line 1, column 1: got a byte order mark", id="byte order mark"),
        pytest.param(
            CONTENT.replace(b"ISS", b"\xc9SS"), "line 4, column 3: got byte 0xc9, allowed is ascii", id="latin-1"
        ),
        pytest.param(CONTENT.replace(b"ISS", b"I\0S"), "line 4, column 4: got a NUL byte", id="NUL"),
        pytest.param(CONTENT.replace(b"\n0 ISS", b"\n\n0 ISS"), "line 4: got a blank line", id="blank line"),
        pytest.param(CONTENT[:-70], r"line 5 \(the last\): got 2 of the 3 lines", id="last line lost"),
        pytest.param(CONTENT.replace(b"0 ISS (ZARYA)\n", b""), "line 4, column 1: got an element line", id="name lost"),
        pytest.param(CONTENT.replace(b"0 ISS (ZARYA)", b"0   "), r"line 4 \(name\): got '0   '", id="name blank"),
        pytest.param(CONTENT.replace(b"130.5360", b"130.5370"), r"line 6, column 69 \(checksum\): got '7'", id="digit"),
        pytest.param(CONTENT.replace(b"\n", b"\r"), "line 1: got a carriage return", id="old Macintosh line ends"),
        pytest.param(CONTENT.replace(b"51.6416", b"nan     "), r"line 6, column 70", id="NaN"),
    ],
)
def test_faults_of_a_file_are_located(tmp_path: Path, text: str | bytes, told: str) -> None:
    path = write(tmp_path / "a.tle", text)
    with pytest.raises(DataError, match=told) as caught:
        list(read_element_sets(path))
    message = str(caught.value)
    assert message.startswith(str(path))
    assert message.endswith("correct it there or restore the file")
    assert "\n" not in message


def test_epochs_of_one_object_must_rise(tmp_path: Path) -> None:
    later = (put(STATION[0], 21, "265.00000000"), STATION[1])
    rising = write(tmp_path / "a.tle", three_line_text(("ISS", STATION), ("ISS", later)))
    assert len(list(read_element_sets(rising))) == 2
    assert read_catalogue([rising], excluding())["norad_id"].tolist() == [25544]
    for second in (STATION, later):
        path = write(tmp_path / "b.tle", three_line_text(("ISS", later), ("ISS", second)))
        with pytest.raises(
            DataError, match=r"line 5, columns 19-32 \(epoch\): got epoch .* one after .* which line 2 has"
        ):
            list(read_element_sets(path))


def test_the_table_takes_the_latest_set_of_each_object_over_all_files(tmp_path: Path) -> None:
    later = (put(STATION[0], 21, "265.00000000"), put(STATION[1], 9, " 51.6500"))
    first = write(tmp_path / "a.tle", three_line_text(("ISS", later)))
    second = write(tmp_path / "b.tle", three_line_text(("ISS", STATION), ("VANGUARD 1 DEB", VANGUARD)))
    table = read_catalogue([first, second], excluding())
    assert table["norad_id"].tolist() == [5, 25544]
    assert table["inclination_deg"].tolist() == [34.2682, 51.65]
    assert table["kind"].tolist() == ["DEBRIS", "PAYLOAD"]


def test_only_named_objects_are_left_out(tmp_path: Path) -> None:
    deep = (STATION[0], put(put(STATION[1], 27, "9884983"), 53, " 0.01958082"))
    path = write(tmp_path / "a.tle", three_line_text(("FAR", deep), ("VANGUARD 1", VANGUARD)))
    with pytest.raises(DataError, match=r"lines 2-3, all columns: got elements that SGP4 refuses"):
        read_catalogue([path], excluding())
    assert read_catalogue([path], excluding({25544: "far"}))["norad_id"].tolist() == [5]


def test_a_perigee_inside_the_earth_is_refused_with_its_columns(tmp_path: Path) -> None:
    sunk = (STATION[0], put(STATION[1], 27, "0560000"))
    with pytest.raises(DataError, match=r"line 3, columns 27-63 \(eccentricity and mean motion\): got perigee_km -"):
        read_catalogue([write(tmp_path / "a.tle", three_line_text(("ISS", sunk)))], excluding())
