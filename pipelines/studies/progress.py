"""How far a study is: counted from the files that its runs leave, told on a terminal, in a log, on Prefect's pages."""

import time
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from components.errors import QuintetError
from components.studies.plan import Run
from components.studies.running import account, finished
from pipelines.progress import ConsoleObserver, LogObserver


@dataclass(frozen=True)
class Count:
    """Runs by state, and the seconds that the rest will take, as far as that can be told."""

    done: int
    running: int
    failed: int
    waiting: int
    seconds_left: float | None

    @property
    def total(self) -> int:
        return self.done + self.running + self.failed + self.waiting

    @property
    def left(self) -> str:
        if not self.running and not self.waiting:
            return "nothing left"
        return "time left not known yet" if self.seconds_left is None else f"about {duration(self.seconds_left)} left"

    def __str__(self) -> str:
        return (
            f"{self.done} of {self.total} runs done, {self.running} running, {self.failed} failed, "
            f"{self.waiting} waiting; {self.left}"
        )


@dataclass
class Counter:
    """Counts the runs of one start of a study, of which `todo` are to be made now; times are of this start alone."""

    root: Path
    runs: Sequence[Run]
    todo: Sequence[Run]
    clock: float = field(default_factory=time.monotonic)
    started: float = field(default_factory=time.time)
    _done: set[str] = field(default_factory=set)

    def count(self) -> Count:
        failed = running = 0
        digests = {run.digest for run in self.runs}
        todo = {run.digest for run in self.todo}
        for digest in todo - self._done:
            if finished(self.root, digest) is not None:
                self._done.add(digest)
                continue
            said = account(self.root, digest) if self._is_new(digest) else {}
            failed += said.get("state") == "failed"
            running += said.get("state") == "running"
        ended = len(self._done) + failed
        waiting = len(todo) - ended - running
        left = (time.monotonic() - self.clock) / ended * (running + waiting) if ended else None
        return Count(len(digests) - len(todo) + len(self._done), running, failed, waiting, left)

    def _is_new(self, digest: str) -> bool:
        from components.studies.running import account_path

        path = account_path(self.root, digest)
        # an account of an earlier start says nothing about this one
        return path.is_file() and path.stat().st_mtime >= self.started - 1


def duration(seconds: float) -> str:
    """A time a reader takes in at a glance: 40 s, 3 min, 2.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class StudyObserver(Protocol):
    """Who is told of a study's progress; all from one thread."""

    def waiting(self, message: str) -> None: ...
    def said(self, line: str) -> None: ...
    def counted(self, count: Count) -> None: ...
    def refused(self, error: QuintetError) -> None: ...
    def interrupted(self) -> None: ...
    def closed(self) -> None: ...


class StudyLog(LogObserver):
    """A line in a log each time another tenth of the runs has ended."""

    _tenth = -1

    def said(self, line: str) -> None:
        self._logger.info("%s", line)

    def refused(self, error: QuintetError) -> None:
        self._logger.error("%s", error)

    def counted(self, count: Count) -> None:
        tenth = 10 * (count.done + count.failed) // max(1, count.total)
        if tenth != self._tenth:
            self._tenth = tenth
            self._logger.info("%s", count)


class StudyConsole(ConsoleObserver):
    """A bar on a terminal; elsewhere a line for each tenth of the runs."""

    _tenth = -1

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[text]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("runs", total=None, text="")
        # what the flow refused the study for; whoever called the flow raises it
        self.refusal: QuintetError | None = None

    def refused(self, error: QuintetError) -> None:
        self.refusal = error

    def said(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def counted(self, count: Count) -> None:
        self._bar.start()
        text = f"{count.running} running, {count.failed} failed, {count.left}"
        self._bar.update(self._task, total=count.total, completed=count.done + count.failed, text=text)
        tenth = 10 * (count.done + count.failed) // max(1, count.total)
        if self._bar.disable and tenth != self._tenth:
            self._tenth = tenth
            self.said(str(count))

    def closed(self) -> None:
        self._bar.stop()
        super().closed()


STUDY_OBSERVER: ContextVar[StudyObserver | None] = ContextVar("study_observer", default=None)
