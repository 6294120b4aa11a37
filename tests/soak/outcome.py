"""What a check gets and what it gives back."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tests.endtoend.copies import Copy, duplicate, make_copy
from tests.endtoend.undisturbed import First, first_of


@dataclass(frozen=True)
class Outcome:
    """What a check found. `figures` are shown in the order given; any failure fails the check."""

    figures: dict[str, str]
    failures: list[str] = field(default_factory=list)


@dataclass
class Work:
    """Where checks work, with which seed, and whom they tell of progress. Copies are made when first asked for."""

    folder: Path
    seed: int
    say: Callable[[str], None]

    @cached_property
    def fresh(self) -> Copy:
        """A copy in which nothing has run."""
        return make_copy(self.folder / "fresh")

    @cached_property
    def undisturbed(self) -> First:
        """A copy in which the whole graph has run once, at scale tiny."""
        self.say("an undisturbed run at scale tiny")
        copy = duplicate(self.fresh, self.folder / "undisturbed")
        ended = copy.quintet("run", "--scale", "tiny")
        if ended.code != 0:
            raise RuntimeError(f"the undisturbed run ended with code {ended.code}: {ended.text}")
        return first_of(copy, ended)


# (work, how many) -> outcome
CheckFunction = Callable[[Work, int], Outcome]


@dataclass(frozen=True)
class Check:
    """A long check: what it shows, how many times it tries by default, and its minutes on two idle cores with that."""

    name: str
    shows: str
    function: CheckFunction
    unit: str
    count: int
    minutes: float
