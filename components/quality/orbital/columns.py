"""What the gate asks of each column of a prepared orbital table: the form of a cell, and the range of a value.

Names, words and ranges are those of `components.datasets.orbital.table`, where they are defined. The reading is not
shared: a gate that used the writer's own parser would let pass what that parser gets wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from components.datasets.orbital import table
from components.datasets.orbital.table import QUANTITIES

# Below this height an orbit does not last a revolution. Catalogues keep the last element set of a few objects that came
# down (2 in 6,000), so single rows are no fault, and a share of them is: a column of zeros, or one in other units.
LASTING_PERIGEE_KM = 80.0
LASTING_SHARE = 0.995

# Exponents of two digits at most: no cell that matches can overflow to infinity.
_NUMBER = r"-?[0-9]{1,15}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,2})?"
_INFINITY = r"[+-]?[iI][nN][fF](?:[iI][nN][iI][tT][yY])?"
INFINITE = rf"^{_INFINITY}$"


@dataclass(frozen=True)
class Form:
    """How a cell is written. `missing` are the texts, in lower case, that stand for no value."""

    pattern: str
    described: str
    missing: frozenset[str]


@dataclass(frozen=True)
class Range:
    """Closed bounds of a value, in `unit`."""

    minimum: float
    maximum: float
    unit: str

    def described(self, column: str) -> str:
        unit = "" if self.unit == "1" else f" {self.unit}"
        return f"{self.minimum:.10g} <= {column} <= {self.maximum:.10g}{unit}"


_NUMERIC_MISSING = frozenset({"", "nan", "-nan", "na", "n/a", "<na>", "null", "none", "-"})
# "NA" and "null" may be names; these cannot be anything but a writer's missing value
_TEXT_MISSING = frozenset({"", "nan", "<na>", "none"})

WORD = Form(r"^[A-Za-z]+(?: [A-Za-z]+)*$", "a word or words of letters", _TEXT_MISSING)
NAME = Form(r"^(?! )[^\x00-\x1f\x7f]{1,80}(?<! )$", table.NAME_RULE, _TEXT_MISSING)
LAUNCH = Form(rf"^(?:{table.LAUNCH_PATTERN.replace('(19', '(?:19')})$", table.LAUNCH_RULE, _TEXT_MISSING)
WHOLE = Form(r"^(?:0|[1-9][0-9]{0,8})$", "a whole number of at most 9 digits", _NUMERIC_MISSING)
# infinity has the form of a number and is refused by a check of its own
NUMBER = Form(rf"^(?:{_NUMBER}|{_INFINITY})$", "a decimal number such as 97.25 or 1e-05", _NUMERIC_MISSING)

FORMS: Mapping[str, Form] = {
    "norad_id": WHOLE,
    "name": NAME,
    "kind": WORD,
    "launch": LAUNCH,
    **dict.fromkeys(QUANTITIES, NUMBER),
    "regime": WORD,
    "split": WORD,
}
RANGES: Mapping[str, Range] = {
    "norad_id": Range(1.0, float(table.MAX_NORAD_ID), "1"),
    **{name: Range(quantity.minimum, quantity.maximum, quantity.unit) for name, quantity in QUANTITIES.items()},
}
# In the order that the file must have.
COLUMNS = tuple(table.COLUMNS)
