"""Small checkouts with a catalogue of their own, for the tests of this folder."""

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.datasets.core.catalogue import Entry

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "data" / "samples" / "orbital"

# The element set of Vanguard 1 that Vallado's papers verify SGP4 with, and one of the space station.
VANGUARD = (
    "1 00005U 58002B   00179.78495062  .00000023  00000-0  28098-4 0  4753",
    "2 00005  34.2682 348.7242 1859667 331.7664  19.3264 10.82419157413667",
)
STATION = (
    "1 25544U 98067A   08264.51782528 -.00002182  00000-0 -11606-4 0  2927",
    "2 25544  51.6416 247.4627 0006703 130.5360 325.0288 15.72125391563537",
)


def three_line_text(*sets: tuple[str, tuple[str, str]]) -> str:
    return "".join(f"0 {name}\n{first}\n{second}\n" for name, (first, second) in sets)


CONTENT = three_line_text(("VANGUARD 1", VANGUARD), ("ISS (ZARYA)", STATION)).encode()


def entry_of(content: bytes | None, sources: list[dict[str, Any]], **changes: Any) -> Entry:
    """An entry of one file of element sets: canonical content (None: live) and sources."""
    file: dict[str, Any] = {"name": "sets.tle", "sources": sources}
    if content is not None:
        file |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    fields: dict[str, Any] = {
        "name": "test-sets",
        "title": "Two element sets",
        "description": "For tests.",
        "reader": "orbital-tle",
        "licence": "none",
        "citation": "none",
        "files": [file],
        "live": content is None,
    }
    return Entry.model_validate(fields | changes)


def excluding(reasons: Mapping[int, str] | None = None) -> Entry:
    """An entry that says nothing to its reader but which rows to leave out."""
    exclude = [{"id": number, "reason": reason} for number, reason in (reasons or {}).items()]
    return entry_of(CONTENT, [{"mirror": "sets.tle"}], exclude=exclude)


def copy_of_samples(root: Path) -> Path:
    """A checkout at `root` with the catalogue and the shipped samples; the answer is the samples' folder."""
    (root / "data" / "samples").mkdir(parents=True)
    shutil.copy(ROOT / "data" / "catalogue.yaml", root / "data")
    shutil.copytree(SAMPLES, root / "data" / "samples" / "orbital")
    return root / "data" / "samples" / "orbital"


def left_files(root: Path) -> list[str]:
    """All files below `root`, to see that nothing half written stayed."""
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
