"""What schema.json of a bundle says about inputs, outputs and limits."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from quintet_serving.errors import BundleError


class _Part(BaseModel):
    # unknown keys are refused: a bundle that says more than this server understands would be served wrongly.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Column(_Part):
    name: str = Field(min_length=1)
    unit: str
    minimum: float | None = None
    maximum: float | None = None

    @property
    def allowed(self) -> str:
        low = "-inf" if self.minimum is None else f"{self.minimum:.9g}"
        high = "inf" if self.maximum is None else f"{self.maximum:.9g}"
        # the unit 1 marks a pure number.
        return f"{low} to {high}" if self.unit in ("", "1") else f"{low} to {high} {self.unit}"

    @property
    def middle(self) -> float:
        known = [bound for bound in (self.minimum, self.maximum) if bound is not None]
        return sum(known) / len(known) if known else 0.0


class TensorSpec(_Part):
    """An axis of -1 is free; axis 0 counts rows and axis 1 tokens. An optional input is BOOL and all true if absent."""

    name: str = Field(min_length=1)
    datatype: Literal["BOOL", "INT64", "FP32"]
    shape: tuple[int, ...] = Field(min_length=1)
    optional: bool = False
    fields: tuple[Column, ...] | None = None
    example: tuple[float, ...] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "TensorSpec":
        if any(length == 0 or length < -1 for length in self.shape):
            raise ValueError(f"{self.name} has the shape {list(self.shape)}; an axis is -1 or at least 1")
        if self.optional and self.datatype != "BOOL":
            raise ValueError(f"{self.name} is optional and {self.datatype}; only BOOL inputs can be left out")
        for columns in (self.fields, self.example):
            if columns is not None and len(columns) != self.shape[-1]:
                raise ValueError(f"{self.name} describes {len(columns)} columns for a last axis of {self.shape[-1]}")
        for column in self.fields or ():
            if column.minimum is not None and column.maximum is not None and column.minimum > column.maximum:
                raise ValueError(f"{column.name} of {self.name} has a minimum above its maximum")
        return self


class Limits(_Part):
    max_batch: int = Field(ge=1)
    max_tokens: int = Field(ge=1)
    max_request_bytes: int = Field(ge=1024)


class Schema(_Part):
    inputs: tuple[TensorSpec, ...] = Field(min_length=1)
    outputs: tuple[TensorSpec, ...] = Field(min_length=1)
    limits: Limits

    @model_validator(mode="after")
    def _distinct(self) -> "Schema":
        for tensors in (self.inputs, self.outputs):
            names = [tensor.name for tensor in tensors]
            if len(set(names)) != len(names):
                raise ValueError(f"a name is given twice in {names}")
        outputs = {tensor.name for tensor in self.outputs}
        if "logits" not in outputs or "label" in outputs:
            raise ValueError(f"outputs {sorted(outputs)} must have logits, and not label, which the server adds")
        return self

    def output(self, name: str) -> TensorSpec:
        return next(tensor for tensor in self.outputs if tensor.name == name)


def parse_schema(value: Any, source: str) -> Schema:
    """Raises BundleError with the first fault, naming `source`."""
    try:
        return Schema.model_validate(value)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"]) or "the whole"
        raise BundleError(f"{source} is refused: {place}: {fault['msg']}; export the bundle again") from error
