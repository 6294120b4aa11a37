"""Strict reader of element sets: two lines of 69 columns each, by the form that the tracking network publishes.

General parsers take almost anything: a wrong checksum, a changed digit, two lines of different objects, day 400. Here
every column is checked before anything is computed, and the error names line and column. Columns are counted from 1.

    line 1:  1 NNNNNC YYLLLPPP YYDDD.DDDDDDDD +.DDDDDDDD +DDDDD-D +DDDDD-D E SSSSC
    line 2:  2 NNNNN III.IIII RRR.RRRR EEEEEEE AAA.AAAA MMM.MMMM NN.NNNNNNNNRRRRRC

Source: Hoots and Roehrich, Spacetrack Report No. 3; Vallado et al., Revisiting Spacetrack Report #3 (AIAA 2006-6753).
"""

import calendar
import math
import re
from dataclasses import dataclass

from sgp4.api import SGP4_ERRORS, Satrec

from components.datasets.orbital.table import full_year, launch_of

LINE_LENGTH = 69
LEGACY_LENGTH = 68

# Alpha-5 numbers: the first of five characters counts tens of thousands; I and O are left out, being like 1 and 0.
ALPHA5_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"

_ID = (
    r" {0,4}\d{1,5}|[A-HJ-NP-Z]\d{4}",
    "a catalogue number: five digits, or a letter without I and O and four digits",
)
_BLANK = (r" ", "a blank")
_ANGLE = (r" {0,2}\d{1,3}\.\d{4}", "an angle such as 123.4567")
_EXPONENT = (r"[ +-]\d{5}[+-]\d", "a decimal with power of ten such as ' 12345-3'")


@dataclass(frozen=True)
class Span:
    """A run of columns, first and last counted from 1, with the form of its text."""

    name: str
    first: int
    last: int
    form: str
    rule: str

    @property
    def place(self) -> str:
        columns = f"column {self.first}" if self.first == self.last else f"columns {self.first}-{self.last}"
        return f"{columns} ({self.name})"


_LINE_1 = (
    Span("line number", 1, 1, r"1", "'1'"),
    Span("blank", 2, 2, *_BLANK),
    Span("catalogue number", 3, 7, *_ID),
    Span("classification", 8, 8, r"[UCS]", "U, C or S"),
    Span("blank", 9, 9, *_BLANK),
    Span("international designator", 10, 17, r"\d{5}[A-Z]{0,3} {0,3}| {8}", "a designator such as 99025AB, or blanks"),
    Span("blank", 18, 18, *_BLANK),
    Span("epoch year", 19, 20, r"\d\d", "two digits"),
    Span("epoch day", 21, 32, r"\d{3}\.\d{8}", "a day of the year such as 001.50000000"),
    Span("blank", 33, 33, *_BLANK),
    Span("first derivative", 34, 43, r"[ +-]\.\d{8}", "a decimal such as -.00000123"),
    Span("blank", 44, 44, *_BLANK),
    Span("second derivative", 45, 52, *_EXPONENT),
    Span("blank", 53, 53, *_BLANK),
    Span("drag term", 54, 61, *_EXPONENT),
    Span("blank", 62, 62, *_BLANK),
    Span("ephemeris type", 63, 63, r"[0-9]", "a digit"),
    Span("blank", 64, 64, *_BLANK),
    Span("element set number", 65, 68, r" {0,3}\d{1,4}", "a number of up to four digits"),
)

_LINE_2 = (
    Span("line number", 1, 1, r"2", "'2'"),
    Span("blank", 2, 2, *_BLANK),
    Span("catalogue number", 3, 7, *_ID),
    Span("blank", 8, 8, *_BLANK),
    Span("inclination", 9, 16, *_ANGLE),
    Span("blank", 17, 17, *_BLANK),
    Span("right ascension of the node", 18, 25, *_ANGLE),
    Span("blank", 26, 26, *_BLANK),
    Span("eccentricity", 27, 33, r"\d{7}", "seven digits, the decimals of the eccentricity"),
    Span("blank", 34, 34, *_BLANK),
    Span("argument of perigee", 35, 42, *_ANGLE),
    Span("blank", 43, 43, *_BLANK),
    Span("mean anomaly", 44, 51, *_ANGLE),
    Span("blank", 52, 52, *_BLANK),
    Span("mean motion", 53, 63, r" ?\d{1,2}\.\d{8}", "revolutions a day such as 15.12345678"),
    Span("revolution number", 64, 68, r" {0,4}\d{1,5}| {5}", "a number of up to five digits"),
)

# Largest angle in degrees that each span may hold.
_ANGLE_LIMITS = {
    "inclination": 180.0,
    "right ascension of the node": 360.0,
    "argument of perigee": 360.0,
    "mean anomaly": 360.0,
}

# Revolutions a day: the slowest orbits still bound to the Earth, and those that touch the ground.
MEAN_MOTION_LIMITS = (0.0144, 18.0)


class TleError(ValueError):
    """An element set is not in its form: line 1 or 2 (0: both), place in it, what came, what is allowed."""

    def __init__(self, line: int, place: str, came: str, allowed: str):
        super().__init__(f"line {line}, {place}: got {came}, allowed is {allowed}")
        self.line = line
        self.place = place
        self.came = came
        self.allowed = allowed


@dataclass(frozen=True)
class ElementSet:
    """Mean elements of one object at one epoch, angles in degrees, mean motion in revolutions a day.

    `epoch` is (year, day of the year with fraction), day 1.0 being the first of January at 0 h UTC.
    """

    norad_id: int
    name: str
    launch: str
    epoch: tuple[int, float]
    inclination_deg: float
    ascending_node_deg: float
    eccentricity: float
    argument_of_perigee_deg: float
    mean_anomaly_deg: float
    mean_motion_rev_day: float


def checksum(line: str) -> int:
    """Sum of the digits in columns 1 to 68, a minus sign counting 1, modulo 10."""
    return sum(1 if character == "-" else int(character) for character in line[:68] if character in "0123456789-") % 10


def catalogue_number(text: str) -> int:
    """The number that five columns hold: "25544" gives 25544, "    5" gives 5, "A0000" gives 100000."""
    head = text[0]
    if head in ALPHA5_LETTERS:
        return (10 + ALPHA5_LETTERS.index(head)) * 10000 + int(text[1:])
    return int(text)


def parse_element_set(
    line_1: str, line_2: str, name: str = "", *, legacy: bool = False, propagate: bool = True
) -> ElementSet:
    """The element set of two lines without line ends.

    `legacy` also takes lines of 68 columns, which lack the checksum; a checksum that is there is checked all the same.
    `propagate` asks of SGP4 a finite position and velocity at epoch. Raises TleError with line and columns.
    """
    first = _spans(1, line_1, _LINE_1, legacy)
    second = _spans(2, line_2, _LINE_2, legacy)
    identifier = catalogue_number(first["catalogue number"])
    if identifier < 1:
        raise TleError(1, "columns 3-7 (catalogue number)", repr(first["catalogue number"]), "1 or more")
    if identifier != catalogue_number(second["catalogue number"]):
        came = repr(second["catalogue number"])
        raise TleError(2, "columns 3-7 (catalogue number)", came, f"{first['catalogue number']!r}, as in line 1")
    if first["ephemeris type"] == "4":
        raise TleError(
            1, "column 63 (ephemeris type)", "'4'", "0 to 3: type 4 (SGP4-XP) has elements of another theory"
        )
    epoch = _epoch(first["epoch year"], first["epoch day"])
    angles = {span: _angle(second[span], span) for span in _ANGLE_LIMITS}
    mean_motion = float(second["mean motion"])
    if not MEAN_MOTION_LIMITS[0] <= mean_motion <= MEAN_MOTION_LIMITS[1]:
        low, high = MEAN_MOTION_LIMITS
        raise TleError(2, "columns 53-63 (mean motion)", repr(second["mean motion"]), f"{low} to {high} rev/day")
    _require_checksum(1, line_1)
    _require_checksum(2, line_2)
    if propagate:
        _require_state(line_1, line_2)
    return ElementSet(
        norad_id=identifier,
        name=name,
        launch=launch_of(first["international designator"], identifier),
        epoch=epoch,
        inclination_deg=angles["inclination"],
        ascending_node_deg=angles["right ascension of the node"],
        eccentricity=float("0." + second["eccentricity"]),
        argument_of_perigee_deg=angles["argument of perigee"],
        mean_anomaly_deg=angles["mean anomaly"],
        mean_motion_rev_day=mean_motion,
    )


def _spans(number: int, line: str, spans: tuple[Span, ...], legacy: bool) -> dict[str, str]:
    """The texts of a line's spans by name, each in its form."""
    lengths = (LEGACY_LENGTH, LINE_LENGTH) if legacy else (LINE_LENGTH,)
    strange = next((index for index, character in enumerate(line) if not " " <= character <= "~"), None)
    if strange is not None:
        raise TleError(number, f"column {strange + 1}", f"character {line[strange]!a}", "printable ASCII")
    if line[:1] != str(number):
        raise TleError(number, "column 1 (line number)", repr(line[:1]), f"'{number}': line 1 comes before line 2")
    if len(line) not in lengths:
        wanted = " or ".join(str(length) for length in lengths)
        place = f"column {min(len(line), LINE_LENGTH) + 1 if len(line) < LINE_LENGTH else LINE_LENGTH + 1}"
        raise TleError(number, place, f"a line of {len(line)} columns", f"{wanted} columns")
    texts = {}
    for span in spans:
        text = line[span.first - 1 : span.last]
        if not re.fullmatch(span.form, text, re.ASCII):
            raise TleError(number, span.place, repr(text), span.rule)
        texts[span.name] = text
    return texts


def _require_checksum(number: int, line: str) -> None:
    if len(line) == LEGACY_LENGTH:
        return
    expected = str(checksum(line))
    if line[68] != expected:
        allowed = f"'{expected}', the sum of columns 1 to 68: a character of this line was changed"
        raise TleError(number, "column 69 (checksum)", repr(line[68]), allowed)


def _epoch(year_text: str, day_text: str) -> tuple[int, float]:
    year = full_year(int(year_text))
    days = 366 if calendar.isleap(year) else 365
    day = float(day_text)
    if not 1.0 <= day < days + 1:
        raise TleError(1, "columns 21-32 (epoch day)", repr(day_text), f"a day from 1 to {days} of the year {year}")
    return year, day


def _angle(text: str, name: str) -> float:
    value = float(text)
    if value > _ANGLE_LIMITS[name]:
        place = next(span.place for span in _LINE_2 if span.name == name)
        raise TleError(2, place, repr(text), f"0 to {_ANGLE_LIMITS[name]:g} degrees")
    return value


def _require_state(line_1: str, line_2: str) -> None:
    """SGP4 is no gate for forms, it computes from whatever it is given; but a right form may still be no orbit."""
    error, position, velocity = Satrec.twoline2rv(line_1, line_2).sgp4_tsince(0.0)
    if error:
        raise TleError(0, "all columns", f"elements that SGP4 refuses at epoch: {SGP4_ERRORS[error]}", "a bound orbit")
    if not all(math.isfinite(value) for value in (*position, *velocity)):
        raise TleError(0, "all columns", "elements whose position at epoch is not finite", "a bound orbit")
