"""One training step of a codebook inside a network: the soft one beside vector-quantize-pytorch's moving average.

Forward and backward of codes and loss with a gradient for the tokens, the optimiser left out on both sides; what the
moving average does to its codebook is part of its forward pass.
"""

from collections.abc import Callable, Iterator

import torch

from benchmarks.contest import Contest, Contestant
from benchmarks.machine import installed
from components.methods.baselines.hard_quantiser import HardVectorQuantizer
from components.methods.ddcl import SoftVectorQuantizer, reference
from components.methods.interfaces.quantiser import VectorQuantizer

# tokens, dim, codes
SHAPES = ((16384, 64, 512), (3136, 16, 64))
PEER = "vector-quantize-pytorch"
LARGEST_ERROR = 1e-4
MEASURES = ("error of the loss", "distortion")


def contests() -> Iterator[Contest]:
    for count, dim, codes in SHAPES:
        generator = torch.Generator().manual_seed(0)
        tokens = torch.randn(1, count, dim, generator=generator).requires_grad_()
        words = torch.randn(codes, dim, generator=generator)
        gradient = torch.randn(1, count, dim, generator=generator)
        # distances between normal tokens spread with the root of the width: no softmax is one-hot, none is flat
        soft = SoftVectorQuantizer(dim, codes, dim**0.5)
        double = SoftVectorQuantizer(dim, codes, dim**0.5, precision="double")
        hard = HardVectorQuantizer(dim, codes, update="ema")
        with torch.no_grad():
            for quantiser in (soft, double, hard):
                quantiser.codebook.copy_(words)
        contestants = [
            _ours("SoftVectorQuantizer", soft, tokens, gradient),
            _ours("SoftVectorQuantizer, double precision", double, tokens, gradient),
            _ours("HardVectorQuantizer, moving average", hard, tokens, gradient),
        ]
        if installed(PEER) is not None:
            contestants.append(_peer(words, tokens, gradient))
        yield Contest(f"{count} tokens of width {dim}, {codes} codewords", MEASURES, tuple(contestants))


def _ours(name: str, quantiser: VectorQuantizer, tokens: torch.Tensor, gradient: torch.Tensor) -> Contestant:
    def step() -> None:
        found = quantiser(tokens)
        torch.autograd.backward([found.codes, found.loss], [gradient, torch.ones(())])
        quantiser.zero_grad(set_to_none=True)
        tokens.grad = None

    found = quantiser.eval()(tokens)
    quantiser.train()
    accuracy = {MEASURES[1]: f"{float(found.distortion):.4f}"}
    fault = ""
    if isinstance(quantiser, SoftVectorQuantizer):
        part = tokens.detach()[0, :256]
        q = reference.assignments(part, quantiser.codebook, float(quantiser.temperature))
        truth = float(reference.loss(part, quantiser.codebook, q))
        error = abs(float(quantiser(part[None]).loss) / truth - 1)
        accuracy[MEASURES[0]] = f"{error:.1e}"
        fault = "" if error <= LARGEST_ERROR else f"its loss is off by {error:.1e}"
    return Contestant(name, step, accuracy, fault)


def _peer(words: torch.Tensor, tokens: torch.Tensor, gradient: torch.Tensor) -> Contestant:
    from vector_quantize_pytorch import VectorQuantize

    quantiser = VectorQuantize(words.shape[1], len(words))
    with torch.no_grad():
        inner = quantiser._codebook
        inner.embed.copy_(words[None])
        inner.embed_avg.copy_(words[None])

    def step() -> None:
        codes, _, loss = quantiser(tokens)
        torch.autograd.backward([codes, loss.sum()], [gradient, torch.ones(())])
        tokens.grad = None

    codes = quantiser.eval()(tokens)[0]
    distortion = float((codes - tokens).square().sum(dim=-1).mean())
    quantiser.train()
    made: Callable[[], None] = step
    name = f"VectorQuantize, moving average ({PEER} {installed(PEER)})"
    return Contestant(name, made, {MEASURES[1]: f"{distortion:.4f}"})
