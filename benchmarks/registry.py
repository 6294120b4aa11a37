"""The benchmarks. A new one is a module with `contests()` and a line here."""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.contest import Contest
from components.errors import UsageError


@dataclass(frozen=True)
class Benchmark:
    """Where a benchmark is, what a reader learns from it, and what a reader must know to judge the accuracies."""

    module: str
    question: str
    note: str


BENCHMARKS = {
    "readout": Benchmark(
        "benchmarks.readout",
        "What does reading a bag of tokens through prototypes cost, forward and backward, beside other readouts?",
        "Digits: the settings of ours were tried on these held-out digits. Shown are the layer's default temperature, "
        "1, and the loss weight of the experiments, 0.02. When they were chosen, temperatures of 0.5 and 2 gave much "
        "the same, 4 gave 0.62 and with 5.7 one seed reached 0.27 only; a weight of 0 gave 0.79, a weight of 0.1 gave "
        "0.21, one seed at chance. The quantisers were tried with the loss weight 1 and 0.02 (shown), where the soft "
        "one learns more; the other peers were run once as they are.",
    ),
    "attention": Benchmark(
        "benchmarks.attention",
        "How near is the layer to the least that it must do, and how does its cost grow with the number of tokens?",
        "Wanted were a ratio of at most 2.0 to its two matrix products, an exponent of 0.9 to 1.1, and self-attention "
        "at least 30 times slower. Here a ratio below 1 in the products' row is one over the layer's own.",
    ),
    "quantiser": Benchmark(
        "benchmarks.quantiser",
        "What does one training step through a soft codebook cost, beside a hard one that follows a moving average?",
        "Wanted was at most 1.3 times the moving average of vector-quantize-pytorch at 16,384 tokens, 64 dimensions "
        "and 512 codewords. All start from the same codewords; the distortion is that of these.",
    ),
    "codebook": Benchmark(
        "benchmarks.codebook",
        "What does one training step of a codebook cost, and how close does the codebook come to the data?",
        "Two settings were changed once after the first figures were seen: where our temperature starts (a tenth of "
        "the spread, not all of it), and the temperature of the Gumbel noise, whose default is far too hot for the "
        "orbital sample.",
    ),
    "inference": Benchmark(
        "benchmarks.inference",
        "How fast does the deployed model answer beside the trained one?",
        "Accuracies are of the test split; the regime follows from two of its features, so its figure is no feat.",
    ),
}


def contests(name: str) -> Iterator[Contest]:
    """The contests of benchmark `name`. Raises UsageError for a name that does not exist."""
    if name not in BENCHMARKS:
        raise UsageError(f"there is no benchmark {name!r}; there are: {', '.join(BENCHMARKS)}")
    make: Callable[[], Iterator[Contest]] = importlib.import_module(BENCHMARKS[name].module).contests
    return make()
