"""A bundle that answers: checked arrays in, named outputs and labels out. Knows nothing of the protocol in front."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quintet_serving.bundle import Bundle, read_bundle
from quintet_serving.errors import BundleError, RequestError
from quintet_serving.session import OpenSession, check_graph, open_session
from quintet_serving.validation import Array, RequestTensor, check_request, check_requested_outputs, example_request

LABEL = "label"


@dataclass(frozen=True)
class Answer:
    """One output as the protocol sends it: flat data in row-major order."""

    name: str
    datatype: str
    shape: list[int]
    data: list[Any]


@dataclass(frozen=True)
class BundleModel:
    bundle: Bundle
    open: OpenSession

    @classmethod
    def load(cls, folder: Path, provider: str = "cpu") -> "BundleModel":
        """Verify the bundle, open a session, compare graph and schema, and ask once for an answer.

        Raises BundleError or ProviderError.
        """
        bundle = read_bundle(folder)
        schema = bundle.schema
        opened = open_session(bundle.model, provider)
        check_graph(
            opened.session,
            {spec.name: (spec.datatype, len(spec.shape)) for spec in schema.inputs},
            {spec.name: (spec.datatype, len(spec.shape)) for spec in schema.outputs},
        )
        model = cls(bundle, opened)
        try:
            model.answer(example_request(schema))
        except RequestError as error:
            raise BundleError(f"the model in {folder} does not answer its own example: {error}") from error
        return model

    @property
    def output_names(self) -> list[str]:
        return [*(spec.name for spec in self.bundle.schema.outputs), LABEL]

    def answer(self, tensors: Sequence[RequestTensor], outputs: Sequence[str] | None = None) -> list[Answer]:
        """Outputs by the order asked for. Raises RequestError when the request does not fit, or when the model gives
        no finite answer to it."""
        asked = check_requested_outputs(outputs, self.output_names)
        arrays = check_request(tensors, self.bundle.schema)
        needed = [spec.name for spec in self.bundle.schema.outputs]
        results = dict(zip(needed, self.open.session.run(needed, arrays), strict=True))
        for name, array in results.items():
            _check_finite(name, array)
        return [self._label(results["logits"]) if name == LABEL else _answer(name, results[name]) for name in asked]

    def _label(self, logits: Array) -> Answer:
        rows = logits.reshape(-1, logits.shape[-1])
        names = [self.bundle.labels[int(index)] for index in rows.argmax(axis=-1)]
        return Answer(LABEL, "BYTES", list(logits.shape[:-1]), names)


def _answer(name: str, array: Array) -> Answer:
    kinds = {"float32": "FP32", "int64": "INT64", "bool": "BOOL"}
    return Answer(name, kinds[array.dtype.name], list(array.shape), array.ravel().tolist())


def _check_finite(name: str, array: Array) -> None:
    # JSON has no word for NaN, and a number that stands for one would be taken for an answer.
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return
    row = int(np.argwhere(~np.isfinite(array))[0][0])
    raise RequestError(f"the model gives no finite {name} for row {row}; its values are too far from what it knows")
