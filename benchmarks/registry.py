"""The benchmarks. A new one is a module with `contests()` and a line here."""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.contest import Contest
from components.errors import UsageError


@dataclass(frozen=True)
class Benchmark:
    """Where a benchmark is and what a reader learns from it."""

    module: str
    question: str


BENCHMARKS = {
    "readout": Benchmark(
        "benchmarks.readout",
        "What does reading a bag of tokens through prototypes cost, forward and backward, beside other readouts?",
    ),
    "codebook": Benchmark(
        "benchmarks.codebook",
        "What does one training step of a codebook cost, and how close does the codebook come to the data?",
    ),
    "inference": Benchmark(
        "benchmarks.inference",
        "How fast does the deployed model answer beside the trained one?",
    ),
}


def contests(name: str) -> Iterator[Contest]:
    """The contests of benchmark `name`. Raises UsageError for a name that does not exist."""
    if name not in BENCHMARKS:
        raise UsageError(f"there is no benchmark {name!r}; there are: {', '.join(BENCHMARKS)}")
    make: Callable[[], Iterator[Contest]] = importlib.import_module(BENCHMARKS[name].module).contests
    return make()
