"""The MLServer runtime: translates requests of the Open Inference Protocol to a BundleModel and back."""

import asyncio
from pathlib import Path
from typing import Any

from mlserver import MLModel
from mlserver.errors import InferenceError
from mlserver.logging import logger
from mlserver.types import (
    InferenceRequest,
    InferenceResponse,
    MetadataModelResponse,
    MetadataTensor,
    Parameters,
    ResponseOutput,
)

from quintet_serving.errors import RequestError
from quintet_serving.model import Answer, BundleModel
from quintet_serving.schema import TensorSpec
from quintet_serving.validation import RequestTensor

# below this many numbers a request is answered faster than a thread is woken.
INLINE_NUMBERS = 4096


class BundleRuntime(MLModel):
    """Serves the bundle in `parameters.uri`, a folder that is absolute or relative to the model settings.

    `parameters.extra.provider` is cpu (default) or cuda.
    """

    async def load(self) -> bool:
        parameters = self.settings.parameters
        source = Path(self.settings._source).parent if self.settings._source else Path()
        folder = source / (parameters.uri if parameters and parameters.uri else ".")
        provider = (parameters.extra or {}).get("provider", "cpu") if parameters else "cpu"
        self._model = await asyncio.to_thread(BundleModel.load, folder, provider)
        schema, opened = self._model.bundle.schema, self._model.open
        self.inputs = [_metadata(spec) for spec in schema.inputs]
        self.outputs = [*(_metadata(spec) for spec in schema.outputs), _label_metadata()]
        logger.info(f"provider {opened.provider.value}: {opened.provider.reason}")
        logger.info(f"{opened.threads.value} threads: {opened.threads.reason}")
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        tensors = [
            RequestTensor(tensor.name, _text(tensor.datatype), tensor.shape, tensor.data.root)
            for tensor in payload.inputs
        ]
        asked = [output.name for output in payload.outputs] if payload.outputs else None
        numbers = sum(len(tensor.data) for tensor in tensors if isinstance(tensor.data, list))
        nested = any(tensor.data and isinstance(tensor.data, list) and isinstance(tensor.data[0], list)
                     for tensor in tensors)  # fmt: skip
        try:
            if nested or numbers > INLINE_NUMBERS:
                # a long computation here would keep the health checks waiting.
                answers = await asyncio.to_thread(self._model.answer, tensors, asked)
            else:
                answers = self._model.answer(tensors, asked)
        except RequestError as error:
            raise InferenceError(str(error)) from error
        return InferenceResponse(
            model_name=self.name, model_version=self.version, outputs=[_output(answer) for answer in answers]
        )

    async def metadata(self) -> MetadataModelResponse:
        response = await super().metadata()
        bundle, opened = self._model.bundle, self._model.open
        response.platform = "onnxruntime_onnx"
        response.versions = [bundle.version]
        response.parameters = Parameters(
            labels=list(bundle.labels),
            provider=opened.provider.value,
            provider_reason=opened.provider.reason,
            threads=opened.threads.value,
            threads_reason=opened.threads.reason,
            **bundle.schema.limits.model_dump(),
        )
        return response


def _metadata(spec: TensorSpec) -> MetadataTensor:
    extra: dict[str, Any] = {"optional": spec.optional} if spec.optional else {}
    if spec.fields:
        extra["fields"] = [column.model_dump(exclude_none=True) for column in spec.fields]
    parameters = Parameters(**extra) if extra else None
    return MetadataTensor(name=spec.name, datatype=spec.datatype, shape=list(spec.shape), parameters=parameters)


def _label_metadata() -> MetadataTensor:
    return MetadataTensor(name="label", datatype="BYTES", shape=[-1])


def _output(answer: Answer) -> ResponseOutput:
    return ResponseOutput(name=answer.name, datatype=answer.datatype, shape=answer.shape, data=answer.data)


def _text(datatype: Any) -> str:
    # an enumeration over HTTP, plain text over gRPC.
    return str(getattr(datatype, "value", datatype))
