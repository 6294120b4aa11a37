"""A stage whose function is given by the test: what `components.stages.execution` runs in a toy project."""

from collections.abc import Callable

from components.stages.execution import Context

functions: list[Callable[[Context], None]] = []


def run(context: Context) -> None:
    functions[-1](context)
