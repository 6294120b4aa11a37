"""Small entries and files of text, as each publisher would write them."""

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from components.datasets.core.catalogue import Entry
from components.datasets.readers import reader_named
from components.datasets.text.source import TextRow, TextSource


def text_entry(reader: str, paths: Mapping[str, str | None], **options: Any) -> Entry:
    """An entry whose files are named in `paths` (name to split)."""
    return Entry.model_validate(
        {
            "name": "some-text",
            "title": "t",
            "description": "d",
            "reader": reader,
            "licence": "l",
            "citation": "c",
            "options": {"classes": ["no", "yes"], **options},
            "files": [
                {
                    "name": name,
                    "split": split,
                    "sha256": hashlib.sha256(name.encode()).hexdigest(),
                    "bytes": 1,
                    "sources": [{"mirror": name}],
                }
                for name, split in paths.items()
            ],
        }
    )


def read(entry: Entry, folder: Path) -> TextSource:
    source: TextSource = reader_named(entry.reader)([folder / file.name for file in entry.files], entry)
    return source


def rows_of(source: TextSource, split: str = "train") -> list[TextRow]:
    return list(source.parts[split]())


def write_parquet(path: Path, columns: Mapping[str, Any]) -> Path:
    pq.write_table(pa.table(dict(columns)), path)
    return path


def tar_bytes(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def zip_bytes(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()
