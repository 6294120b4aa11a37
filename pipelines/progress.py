"""What a run says while it runs: lines on a terminal or in a log, or the log of a Prefect flow run."""

import logging
from contextvars import ContextVar
from typing import Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from pipelines.runner import Outcome, StageResult

STYLES = {
    Outcome.RAN: "green",
    Outcome.CACHED: "cyan",
    Outcome.RESTORED: "cyan",
    Outcome.FAILED: "bold red",
    Outcome.NOT_RUN: "yellow",
}


INTERRUPTED_TEXT = "interrupted: ending the stages that run; the next run goes on from what is done"


class Observer(Protocol):
    """Who is told of a run's progress. `line` is called from several threads, the rest from one."""

    def waiting(self, message: str) -> None: ...
    def planned(self, stages: int) -> None: ...
    def started(self, address: str, why: str) -> None: ...
    def line(self, address: str, text: str) -> None: ...
    def finished(self, result: StageResult) -> None: ...
    def interrupted(self) -> None: ...
    def closed(self) -> None: ...


class LogObserver:
    """Tells a logger: that of the flow run when there is one, so that the Prefect pages show it."""

    def __init__(self, logger: "logging.Logger | logging.LoggerAdapter[logging.Logger]") -> None:
        self._logger = logger

    def waiting(self, message: str) -> None:
        self._logger.warning("%s", message)

    def planned(self, stages: int) -> None:
        self._logger.info("%d stages", stages)

    def started(self, address: str, why: str) -> None:
        self._logger.info("%s started: %s", address, why)

    def line(self, address: str, text: str) -> None:
        self._logger.debug("%s: %s", address, text)

    def finished(self, result: StageResult) -> None:
        level = logging.ERROR if result.outcome is Outcome.FAILED else logging.INFO
        self._logger.log(level, "%s %s in %.1f s: %s", result.address, result.outcome, result.seconds, result.why)

    def interrupted(self) -> None:
        self._logger.warning(INTERRUPTED_TEXT)

    def closed(self) -> None:
        """Nothing is open."""


class ConsoleObserver:
    """One line for each stage that ends; on a terminal also a line for each that runs, with its newest output."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._total = 0
        self._ended = 0
        self._running: dict[str, TaskID] = {}
        self._live = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[text]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def waiting(self, message: str) -> None:
        self._console.print(message, style="yellow", markup=False, soft_wrap=True)

    def planned(self, stages: int) -> None:
        self._total = stages
        self._live.start()

    def started(self, address: str, why: str) -> None:
        if self._live.disable:
            self._console.print(f"{'':>7} {address}: started ({why})", markup=False, soft_wrap=True)
        self._running[address] = self._live.add_task(address, total=None, text=escape(why))

    def line(self, address: str, text: str) -> None:
        if address in self._running:
            self._live.update(self._running[address], text=escape(text[:80]))

    def finished(self, result: StageResult) -> None:
        self._ended += 1
        if result.address in self._running:
            self._live.remove_task(self._running.pop(result.address))
        count = f"[{self._ended}/{self._total}]" if self._total else ""
        took = f" in {result.seconds:.1f} s" if result.seconds >= 0.05 else ""
        self._console.print(
            f"{count:>7} {result.address}: {result.outcome}{took}{' - ' if result.why else ''}{result.why}",
            style=STYLES[result.outcome],
            markup=False,
            highlight=False,
            soft_wrap=True,
        )

    def interrupted(self) -> None:
        self._console.print(INTERRUPTED_TEXT, style="yellow")

    def closed(self) -> None:
        self._live.stop()


OBSERVER: ContextVar[Observer | None] = ContextVar("observer", default=None)
