"""The files of an encoder in Hugging Face's layout, checked before any library loads them."""

import json
import struct
from collections.abc import Sequence
from pathlib import Path

from components.datasets.core.archives import readable_head
from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault
from components.errors import DataError

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
NEEDED = (CONFIG, WEIGHTS, "tokenizer.json")
# Headers are a few tens of kilobytes; the format's own limit is 100 MB.
HEADER_LIMIT = 100_000_000


def read_files(paths: Sequence[Path], entry: Entry) -> Path:
    """The folder of the encoder. Raises DataError where a file is missing or not in its format."""
    by_name = {path.name: path for path in paths}
    for name in NEEDED:
        if name not in by_name:
            raise DataError(
                f"{entry.name}: no file {name} among {', '.join(by_name)}; an encoder needs {', '.join(NEEDED)}"
            )
    for name, path in by_name.items():
        readable_head(path)
        if name.endswith(".json"):
            _require_json(path)
    _require_safetensors(by_name[WEIGHTS])
    return by_name[WEIGHTS].parent


def _require_json(path: Path) -> None:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise fault(path, "", f"no JSON ({' '.join(str(error).split())})", "a JSON file") from None


def _require_safetensors(path: Path) -> None:
    """The header must be JSON and lie inside the file; pickled weights do not begin so, and are never loaded."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else HEADER_LIMIT
        if length >= min(HEADER_LIMIT, size - 8):
            raise fault(path, "bytes 1 to 8", f"a header of {length:,} bytes in {size:,}", "a safetensors file")
        try:
            tensors = json.loads(file.read(length))
        except ValueError:
            raise fault(path, "header", "no JSON", "a safetensors file") from None
    end = max((entry["data_offsets"][1] for name, entry in tensors.items() if name != "__metadata__"), default=0)
    if 8 + length + end != size:
        raise fault(path, "", f"{size:,} bytes", f"{8 + length + end:,}, which its header needs")
