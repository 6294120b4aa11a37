"""Archives of strangers, read member by member and never unpacked to disk.

What a header promises is not believed: bytes are counted as they come, so a small file that swells to a huge one is
stopped at the limit. Names that would leave the folder they are joined to, links, devices and encrypted members are
refused although nothing is written, since such an archive is not the one its publisher made.
"""

import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from components.datasets.core.download import html_complaint
from components.datasets.core.faults import fault, shown_path, shown_value
from components.errors import DataError

CHUNK_BYTES = 1 << 20
GZIP_MAGIC = b"\x1f\x8b"
# The second is that of a zip archive without members.
ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
# A tar archive ends with blocks of zeros.
TAR_BLOCK_BYTES = 512
# No text has a longer line; a file of one line is not gathered in memory whole.
LINE_BYTES = 1 << 26
# The last record of a zip archive, with the longest comment that may follow it; where it holds the number of members,
# and the number that stands for one told elsewhere.
ZIP_END_MAGIC = b"PK\x05\x06"
ZIP_END_BYTES = 22 + 0xFFFF
ZIP_END_COUNT = 10
ZIP_COUNT_ELSEWHERE = 0xFFFF
# Names listed where the wanted one is not there.
NAMES_SHOWN = 6

# A broken archive shows itself by any of these, depending on where it is broken.
# NotImplementedError: zipfile does not know a way of packing, which a flipped byte makes as well.
_BROKEN = (
    OSError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    ValueError,
    struct.error,
    NotImplementedError,
)
_ENCRYPTED = 0x1


@dataclass(frozen=True)
class Limits:
    """The most that an archive may hold: bytes of one member, bytes of all together, number of members."""

    member_bytes: int
    total_bytes: int
    members: int


class Member:
    """One file of an archive: its name in POSIX form and its size. It is read once, while it is the current one."""

    def __init__(self, path: Path, name: str, size: int, stream: BinaryIO, limit: int):
        self.name = name
        self.size = size
        self._path = path
        self._stream = stream
        self._limit = limit

    def read(self) -> bytes:
        """The content. Raises DataError where it is broken or longer than allowed."""
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        """The content in pieces."""
        count = 0
        with _broken_told(self._path, f"member {self.name}"):
            while chunk := self._stream.read(CHUNK_BYTES):
                count += len(chunk)
                if count > self._limit:
                    raise _too_large(self._path, f"member {self.name}", self._limit)
                yield chunk
        if count != self.size:
            raise fault(
                self._path, f"member {self.name}", f"{count:,} bytes", f"the {self.size:,} bytes that its header says"
            )

    def lines(self, encoding: str = "utf-8") -> Iterator[str]:
        """The content as lines of text without their line ends. Raises DataError for other bytes and for NUL."""
        yield from decoded_lines(self._path, f"member {self.name}, ", self.chunks(), encoding)


def file_lines(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    """The lines of a text file without line feeds. Raises DataError for other bytes, for NUL, and for an empty file."""
    readable_head(path)

    def chunks() -> Iterator[bytes]:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    yield from decoded_lines(path, "", chunks(), encoding)


def decoded_lines(path: Path, place: str, chunks: Iterator[bytes], encoding: str = "utf-8") -> Iterator[str]:
    """Lines (ended by a line feed) of text that comes in pieces. `place` goes before the line's number in an error.

    Raises DataError for NUL, for bytes that are not `encoding`, and for a line of more than LINE_BYTES.
    """
    number = 0
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            number += 1
            yield _decoded(path, f"{place}line {number}", line, encoding)
        if len(rest) > LINE_BYTES:
            came = f"a line of more than {LINE_BYTES:,} bytes"
            raise fault(path, f"{place}line {number + 1}", came, f"at most {LINE_BYTES:,}")
    if rest:
        yield _decoded(path, f"{place}line {number + 1}", rest, encoding)


def _decoded(path: Path, place: str, line: bytes, encoding: str) -> str:
    nul = line.find(b"\0")
    if nul >= 0:
        raise fault(path, f"{place}, byte {nul + 1}", "a NUL byte", "text")
    try:
        return line.decode(encoding)
    except UnicodeDecodeError as error:
        raise fault(
            path, f"{place}, byte {error.start + 1}", f"byte 0x{line[error.start]:02x}", f"{encoding} text"
        ) from None


def members(path: Path, limits: Limits) -> Iterator[Member]:
    """The files of a tar (plain or compressed) or zip archive, in its order; folders are passed over.

    Raises DataError for anything else, for a broken archive, and for one that holds what is not allowed.
    """
    head = readable_head(path)
    seen: set[str] = set()
    # by its beginning: the end of a tar archive may hold a whole zip archive
    source = _zip_members if head.startswith(ZIP_MAGICS) else _tar_members
    for member in source(path, limits):
        if member.name in seen:
            raise fault(path, f"member {member.name}", "the same name again", "one member of each name")
        seen.add(member.name)
        if len(seen) > limits.members:
            raise fault(path, "", f"more than {limits.members:,} members", f"at most {limits.members:,}")
        yield member
    if not seen:
        raise fault(path, "", "an archive without files", "one with files")


def read_member(path: Path, name: str, limits: Limits) -> bytes:
    """The content of the member called `name`. Raises DataError that lists the names where it is not there."""
    found: list[str] = []
    for member in members(path, limits):
        if member.name == name:
            return member.read()
        found.append(member.name)
    raise missing_member(path, name, found)


def missing_member(path: Path, wanted: str, found: list[str]) -> DataError:
    shown = ", ".join(found[:NAMES_SHOWN]) + (
        f" and {len(found) - NAMES_SHOWN} more" if len(found) > NAMES_SHOWN else ""
    )
    return fault(path, "", f"no member {wanted} (it has {shown})", f"an archive with {wanted}")


def gunzip(path: Path, limit_bytes: int) -> Iterator[bytes]:
    """The content of a gzip file in pieces, at most `limit_bytes` in all. Raises DataError for all else."""
    head = readable_head(path)
    if not head.startswith(GZIP_MAGIC):
        raise fault(path, "byte 1", shown_value(head[:16].decode("latin-1")), "a gzip archive (it begins 1f 8b)")
    count = 0
    with _broken_told(path, ""), gzip.open(path, "rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            count += len(chunk)
            if count > limit_bytes:
                raise _too_large(path, "", limit_bytes)
            yield chunk


def readable_head(path: Path) -> bytes:
    """The first bytes of a file. Raises DataError where there is none, and for an empty one or a web page."""
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except FileNotFoundError:
        raise DataError(f"{shown_path(path)} does not exist; restore the file or fetch the data set again") from None
    except IsADirectoryError:
        raise DataError(f"{shown_path(path)} is a folder, allowed is an archive; restore the file") from None
    if not head:
        raise fault(path, "", "an empty file", "an archive")
    complaint = html_complaint(head)
    if complaint:
        raise fault(path, "", complaint, "an archive")
    return head


def _tar_members(path: Path, limits: Limits) -> Iterator[Member]:
    with path.open("rb") as file, _broken_told(path, ""):
        counted = _Counted(path, _decompressed(file), limits.total_bytes)
        with tarfile.open(fileobj=io.BufferedReader(counted, CHUNK_BYTES), mode="r|") as archive:
            for number, info in enumerate(archive, start=1):
                _allow_count(path, number, limits)
                if info.isdir():
                    continue
                name = _safe_name(path, info.name)
                # one with holes swells without a byte in the archive
                if not info.isreg() or info.issparse():
                    raise fault(path, f"member {name}", "a link, a device or a file with holes", "plain files")
                _allow_size(path, name, info.size, limits)
                stream = archive.extractfile(info)
                yield Member(path, name, info.size, stream, limits.member_bytes)  # type: ignore[arg-type]
            end = archive.offset
        # a compressed file that is cut behind the last member shows it only here
        while counted.read(CHUNK_BYTES):
            pass
        # tarfile takes a spoilt header, and the end of the file, for the end of the archive
        if counted.last_filled > end:
            raise fault(path, f"byte {end + 1}", "something that is no member", "a complete archive, fetched again")
        if counted.count < end + TAR_BLOCK_BYTES:
            raise fault(path, f"byte {end + 1}", "the end of the file", "a complete archive, fetched again")


def _zip_members(path: Path, limits: Limits) -> Iterator[Member]:
    with _broken_told(path, ""), zipfile.ZipFile(path) as archive:
        _require_all(path, len(archive.infolist()))
        _allow_count(path, len(archive.infolist()), limits)
        total = 0
        for info in archive.infolist():
            if info.is_dir():
                continue
            name = _safe_name(path, info.filename)
            if info.flag_bits & _ENCRYPTED:
                raise fault(path, f"member {name}", "an encrypted member", "plain files")
            if (info.external_attr >> 16) & 0o170000 == 0o120000:
                raise fault(path, f"member {name}", "a link, a device or a file with holes", "plain files")
            _allow_size(path, name, info.file_size, limits)
            total += info.file_size
            if total > limits.total_bytes:
                raise _too_large(path, "", limits.total_bytes)
            with archive.open(info) as stream:
                yield Member(path, name, info.file_size, stream, limits.member_bytes)  # type: ignore[arg-type]


def _decompressed(file: BinaryIO) -> BinaryIO:
    head = file.read(6)
    file.seek(0)
    if head.startswith(GZIP_MAGIC):
        return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]
    return file


class _Counted(io.RawIOBase):
    """A stream that ends in an error once more than `limit` bytes have come from it.

    `count`: bytes that have come; `last_filled`: how many up to the last one that is not zero.
    """

    def __init__(self, path: Path, stream: BinaryIO, limit: int):
        super().__init__()
        self._path = path
        self._stream = stream
        self._limit = limit
        self.count = 0
        self.last_filled = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        chunk = self._stream.read(len(buffer))
        if filled := len(chunk.rstrip(b"\0")):
            self.last_filled = self.count + filled
        self.count += len(chunk)
        if self.count > self._limit:
            raise _too_large(self._path, "", self._limit)
        buffer[: len(chunk)] = chunk
        return len(chunk)


def _allow_size(path: Path, name: str, size: int, limits: Limits) -> None:
    if size > limits.member_bytes:
        raise _too_large(path, f"member {name}", limits.member_bytes)


def _allow_count(path: Path, number: int, limits: Limits) -> None:
    """Folders are held in memory too, so there may be as many of them as of files."""
    if number > 2 * limits.members:
        raise fault(
            path, "", f"more than {2 * limits.members:,} members and folders", f"at most {limits.members:,} files"
        )


def _require_all(path: Path, found: int) -> None:
    """zipfile stops without a word where a spoilt record of its directory swallows the next ones."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - ZIP_END_BYTES))
        tail = file.read()
    (count,) = struct.unpack_from("<H", tail, tail.rindex(ZIP_END_MAGIC) + ZIP_END_COUNT)
    if count not in (found, ZIP_COUNT_ELSEWHERE):
        raise fault(path, "", f"{found:,} members", f"the {count:,} that its last record tells")


def _too_large(path: Path, place: str, limit: int) -> DataError:
    return fault(path, place, f"more than {limit:,} bytes unpacked", f"at most {limit:,}")


def _safe_name(path: Path, name: str) -> str:
    """The member's name without a leading `./`. Raises DataError where it is no relative path inside the archive."""
    plain = name.removeprefix("./")
    parts = plain.split("/")
    unsafe = not plain or plain.startswith("/") or ".." in parts or "\\" in plain or ":" in parts[0] or "\0" in plain
    if unsafe:
        raise fault(path, f"member {shown_value(name)}", "a path that leaves its folder", "relative paths without '..'")
    return plain


@contextmanager
def _broken_told(path: Path, place: str) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except _BROKEN as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise fault(path, place, f"a broken archive ({reason})", "a complete one, fetched again") from None
