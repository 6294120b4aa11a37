"""Requests against the schema, without a server."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quintet_serving.errors import BundleError, RequestError
from quintet_serving.model import BundleModel
from quintet_serving.schema import Schema, parse_schema
from quintet_serving.validation import RequestTensor, check_request, check_requested_outputs, example_request
from small_bundle import COLUMNS, EXAMPLE, LABELS, rows, schema

SCHEMA: Schema = parse_schema(schema(), "here")


def tokens(values: Any = None, shape: Any = (1, 1, 7), datatype: str = "FP32", name: str = "tokens") -> RequestTensor:
    return RequestTensor(name, datatype, list(shape), list(EXAMPLE) if values is None else values)


def mask(values: Any, shape: Any, datatype: str = "BOOL") -> RequestTensor:
    return RequestTensor("mask", datatype, list(shape), values)


def changed(column: int, value: Any) -> RequestTensor:
    values: list[Any] = list(EXAMPLE)
    values[column] = value
    return tokens(values)


def test_numbers_arrive_unchanged_and_the_mask_is_all_true() -> None:
    array = rows(3, 2)
    got = check_request([tokens(array.ravel().tolist(), (3, 2, 7))], SCHEMA)
    np.testing.assert_array_equal(got["tokens"], array)
    assert got["tokens"].dtype == np.float32
    assert got["mask"].dtype == np.bool_
    assert got["mask"].shape == (3, 2)
    assert got["mask"].all()


@pytest.mark.parametrize("datatype", ["FP16", "FP32", "FP64"])
def test_real_datatypes_are_cast(datatype: str) -> None:
    got = check_request([tokens([*EXAMPLE[:-1], 6796], datatype=datatype)], SCHEMA)["tokens"]
    np.testing.assert_array_equal(got.ravel(), np.float32([*EXAMPLE[:-1], 6796]))


@pytest.mark.parametrize("datatype", ["INT16", "INT32", "INT64", "UINT16", "UINT32", "UINT64"])
def test_whole_datatypes_are_cast(datatype: str) -> None:
    got = check_request([tokens([51, 413, 422, 0, 92, 15, 6795], datatype=datatype)], SCHEMA)["tokens"]
    assert got.dtype == np.float32
    assert got.ravel().tolist() == [51, 413, 422, 0, 92, 15, 6795]


def test_a_nested_list_means_the_same_as_a_flat_one() -> None:
    array = rows(2, 3)
    nested = check_request([tokens(array.tolist(), (2, 3, 7))], SCHEMA)["tokens"]
    np.testing.assert_array_equal(nested, array)


REFUSED: dict[str, tuple[list[RequestTensor], list[str]]] = {
    "nothing": ([], ["tokens is missing", "FP32"]),
    "only a mask": ([mask([True], (1, 1))], ["tokens is missing"]),
    "unknown input": ([tokens(), tokens(name="labels")], ["no input 'labels'", "tokens, mask"]),
    "twice": ([tokens(), tokens()], ["given 2 times"]),
    "text datatype": ([tokens(datatype="BYTES")], ["BYTES", "send FP32"]),
    "boolean datatype": ([tokens([True] * 7, datatype="BOOL")], ["BOOL", "send FP32"]),
    "invented datatype": ([tokens(datatype="FP8")], ["FP8"]),
    "two axes": ([tokens(shape=(1, 7))], ["2 axes", "[-1, -1, 7]"]),
    "four axes": ([tokens(shape=(1, 1, 1, 7))], ["4 axes"]),
    "narrow": ([tokens(EXAMPLE[:6], (1, 1, 6))], ["must be 7", "inclination_deg"]),
    "wide": ([tokens([*EXAMPLE, 1.0], (1, 1, 8))], ["must be 7"]),
    "no rows": ([tokens([], (0, 1, 7))], ["axis 0", "at least 1"]),
    "negative": ([tokens(shape=(-1, 1, 7))], ["at least 1"]),
    "twice negative": ([tokens(shape=(-1, -1, 7))], ["at least 1"]),
    "too large a batch": ([tokens(EXAMPLE * 65, (65, 1, 7))], ["at most 64 rows"]),
    "too many tokens": ([tokens(EXAMPLE * 9, (1, 9, 7))], ["at most 8 tokens"]),
    "giant": ([tokens(shape=(10**30, 10**30, 7))], ["at most 64 rows"]),
    "many axes": ([tokens(shape=(1,) * 100000)], ["100000 axes"]),
    "too few numbers": ([tokens(EXAMPLE[:5])], ["5 numbers", "needs 7"]),
    "too many numbers": ([tokens(EXAMPLE * 2)], ["14 numbers"]),
    "no numbers": ([tokens([])], ["0 numbers"]),
    "data is a text": ([tokens("abc")], ["is a text", "list"]),
    "data is an object": ([tokens({})], ["an object"]),
    "a text among numbers": ([changed(2, "422")], ["apogee_km", "a text ('422')"]),
    "a boolean among numbers": ([changed(3, True)], ["eccentricity", "a boolean"]),
    "null among numbers": ([changed(0, None)], ["inclination_deg", "null"]),
    "a list among numbers": ([changed(6, [1.0])], ["semi_major_axis_km", "a list"]),
    "a fraction as integer": ([tokens([1.5, 413, 422, 0, 92, 15, 6795], datatype="INT32")], ["fraction", "INT32"]),
    "an integer too large for its type": ([tokens([51, 413, 422, 0, 92, 15, 6795], datatype="INT8")], ["-128 to 127"]),
    "a negative unsigned": ([tokens([-1, 413, 422, 0, 92, 15, 6795], datatype="UINT32")], ["from 0 to"]),
    "NaN": ([changed(4, math.nan)], ["row 0, token 0, period_min", "nan"]),
    "infinity": ([changed(4, math.inf)], ["period_min", "inf"]),
    "beyond float32": ([changed(4, 1e39)], ["period_min", "finite FP32"]),
    "an integer beyond all floats": ([changed(4, 10**400)], ["FP32"]),
    "out of range below": ([changed(0, -0.1)], ["inclination_deg", "-0.1", "0 to 180 deg"]),
    "out of range above": ([changed(3, 1.5)], ["eccentricity", "1.5", "outside of 0 to 0.9999999;"]),
    "radians beside a bound on one side": ([changed(4, 1.6)], ["period_min", "80 to inf min"]),
    "ragged": ([tokens([[EXAMPLE, EXAMPLE[:6]]], (1, 2, 7))], ["nested otherwise", "lists of 7", "depth 2"]),
    "nested too little": ([tokens([EXAMPLE, EXAMPLE], (2, 1, 7))], ["nested otherwise"]),
    "nested too much": ([tokens([[[EXAMPLE]]], (1, 1, 7))], ["nested otherwise"]),
    "mask of another batch": ([tokens(), mask([True, True], (2, 1))], ["differ in length along axis 0: 1 and 2"]),
    "mask of another length": ([tokens(), mask([True, True], (1, 2))], ["axis 1"]),
    "mask of numbers": ([tokens(), mask([1.0], (1, 1), "FP32")], ["mask", "BOOL"]),
    "mask with numbers": ([tokens(), mask([1], (1, 1))], ["mask, row 0, token 0", "an integer (1)"]),
    "mask of two": ([tokens(), mask([2], (1, 1), "UINT8")], ["from 0 to 1"]),
    "mask with a column axis": ([tokens(), mask([True], (1, 1, 1))], ["3 axes"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_request_is_refused_with_its_reason(case: str) -> None:
    request, words = REFUSED[case]
    with pytest.raises(RequestError) as refusal:
        check_request(request, SCHEMA)
    message = str(refusal.value)
    for word in words:
        assert word in message
    assert len(message) < 400


def test_the_row_and_the_number_of_faults_are_named() -> None:
    array = rows(5, 2)
    array[3, 1, 3] = 1.25
    array[4, 0, 0] = 200
    with pytest.raises(RequestError, match=r"row 3, token 1, eccentricity is 1.25.*and 1 more"):
        check_request([tokens(array.ravel().tolist(), (5, 2, 7))], SCHEMA)


def test_the_bounds_themselves_are_inside() -> None:
    for column, (_, _, low, high) in enumerate(COLUMNS):
        for bound in (low, high):
            if bound is not None:
                check_request([changed(column, bound)], SCHEMA)


def test_ranges_are_not_asked_of_masked_tokens_but_finiteness_is() -> None:
    padded = [*EXAMPLE, *[0.0] * 7]
    check_request([tokens(padded, (1, 2, 7)), mask([True, False], (1, 2))], SCHEMA)
    with pytest.raises(RequestError, match="token 1, perigee_km"):
        check_request([tokens(padded, (1, 2, 7)), mask([True, True], (1, 2))], SCHEMA)
    with pytest.raises(RequestError, match="finite"):
        check_request([tokens([*EXAMPLE, *[math.nan] * 7], (1, 2, 7)), mask([True, False], (1, 2))], SCHEMA)


def test_a_mask_of_zeros_and_ones_is_cast() -> None:
    got = check_request([tokens(EXAMPLE * 2, (1, 2, 7)), mask([1, 0], (1, 2), "INT8")], SCHEMA)["mask"]
    assert got.tolist() == [[True, False]]
    assert got.dtype == np.bool_


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(
    name=st.sampled_from(["tokens", "mask", "x"]),
    datatype=st.sampled_from(["FP32", "FP64", "INT64", "BOOL", "BYTES", ""]),
    shape=st.lists(st.integers(min_value=-2, max_value=9) | st.integers(), max_size=4) | st.just([1, 1, 7]),
    data=json_values | st.lists(st.floats() | st.integers(), min_size=7, max_size=7),
)
def test_whatever_comes_is_refused_in_words_or_makes_arrays_of_the_schema(
    name: str, datatype: str, shape: list[int], data: Any
) -> None:
    request = [RequestTensor(name, datatype, shape, data)] + ([tokens()] if name == "mask" else [])
    try:
        got = check_request(request, SCHEMA)
    except RequestError:
        return
    assert got["tokens"].dtype == np.float32
    assert got["tokens"].shape[2:] == (7,)
    assert np.isfinite(got["tokens"]).all()
    assert got["mask"].shape == got["tokens"].shape[:2]


def test_requested_outputs() -> None:
    offered = ["logits", "label"]
    assert check_requested_outputs(None, offered) == check_requested_outputs([], offered) == offered
    assert check_requested_outputs(["label"], offered) == ["label"]
    for wrong in (["loss"], ["label", "label"]):
        with pytest.raises(RequestError):
            check_requested_outputs(wrong, offered)


def test_the_example_is_real_where_there_is_one_and_allowed_where_not() -> None:
    assert example_request(SCHEMA) == [tokens()]
    plain = schema()
    del plain["inputs"][0]["example"]
    check_request(example_request(parse_schema(plain, "here")), SCHEMA)


def test_answers_are_those_of_onnxruntime(bundle: Path) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(bundle / "model.onnx", providers=["CPUExecutionProvider"])
    model = BundleModel.load(bundle)
    array, valid = rows(5, 3), np.array([[True, True, False]] * 4 + [[False] * 3])
    expected = session.run(None, {"tokens": array, "mask": valid})
    answers = model.answer(
        [tokens(array.ravel().tolist(), array.shape), mask(valid.ravel().tolist(), valid.shape)],
        ["logits", "probabilities", "assignments", "label"],
    )
    for answer, array_ in zip(answers[:3], expected, strict=True):
        np.testing.assert_array_equal(np.array(answer.data, dtype=np.float32).reshape(answer.shape), array_)
    assert answers[3].data == [LABELS[index] for index in expected[0].argmax(axis=1)]
    assert answers[3].shape == [5]
    assert answers[3].datatype == "BYTES"


def test_an_answer_that_is_not_finite_is_refused_by_row(make_bundle: Any) -> None:
    from small_bundle import onnx_model

    # the range is opened, so that only the model's own limits are left.
    open_schema = schema()
    for column in open_schema["inputs"][0]["fields"]:
        column.pop("minimum", None)
        column.pop("maximum", None)
    centre = [60.0, 3000.0, 5000.0, 0.1, 200.0, 12.0, 10000.0]
    open_schema["inputs"][0]["example"] = centre
    model = BundleModel.load(make_bundle(model=onnx_model(overflow=True), schema=open_schema))
    assert model.answer([tokens(centre)])
    with pytest.raises(RequestError, match="no finite logits for row 1"):
        model.answer([tokens([*centre, *[1e30] * 7], (2, 1, 7))])


def test_a_graph_that_differs_from_the_schema_is_refused(make_bundle: Any) -> None:
    other = schema()
    other["outputs"][2]["name"] = "weights"
    with pytest.raises(BundleError, match="disagree on outputs"):
        BundleModel.load(make_bundle(schema=other))
    with pytest.raises(BundleError, match="cannot be read"):
        BundleModel.load(make_bundle(model=b"no model at all"))


def test_a_tensor_is_not_changed_by_checking_it() -> None:
    tensor = tokens()
    before = replace(tensor, data=list(tensor.data))
    check_request([tensor], SCHEMA)
    assert tensor == before
