"""Export of a PyTorch module to ONNX: dynamic batch and token axes, one file, the same bytes in every checkout."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence

import onnx
import torch
from torch import Tensor, nn


def export_onnx(
    module: nn.Module,
    example: tuple[Tensor, ...],
    *,
    input_names: Sequence[str],
    output_names: Sequence[str],
    max_batch: int,
    max_tokens: int,
    opset: int,
) -> bytes:
    """`module` as ONNX, with dynamic axes 0 (batch, 1..max_batch) and 1 (tokens, 1..max_tokens) of every input.

    `example` must have at least two rows and two tokens: a size of one is traced as a constant.

    Raises:
        ValueError: an example axis of size one, or a module that is not in evaluation mode.
    """
    small = [tuple(tensor.shape[:2]) for tensor in example if min(tensor.shape[:2]) < 2]
    if small:
        raise ValueError(f"example inputs must have batch and token axes of at least 2; got {small[0]}")
    training = [name or "the module itself" for name, part in module.named_modules() if part.training]
    if training:
        raise ValueError(f"{training[0]} is in training mode; call eval() before exporting")
    batch = torch.export.Dim("batch", min=1, max=max_batch)
    tokens = torch.export.Dim("tokens", min=1, max=max_tokens)
    with _quiet():
        program = torch.onnx.export(
            module,
            example,
            dynamo=True,
            opset_version=opset,
            input_names=list(input_names),
            output_names=list(output_names),
            dynamic_shapes=tuple({0: batch, 1: tokens} for _ in example),
            external_data=False,
            verbose=False,
        )
    if program is None:
        raise RuntimeError("torch.onnx.export returned nothing")
    content: bytes = stripped(program.model_proto).SerializeToString(deterministic=True)
    return content


def stripped(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without what the exporter says of itself: its stack traces hold paths, which would differ and leak."""
    model.doc_string = ""
    model.producer_version = model.producer_version.partition("+")[0]
    del model.metadata_props[:]
    for graph in (model.graph, *model.functions):
        graph.doc_string = ""
        del graph.metadata_props[:]
        del graph.value_info[:]
        for node in graph.node:
            node.doc_string = ""
            del node.metadata_props[:]
    for named in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        named.doc_string = ""
        del named.metadata_props[:]
    return model


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter speaks of torchvision and of its own progress; none of it is for a reader of a stage's log."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
