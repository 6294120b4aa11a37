"""How a fault in a data file is told: one line with file, place, what came, what is allowed and how to mend it."""

from pathlib import Path

from components.errors import DataError

# Longer values are cut in messages: a whole broken line helps nobody.
SHOWN_CHARACTERS = 60


def shown_path(path: Path, root: Path | None = None) -> str:
    """`path` as a user of the checkout `root` would write it: relative where it lies inside."""
    base = Path.cwd() if root is None else root
    try:
        return path.resolve().relative_to(base.resolve()).as_posix()
    except ValueError:
        return str(path)


def shown_value(value: str) -> str:
    """`value` quoted, on one line, and cut when long."""
    cut = value if len(value) <= SHOWN_CHARACTERS else value[:SHOWN_CHARACTERS] + "..."
    return repr(cut)


def fault(path: Path, place: str, came: str, allowed: str) -> DataError:
    """The error for one fault. `place` says where in the file (line, row, column); `came` is used as it stands."""
    where = f"{shown_path(path)}, {place}" if place else shown_path(path)
    return DataError(f"{where}: got {came}, allowed is {allowed}; correct it there or restore the file")
