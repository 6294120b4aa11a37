"""What a check of `quintet doctor` says: how it is, what was found, and how to mend it."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """A warning is worth knowing; a problem makes runs fail or results differ without a word."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Verdict:
    """One line of the doctor. `fix` is empty when all is well."""

    name: str
    level: Level
    found: str
    fix: str = ""

    @property
    def is_problem(self) -> bool:
        return self.level is Level.PROBLEM


def ok(name: str, found: str) -> Verdict:
    return Verdict(name, Level.OK, found)


def warning(name: str, found: str, fix: str) -> Verdict:
    return Verdict(name, Level.WARNING, found, fix)


def problem(name: str, found: str, fix: str) -> Verdict:
    return Verdict(name, Level.PROBLEM, found, fix)
