"""Parquet that is refused, never coerced: exactly the columns that are expected, of their types, without nulls."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from components.datasets.core.archives import readable_head
from components.datasets.core.faults import fault

PARQUET_MAGIC = b"PAR1"
ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class ColumnType:
    """What a column may be: `accepts` judges its Arrow type, `name` says it in words."""

    name: str
    accepts: Callable[[pa.DataType], bool]


STRING = ColumnType("text", lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind))
INTEGER = ColumnType("whole numbers", pa.types.is_integer)
NUMBER = ColumnType("numbers", lambda kind: pa.types.is_integer(kind) or pa.types.is_floating(kind))
# the layout of image columns on the Hugging Face hub: the encoded file and its name
IMAGE = ColumnType(
    "a struct of bytes (binary) and path (text)",
    lambda kind: (
        pa.types.is_struct(kind)
        and {kind.field(i).name for i in range(kind.num_fields)} == {"bytes", "path"}
        and pa.types.is_binary(kind.field("bytes").type)
    ),
)


def read_batches(path: Path, columns: Mapping[str, ColumnType]) -> Iterator[dict[str, list[Any]]]:
    """Rows of the parquet file at `path` in pieces, each a list of values by column; it has exactly `columns`.

    Raises DataError for a file that is not parquet or is broken, for a column missing, unknown or of another type, for
    a null, and for no rows. Memory is bounded by a piece.
    """
    with _opened(path) as file:
        _check_columns(path, file.schema_arrow, columns)
        if file.metadata.num_rows == 0:
            raise fault(path, "", "no rows", "one row or more")
        row = 0
        batches = file.iter_batches(batch_size=ROWS_AT_ONCE)
        while True:
            try:
                batch = next(batches, None)
            except (pa.ArrowException, OSError) as error:
                raise _broken(path, error) from None
            if batch is None:
                return
            for name in columns:
                if batch.column(name).null_count:
                    place = row + batch.column(name).is_null().to_pylist().index(True)
                    raise fault(path, f"row {place + 1}, column {name}", "no value", columns[name].name)
            row += batch.num_rows
            yield {name: batch.column(name).to_pylist() for name in columns}


def row_count(path: Path) -> int:
    """Number of rows, from the file's own footer."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def _opened(path: Path) -> pq.ParquetFile:
    head = readable_head(path)
    if not head.startswith(PARQUET_MAGIC):
        raise fault(path, "byte 1", repr(head[:8].decode("latin-1")), "a parquet file (it begins PAR1)")
    try:
        return pq.ParquetFile(path, memory_map=True)
    except (pa.ArrowException, OSError) as error:
        raise _broken(path, error) from None


def _broken(path: Path, error: Exception) -> Exception:
    reason = " ".join(str(error).split())[:120]
    return fault(path, "", f"a broken parquet file ({reason})", "a complete one, fetched again")


def _check_columns(path: Path, schema: pa.Schema, columns: Mapping[str, ColumnType]) -> None:
    wanted = f"exactly the columns {', '.join(columns)}"
    missing = [name for name in columns if name not in schema.names]
    extra = [name for name in schema.names if name not in columns]
    if missing:
        raise fault(path, "", f"no column {missing[0]!r} (it has {', '.join(schema.names)})", wanted)
    if extra or len(schema.names) != len(columns):
        raise fault(path, "", f"an unknown column {(extra or schema.names)[0]!r}", wanted)
    for name, kind in columns.items():
        if not kind.accepts(schema.field(name).type):
            raise fault(path, f"column {name}", f"the type {schema.field(name).type}", kind.name)
