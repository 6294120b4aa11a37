"""What the prototype readout costs beside what one would use instead: `python benchmarks/readout.py`.

Each contestant reads the same tokens (B, T, D) to one vector per sequence, forward and backward, on one thread. Rounds
are interleaved, and each round gives one ratio to DDCL-Attention in double precision, so that a slow moment of the
machine hits all alike; the table shows the median ratio and its quartiles. Beside the time stand the largest relative
error of loss, reconstruction and diversity against the float64 reference, for contestants that have them.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from components.methods.ddcl import DDCLAttention, DDCLOutput, pool, reference

Step = Callable[[Tensor], tuple[Tensor, DDCLOutput | None]]
YARDSTICK = "DDCL-Attention, double"


def layer_step(layer: Callable[[Tensor], DDCLOutput]) -> Step:
    def step(tokens: Tensor) -> tuple[Tensor, DDCLOutput]:
        output = layer(tokens)
        code, histogram = pool(output.codes, output.assignments)
        return output.loss + code.sum() + histogram.square().sum(), output

    return step


def explicit(layer: DDCLAttention) -> Callable[[Tensor], DDCLOutput]:
    """The same outputs by (N, K, D) broadcasting in the tokens' own type, as the equations are written."""

    def forward(tokens: Tensor) -> DDCLOutput:
        bank = layer.prototypes
        distances = (tokens[..., None, :] - bank).square().sum(dim=-1)
        q = torch.softmax(-distances / layer.temperature, dim=-1)
        mu = q @ bank
        return DDCLOutput(
            codes=mu,
            assignments=q,
            loss=(q * distances).sum(dim=-1).mean(),
            reconstruction=(tokens - mu).square().sum(dim=-1).mean(),
            diversity=(q * (bank - mu[..., None, :]).square().sum(dim=-1)).sum(dim=-1).mean(),
        )

    return forward


def attention_step(dim: int, count: int) -> Step:
    """Cross-attention of K learned queries, the readout of Perceiver and of set transformers: torch's own module."""
    attention = nn.MultiheadAttention(dim, num_heads=1, batch_first=True)
    queries = nn.Parameter(torch.randn(1, count, dim))

    def step(tokens: Tensor) -> tuple[Tensor, None]:
        summary, _ = attention(queries.expand(len(tokens), -1, -1), tokens, tokens, need_weights=False)
        return summary.mean(dim=1).sum(), None

    return step


def contestants(dim: int, count: int, temperature: float) -> dict[str, Step]:
    bank = torch.Generator().manual_seed(0)
    layers = {
        precision: DDCLAttention(dim, count, temperature, precision=precision) for precision in ("double", "single")
    }
    with torch.no_grad():
        layers["double"].prototypes.normal_(generator=bank)
        layers["single"].prototypes.copy_(layers["double"].prototypes)
    return {
        YARDSTICK: layer_step(layers["double"]),
        "DDCL-Attention, single": layer_step(layers["single"]),
        "DDCL-Attention, explicit float32": layer_step(explicit(layers["double"])),
        "torch.nn.MultiheadAttention, K queries": attention_step(dim, count),
        "mean pooling": lambda tokens: (tokens.mean(dim=1).square().sum(), None),
    }


def error_of(output: DDCLOutput | None, tokens: Tensor, bank: Tensor, temperature: float) -> str:
    if output is None:
        return "-"
    flat = tokens.detach().flatten(0, 1)
    q = reference.assignments(flat, bank, temperature)
    truths = (
        reference.loss(flat, bank, q),
        reference.reconstruction(flat, bank, q),
        reference.diversity(bank, q),
    )
    return f"{max(abs(got.item() / truth.item() - 1) for got, truth in zip(output[2:], truths, strict=True)):.1e}"


def measure(
    shape: tuple[int, int, int, int], temperature: float, rounds: int
) -> list[tuple[str, list[float], float, str]]:
    """For each contestant: name, ratios of its time to the yardstick's, its median seconds, its error."""
    batch, length, dim, count = shape
    tokens = torch.randn(batch, length, dim, generator=torch.Generator().manual_seed(1)).requires_grad_()
    steps = contestants(dim, count, temperature)
    bank = torch.randn(count, dim, generator=torch.Generator().manual_seed(0))
    errors = {name: error_of(step(tokens)[1], tokens, bank, temperature) for name, step in steps.items()}
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.perf_counter()
            step(tokens)[0].backward()
            seconds[name].append(time.perf_counter() - start)
            tokens.grad = None
    return [
        (
            name,
            [mine / base for mine, base in zip(times, seconds[YARDSTICK], strict=True)],
            statistics.median(times),
            errors[name],
        )
        for name, times in seconds.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--out", type=Path, help="also write the table here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        f"torch {torch.__version__}, one thread, {options.rounds} interleaved rounds, tau = {options.temperature:g}",
        "",
    ]
    for shape in [(256, 1, 7, 8), (8, 128, 64, 16), (8, 128, 768, 64)]:
        lines += [
            f"B, T, D, K = {', '.join(map(str, shape))}",
            "",
            "| readout | time / double | quartiles | ms | largest error |",
            "|---|---|---|---|---|",
        ]
        for name, ratios, median, error in measure(shape, options.temperature, options.rounds):
            low, middle, high = statistics.quantiles(ratios, n=4)
            lines.append(f"| {name} | {middle:.2f} | {low:.2f} to {high:.2f} | {1000 * median:.2f} | {error} |")
        lines.append("")
    text = "\n".join(lines)
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
