"""A small prepared table that the gate accepts, and ways to spoil it."""

import csv
import io
from pathlib import Path

from components.datasets.orbital.config import GateOptions
from components.datasets.orbital.table import build_table, columns_from_altitudes, table_text

OPTIONS = GateOptions(
    min_rows=40,
    min_rows_per_class=6,
    required_regimes=("LEO", "MEO", "GEO", "HEO"),
    required_kinds=("PAYLOAD", "ROCKET BODY", "DEBRIS"),
    max_share_drift=0.15,
)
SPLITS = ("train", "train", "validation", "test")
KINDS = ("PAYLOAD", "ROCKET BODY", "DEBRIS")
# regime -> (period in min, perigee, apogee in km) of a real orbit of that kind
ORBITS = {
    "LEO": (95.22, 520.0, 538.0),
    "MEO": (717.97, 20100.0, 20265.0),
    "GEO": (1436.1, 35776.0, 35798.0),
    "HEO": (717.8, 1050.0, 39305.0),
}


def valid_text() -> str:
    """48 rows: each regime with each kind in each split, every row a launch of its own."""
    rows = []
    for regime, (period, perigee, apogee) in ORBITS.items():
        for kind in KINDS:
            for split in SPLITS:
                number = len(rows) + 1
                columns = columns_from_altitudes(period, 10.0 + number, perigee, apogee)
                assert columns["regime"] == regime
                launch = f"{1960 + number}-{number:03d}"
                head = {"norad_id": 1000 + number, "name": f"OBJECT {number}", "kind": kind, "launch": launch}
                rows.append({**head, **columns, "split": split})
    table = build_table(rows)
    table["split"] = [row["split"] for row in rows]
    return table_text(table)


class Sheet:
    """The valid table as cells, addressed as the gate addresses them: line 1 is the header."""

    def __init__(self) -> None:
        self.cells = list(csv.reader(io.StringIO(valid_text())))

    def get(self, line: int, column: str) -> str:
        return self.cells[line - 1][self.cells[0].index(column)]

    def set(self, line: int, **values: str) -> "Sheet":
        # the header may itself have been changed by now; positions are those of the valid table
        for column, value in values.items():
            self.cells[line - 1][self.cells[0].index(column)] = value
        return self

    def write(self, path: Path) -> Path:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows(self.cells)
        path.write_text(buffer.getvalue(), encoding="utf-8")
        return path
