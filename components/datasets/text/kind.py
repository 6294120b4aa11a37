"""Text as a kind of data: rows.parquet with id, text, perhaps second, label, group and split."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.datasets.text.config import GateOptions, PrepareOptions

if TYPE_CHECKING:
    from components.datasets.core.catalogue import Entry
    from components.datasets.core.planning import Plan
    from components.datasets.text.source import TextRow, TextSource
    from components.progress import Tell

READERS = (
    "text-parquet",
    "text-csv",
    "text-lines",
    "imdb-archive",
    "glue-archive",
    "mrpc-tables",
    "newsgroups-archive",
    "newsgroups-parquet",
)
ROWS_AT_ONCE = 2048

__all__ = ["READERS", "GateOptions", "PrepareOptions", "prepare"]


def prepare(
    entry: "Entry", paths: Sequence[Path], options: PrepareOptions, folder: Path, tell: "Tell"
) -> dict[str, Any]:
    """Write rows.parquet into `folder`. The texts are read twice, once to plan and once to write, row by row."""
    from components.arrays import SPLITS
    from components.datasets.core.planning import LEFT_OUT, RowIndex, plan_rows
    from components.datasets.readers import reader_named

    source: TextSource = reader_named(entry.reader)(paths, entry)
    index = RowIndex()
    facts = {"emptied": 0, "cut": 0}
    for split, row in _rows(source, options, facts):
        # targets of a regression are kept in proportion by whole numbers
        index.add(split, identity(row), int(row.label), *(row.threads if options.group_by == "thread" else row.groups))
        if len(index) % ROWS_AT_ONCE == 0:
            tell(len(index), None)
    plan = plan_rows(index, options)
    # a row that its reader tied to nothing is in no group
    groups = [name if tied else "" for name, tied in zip(plan.groups, index.groups, strict=True)]
    rows_of_entry = len(index) + facts["emptied"]
    facts = {"emptied": 0, "cut": 0}
    _write(folder / "rows.parquet", source, options, plan, groups, facts, tell)
    kept = [i for i in range(len(index)) if plan.splits[i] != LEFT_OUT]
    counts = None
    if source.classes is not None:
        counts = {split: dict.fromkeys(source.classes, 0) for split in SPLITS}
        for i in kept:
            counts[SPLITS[plan.splits[i]]][source.classes[int(index.labels[i])]] += 1
    return {
        **plan.facts,
        **facts,
        "rows_of_entry": rows_of_entry,
        "rows": len(kept),
        "splits": plan.rows(),
        "classes": list(source.classes) if source.classes is not None else None,
        "counts": counts,
        "pairs": source.pairs,
    }


def identity(row: "TextRow") -> str:
    """What makes two rows the same row: their texts, but for white space."""
    from components.files import sha256_bytes

    # surrogates cannot come from UTF-8 and would break here
    return sha256_bytes("\x1f".join(" ".join((part or "").split()) for part in (row.text, row.second)).encode())


def _rows(source: "TextSource", options: PrepareOptions, facts: dict[str, int]) -> "Iterator[tuple[str, TextRow]]":
    """The rows as they are written, with the splits they are published for; what becomes empty is left out and counted.

    Raises ConfigError where the development rows are to be the test and a test was published.
    """
    from dataclasses import replace

    from components.datasets.text.messages import stripped
    from components.errors import ConfigError

    renamed = {"validation": "test"} if options.validation_as_test else {}
    if options.validation_as_test and ("test" in source.parts or "validation" not in source.parts):
        raise ConfigError(
            f"prepare.validation_as_test is true, but the published splits are {', '.join(source.parts)}; allowed is "
            "true where there is a validation and no test; leave the option out"
        )
    for split, rows in source.parts.items():
        for row in rows():
            text = stripped(row.text, options.remove) if options.remove else row.text
            if not text.strip():
                facts["emptied"] += 1
                continue
            limit = options.max_characters
            if limit is not None and max(len(text), len(row.second or "")) > limit:
                facts["cut"] += 1
            second = row.second[:limit] if row.second is not None else None
            yield renamed.get(split, split), replace(row, text=text[:limit], second=second)


def _write(
    path: Path,
    source: "TextSource",
    options: PrepareOptions,
    plan: "Plan",
    groups: list[str],
    facts: dict[str, int],
    tell: "Tell",
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from components.arrays import SPLITS
    from components.datasets.core.planning import LEFT_OUT

    text, number = pa.string(), pa.int64() if source.classes is not None else pa.float64()
    fields = {"id": text, "text": text, "second": text, "label": number, "group": text, "split": text}
    if not source.pairs:
        del fields["second"]
    schema = pa.schema(list(fields.items()))
    waiting: list[dict[str, Any]] = []
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for i, (_, row) in enumerate(_rows(source, options, facts)):
            if plan.splits[i] == LEFT_OUT:
                continue
            entry = {"id": row.id, "text": row.text, "second": row.second, "label": row.label}
            waiting.append({**entry, "group": groups[i], "split": SPLITS[plan.splits[i]]})
            if len(waiting) == ROWS_AT_ONCE:
                writer.write_table(pa.Table.from_pylist(waiting, schema=schema))
                waiting.clear()
                tell(i + 1, len(plan.splits))
        if waiting:
            writer.write_table(pa.Table.from_pylist(waiting, schema=schema))
    tell(len(plan.splits), len(plan.splits))
