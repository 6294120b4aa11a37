"""Parquet: exactly the expected columns, or one line that says what came."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.datasets.core.parquet import INTEGER, NUMBER, STRING, read_batches, row_count
from components.errors import DataError
from tests.datasets.texts import write_parquet

COLUMNS = {"text": STRING, "label": INTEGER}


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.text(max_size=20), st.integers(-9, 9)), min_size=1, max_size=3000))
def test_rows_come_as_they_were_written(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int]]) -> None:
    path = tmp_path_factory.mktemp("parquet") / "a.parquet"
    texts, labels = ([row[i] for row in rows] for i in (0, 1))
    write_parquet(path, {"label": labels, "text": texts})
    assert row_count(path) == len(rows)
    read = [pair for b in read_batches(path, COLUMNS) for pair in zip(b["text"], b["label"], strict=True)]
    assert read == rows


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0xFF]) * 40 + content[middle + 40 :]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda content: b"", "an empty file"),
        (lambda content: b"<html><title>Gone</title></html>", "an HTML page titled 'Gone'"),
        (lambda content: b"text,label\na,1\n", r"a parquet file \(it begins PAR1\)"),
        (lambda content: content[: len(content) // 2], "a broken parquet file"),
        (lambda content: content[:-1], "a broken parquet file"),
    ],
    ids=["empty", "web page", "CSV", "half", "last byte"],
)
def test_what_is_no_parquet_is_refused(tmp_path: Path, change: Callable[[bytes], bytes], told: str) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"text": ["a"] * 50, "label": list(range(50))})
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=told) as caught:
        list(read_batches(path, COLUMNS))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"text": ["a"]}, r"no column 'label' \(it has text\), allowed is exactly the columns text, label"),
        ({"text": ["a"], "label": [1], "idx": [0]}, "an unknown column 'idx'"),
        ({"text": ["a"], "label": ["1"]}, "column label: got the type string, allowed is whole numbers"),
        ({"text": [b"a"], "label": [1]}, "column text: got the type binary, allowed is text"),
        ({"text": ["a", None, "c"], "label": [1, 2, 3]}, "row 2, column text: got no value"),
        ({"text": pa.array([], pa.string()), "label": pa.array([], pa.int64())}, "no rows"),
    ],
    ids=["missing", "extra", "type", "binary", "null", "empty"],
)
def test_other_columns_are_refused(tmp_path: Path, columns: dict[str, object], told: str) -> None:
    with pytest.raises(DataError, match=told):
        list(read_batches(write_parquet(tmp_path / "a.parquet", columns), COLUMNS))


def test_a_null_is_counted_over_pieces(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"text": ["a"] * 3000 + [None], "label": [0.5] * 3001})
    with pytest.raises(DataError, match="row 3001, column text"):
        list(read_batches(path, {"text": STRING, "label": NUMBER}))
