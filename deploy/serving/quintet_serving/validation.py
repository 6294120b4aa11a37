"""Turn the tensors of a request into arrays that the model accepts, or say what is wrong with them.

Nothing here knows MLServer: HTTP and gRPC requests meet the same checks.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quintet_serving.errors import RequestError
from quintet_serving.schema import Schema, TensorSpec

Array = NDArray[Any]


@dataclass(frozen=True)
class RequestTensor:
    """One input as it came: `data` is whatever the client sent, flat in row-major order or nested as `shape` says."""

    name: str
    datatype: str
    shape: Sequence[int]
    data: Any


INTEGERS = {name: np.dtype(name.lower()) for name in
            ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")}  # fmt: skip
FLOATS = {"FP16": np.dtype(np.float16), "FP32": np.dtype(np.float32), "FP64": np.dtype(np.float64)}

# which datatypes a request may use for an input of the model, and which Python values each datatype may hold.
ACCEPTED = {
    "FP32": frozenset(FLOATS) | frozenset(INTEGERS),
    "INT64": frozenset(INTEGERS),
    "BOOL": frozenset({"BOOL"}) | frozenset(INTEGERS),
}
VALUE_TYPES: dict[str, frozenset[type]] = (
    {"BOOL": frozenset({bool})}
    | dict.fromkeys(INTEGERS, frozenset({int}))
    | dict.fromkeys(FLOATS, frozenset({int, float}))
)
KINDS: dict[type, str] = {bool: "a boolean", int: "an integer", float: "a number with a fraction", str: "a text",
                          bytes: "bytes", list: "a list", dict: "an object", type(None): "null"}  # fmt: skip
FP32_MAX = float(np.finfo(np.float32).max)


def check_request(tensors: Sequence[RequestTensor], schema: Schema) -> dict[str, Array]:
    """Arrays by input name, of the datatype and shape that `schema` gives; an optional input left out is all true.

    Raises RequestError for unknown, missing and repeated inputs, a datatype, rank, width, batch or length that is not
    allowed, data that do not fill the shape, values that are of another kind, not finite, or out of a column's range.
    """
    specs = {spec.name: spec for spec in schema.inputs}
    names = [tensor.name for tensor in tensors]
    for name in names:
        if name not in specs:
            raise RequestError(f"there is no input {_shown(name)}; the inputs are {', '.join(specs)}")
        if names.count(name) > 1:
            raise RequestError(f"input {name} is given {names.count(name)} times; give it once")
    for name, spec in specs.items():
        if not spec.optional and name not in names:
            raise RequestError(f"input {name} is missing; send it as {spec.datatype} of shape {list(spec.shape)}")
    for tensor in tensors:
        _check_shape(tensor, specs[tensor.name], schema)
    free = _free_lengths(tensors, specs)
    arrays = {tensor.name: _array(tensor, specs[tensor.name]) for tensor in tensors}
    for name, spec in specs.items():
        if name not in arrays:
            shape = [free[axis] if length == -1 else length for axis, length in enumerate(spec.shape)]
            arrays[name] = np.ones(shape, dtype=np.bool_)
    for name, array in arrays.items():
        _check_ranges(specs[name], array, arrays)
    return arrays


def check_requested_outputs(names: Sequence[str] | None, offered: Sequence[str]) -> list[str]:
    """The outputs to send, in the order asked for; none asked for means all. Raises RequestError for unknown ones."""
    if not names:
        return list(offered)
    for name in names:
        if name not in offered:
            raise RequestError(f"there is no output {_shown(name)}; the outputs are {', '.join(offered)}")
    if len(set(names)) != len(names):
        raise RequestError(f"outputs {list(names)} name one twice; name each once")
    return list(names)


def example_request(schema: Schema) -> list[RequestTensor]:
    """The smallest request there is: of each required input one token, its example or the middle of each range."""
    request = []
    for spec in schema.inputs:
        if spec.optional:
            continue
        shape = [1 if length == -1 else length for length in spec.shape]
        columns = spec.example or tuple(column.middle for column in spec.fields or ()) or (1,) * shape[-1]
        kind = {"FP32": float, "INT64": int, "BOOL": bool}[spec.datatype]
        # example and fields describe the last axis; the axes before it are repeated.
        data = [kind(value) for value in columns] * math.prod(shape[:-1])
        request.append(RequestTensor(spec.name, spec.datatype, shape, data))
    return request


def _check_shape(tensor: RequestTensor, spec: TensorSpec, schema: Schema) -> None:
    accepted = ACCEPTED[spec.datatype]
    if tensor.datatype not in accepted:
        raise RequestError(
            f"input {spec.name} has datatype {_shown(tensor.datatype)}; send {spec.datatype}"
            f" (also allowed: {', '.join(sorted(accepted - {spec.datatype}))})"
        )
    shape = list(tensor.shape)
    # a long shape is never echoed in full.
    came = f"input {spec.name} has shape {_shown(shape)}"
    wanted = f"{spec.datatype} of shape {list(spec.shape)} is expected, where -1 is a free length"
    if len(shape) != len(spec.shape):
        raise RequestError(f"{came}, which has {len(shape)} axes; {wanted}")
    limits = {0: ("rows", schema.limits.max_batch), 1: ("tokens", schema.limits.max_tokens)}
    for axis, (length, allowed) in enumerate(zip(shape, spec.shape, strict=True)):
        if length < 1:
            raise RequestError(f"{came}; axis {axis} must be at least 1")
        if allowed != -1 and length != allowed:
            columns = f" ({', '.join(column.name for column in spec.fields)})" if spec.fields and axis else ""
            raise RequestError(f"{came}; axis {axis} must be {allowed}{columns}")
        if allowed == -1 and axis in limits and length > limits[axis][1]:
            what, most = limits[axis]
            raise RequestError(f"{came}; at most {most} {what} are allowed in one request, send several requests")


def _free_lengths(tensors: Sequence[RequestTensor], specs: Mapping[str, TensorSpec]) -> dict[int, int]:
    """Lengths of the free axes, which all inputs share: axis 0 is the batch everywhere, axis 1 the tokens."""
    free: dict[int, tuple[int, str]] = {}
    for tensor in tensors:
        for axis, (length, allowed) in enumerate(zip(tensor.shape, specs[tensor.name].shape, strict=True)):
            if allowed != -1:
                continue
            other, owner = free.setdefault(axis, (length, tensor.name))
            if other != length:
                raise RequestError(
                    f"inputs {owner} and {tensor.name} differ in length along axis {axis}: {other} and {length};"
                    " they must agree"
                )
    return {axis: length for axis, (length, _) in free.items()}


def _array(tensor: RequestTensor, spec: TensorSpec) -> Array:
    values = _flat_values(tensor, spec)
    for index, value in _wrong_kinds(values, tensor.datatype):
        raise RequestError(
            f"input {_place(spec, tensor.shape, index)} is {KINDS.get(type(value), type(value).__name__)}"
            f" ({_shown(value)}), which {tensor.datatype} cannot hold"
        )
    if tensor.datatype in FLOATS:
        return _real_array(values, tensor, spec)
    return _whole_array(values, tensor, spec)


def _flat_values(tensor: RequestTensor, spec: TensorSpec) -> list[Any]:
    """The elements in row-major order. Nested lists must be nested exactly as the shape says."""
    if not isinstance(tensor.data, list):
        kind = KINDS.get(type(tensor.data), type(tensor.data).__name__)
        raise RequestError(f"data of input {spec.name} is {kind}; send a list of numbers in row-major order")
    values = tensor.data
    if values and type(values[0]) is list:
        for axis, length in enumerate(tensor.shape):
            lists = [tensor.data] if axis == 0 else values
            if not all(type(part) is list and len(part) == length for part in lists):
                raise RequestError(
                    f"data of input {spec.name} is nested otherwise than its shape {_shown(list(tensor.shape))} says:"
                    f" lists of {length} are expected at depth {axis}; send a flat list, or nest it as the shape says"
                )
            values = list(itertools.chain.from_iterable(lists))
    count = math.prod(tensor.shape)
    if len(values) != count:
        raise RequestError(
            f"input {spec.name} has {len(values)} numbers in data, but its shape {_shown(list(tensor.shape))}"
            f" needs {count}; send exactly as many"
        )
    return values


def _wrong_kinds(values: list[Any], datatype: str) -> list[tuple[int, Any]]:
    allowed = VALUE_TYPES[datatype]
    # the set of types is found much faster than a loop in Python would; the loop only runs to name a culprit.
    if set(map(type, values)) <= allowed:
        return []
    return [next((index, value) for index, value in enumerate(values) if type(value) not in allowed)]


def _real_array(values: list[Any], tensor: RequestTensor, spec: TensorSpec) -> Array:
    try:
        wide = np.array(values, dtype=np.float64)
    except OverflowError as error:
        raise RequestError(f"input {spec.name} holds an integer that no FP32 number can hold") from error
    bad = np.flatnonzero(~(np.abs(wide) <= FP32_MAX))
    if bad.size:
        raise RequestError(
            f"input {_place(spec, tensor.shape, int(bad[0]))} is {wide[bad[0]]:g}, which is no finite FP32 number"
            f"{_others(bad.size)}; send finite numbers, and mask what is unknown"
        )
    return wide.astype(np.float32).reshape(tensor.shape)


def _whole_array(values: list[Any], tensor: RequestTensor, spec: TensorSpec) -> Array:
    """Integers and booleans, checked against the range of the datatype that the client declared."""
    declared = INTEGERS.get(tensor.datatype)
    low, high = (0, 1) if spec.datatype == "BOOL" else (-(2**63), 2**63 - 1)
    if declared is not None:
        low, high = max(low, int(np.iinfo(declared).min)), min(high, int(np.iinfo(declared).max))
    if min(values) < low or max(values) > high:
        index = next(index for index, value in enumerate(values) if not low <= value <= high)
        raise RequestError(
            f"input {_place(spec, tensor.shape, index)} is {_shown(values[index])}; as {tensor.datatype} for this input"
            f" it must be from {low} to {high}"
        )
    target = {"BOOL": np.bool_, "INT64": np.int64, "FP32": np.float32}[spec.datatype]
    return np.array(values, dtype=target).reshape(tensor.shape)


def _check_ranges(spec: TensorSpec, array: Array, arrays: Mapping[str, Array]) -> None:
    """Columns with a range are checked where the mask says that a token counts; padding may hold anything finite."""
    if spec.fields is None:
        return
    low = np.array([-np.inf if column.minimum is None else column.minimum for column in spec.fields])
    high = np.array([np.inf if column.maximum is None else column.maximum for column in spec.fields])
    outside = (array < low.astype(np.float32)) | (array > high.astype(np.float32))
    mask = arrays.get("mask")
    if mask is not None and mask.shape == array.shape[:-1]:
        outside &= mask[..., None]
    bad = np.flatnonzero(outside)
    if bad.size:
        column = spec.fields[int(bad[0]) % len(spec.fields)]
        raise RequestError(
            f"input {_place(spec, array.shape, int(bad[0]))} is {array.ravel()[bad[0]]:g}, outside of {column.allowed}"
            f"{_others(bad.size)}; check the unit, or mask the token"
        )


def _place(spec: TensorSpec, shape: Sequence[int], index: int) -> str:
    """Where element `index` of the flat data lies, as a client would name it: row, token and column."""
    position = [int(part) for part in np.unravel_index(index, tuple(shape))]
    column = spec.fields[position[-1]].name if spec.fields else ""
    parts = [f"row {position[0]}"] + [f"token {part}" for part in position[1:2] if len(position) > 2 or not column]
    return f"{spec.name}, {', '.join(parts)}{', ' + column if column else ''}"


def _others(count: int) -> str:
    return f" (and {count - 1} more)" if count > 1 else ""


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
