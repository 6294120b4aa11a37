"""Entries whose publisher changes them daily: what the first fetch gets is pinned until a refresh is asked for.

The pin, data/raw/ENTRY/pin.json, holds each file's sha256 and size, its address and when it was had. So a run today and
a run next week read the same bytes, and two checkouts can be compared by their pins.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from components.config import Strict
from components.datasets.core.catalogue import DataFile, Entry, Sha256
from components.datasets.core.download import SourceError
from components.datasets.core.faults import shown_path
from components.datasets.core.sources import DifferentContentError, Place, obtain, require_content
from components.datasets.readers import reader_named
from components.errors import DataError
from components.files import read_json, replacing_folder, sha256_file, write_json

PIN_NAME = "pin.json"


class PinnedFile(Strict):
    """What was had of one file, from where and when (ISO 8601, UTC)."""

    sha256: Sha256
    bytes: int
    url: str
    retrieved: str


class Pin(Strict):
    """The content of pin.json."""

    format: Literal["quintet-pin/1"]
    entry: str
    files: dict[str, PinnedFile]


def fetch_live(entry: Entry, folder: Path, place: Place, refresh: bool) -> tuple[tuple[Path, ...], str]:
    """The pinned files of a live entry and the reason, fetched and pinned where there is no pin or `refresh` asks."""
    if not refresh:
        paths = check_pin(entry, folder)
        if paths:
            return paths, "pinned by an earlier fetch, verified"
    pinned: dict[str, PinnedFile] = {}
    # all files change together: the old ones stay until the last new one is had and read
    with replacing_folder(folder) as fresh:
        for file in entry.files:
            url = _obtain_any(entry, file, fresh / file.name, place)
            pinned[file.name] = PinnedFile(
                sha256=sha256_file(fresh / file.name),
                bytes=(fresh / file.name).stat().st_size,
                url=url,
                retrieved=datetime.now(UTC).isoformat(timespec="seconds"),
            )
        try:
            reader_named(entry.reader)([fresh / file.name for file in entry.files], entry)
        except DataError as error:
            raise DataError(f"{entry.name}: what the publisher sent is refused, nothing was pinned: {error}") from None
        pin = Pin(format="quintet-pin/1", entry=entry.name, files=pinned)
        write_json(fresh / PIN_NAME, pin.model_dump())
    return tuple(folder / file.name for file in entry.files), "fetched from its publisher and pinned"


def check_pin(entry: Entry, folder: Path) -> tuple[Path, ...]:
    """The files of a live entry, equal to their pin; none where nothing was fetched. Raises DataError."""
    path = folder / PIN_NAME
    if not path.is_file():
        return ()
    pin = _read_pin(path, entry)
    paths = []
    for file in entry.files:
        lying = folder / file.name
        pinned = pin.files[file.name]
        if not lying.is_file():
            raise DataError(f"{shown_path(lying)} is pinned and absent; {_mend(entry)}")
        try:
            require_content(lying, file.model_copy(update={"sha256": pinned.sha256, "bytes": pinned.bytes}))
        except DifferentContentError as error:
            expected = f"{pinned.bytes:,} bytes, sha256 {pinned.sha256}"
            raise DataError(
                f"{shown_path(lying)}: got {error}, allowed is what was pinned ({expected}); {_mend(entry)}"
            ) from None
        paths.append(lying)
    return tuple(paths)


def _read_pin(path: Path, entry: Entry) -> Pin:
    try:
        content: Any = read_json(path)
        pin = Pin.model_validate(content)
    except (ValueError, ValidationError):
        raise DataError(f"{shown_path(path)} is no pin; {_mend(entry)}") from None
    wanted = {file.name for file in entry.files}
    if set(pin.files) != wanted:
        came = ", ".join(sorted(pin.files)) or "none"
        raise DataError(
            f"{shown_path(path)} pins the files {came}, "
            f"allowed are those of the catalogue, {', '.join(sorted(wanted))}; {_mend(entry)}"
        )
    return pin


def _obtain_any(entry: Entry, file: DataFile, target: Path, place: Place) -> str:
    """Have `file` from the first address that yields it; the answer is that address."""
    failures = []
    for source in file.sources:
        url = str(getattr(source, "url", ""))
        try:
            obtain(source, file, target, place)
        except SourceError as error:
            failures.append(f"{url}: {error}")
        else:
            return url
    raise DataError(
        f"{entry.name}: no source yields {file.name}; {'; '.join(failures)}; "
        f"mend: check the connection and run `quintet data fetch {entry.name}` again; nothing was changed"
    )


def _mend(entry: Entry) -> str:
    return f"`quintet data fetch {entry.name} --refresh` fetches today's data and pins it"
