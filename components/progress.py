"""Progress of long work: a bar on a terminal, a line now and then in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# done, and the total where it is known
Tell = Callable[[int, int | None], None]

SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def progress(label: str, unit: str = "rows") -> Iterator[Tell]:
    """Yield a function that is told how much is done; it writes to standard error.

    A log gets its first line only when the work has gone on for some seconds, so short work says nothing.
    """
    with _bar(label, unit) if sys.stderr.isatty() else _lines(label, unit) as tell:
        yield tell


@contextmanager
def _bar(label: str, unit: str) -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit))
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def _lines(label: str, unit: str) -> Iterator[Tell]:
    began = told = time.monotonic()

    def tell(done: int, total: int | None) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told < SECONDS_BETWEEN_LINES:
            return
        told = now
        of = f" of {total:,}" if total is not None else ""
        print(f"{label}: {done:,}{of} {unit}, {done / (now - began):,.0f} a second", file=sys.stderr, flush=True)

    yield tell
