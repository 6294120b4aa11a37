"""Archives of strangers: what is inside comes out, and nothing that they should not hold is believed."""

import gzip
import io
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.datasets.core import archives
from components.datasets.core.archives import Limits, file_lines, gunzip, members, read_member
from components.errors import DataError
from tests.datasets.texts import tar_bytes, zip_bytes

LIMITS = Limits(member_bytes=10_000, total_bytes=40_000, members=20)
FILES = {"a/one.txt": b"first\n", "a/two.bin": bytes(range(256)), "b/empty": b""}
# header, content and padding of a member of 3,000 bytes in a tar archive
MEMBER_OF_3000 = 512 + 3072
NAMES = st.from_regex(r"[a-z]{1,8}(/[a-z0-9]{1,8}){0,2}\.txt", fullmatch=True)


def plain_tar(files: dict[str, bytes]) -> bytes:
    return gzip.decompress(tar_bytes(files))


MAKERS: dict[str, Callable[[dict[str, bytes]], bytes]] = {"tar.gz": tar_bytes, "tar": plain_tar, "zip": zip_bytes}


def content(path: Path, limits: Limits = LIMITS) -> dict[str, bytes]:
    return {member.name: member.read() for member in members(path, limits)}


def refused(path: Path, told: str, limits: Limits = LIMITS) -> None:
    with pytest.raises(DataError, match=told) as caught:
        content(path, limits)
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(NAMES, st.binary(max_size=3000), min_size=1, max_size=8), st.sampled_from(list(MAKERS)))
def test_what_was_put_in_comes_out(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], form: str
) -> None:
    # the name says nothing: the content does
    path = tmp_path_factory.mktemp("archive") / "archive.dat"
    path.write_bytes(MAKERS[form](files))
    assert content(path) == files
    name = next(iter(files))
    assert read_member(path, name, LIMITS) == files[name]


@pytest.mark.parametrize("form", list(MAKERS))
def test_members_may_be_passed_over(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(MAKERS[form](FILES))
    assert [member.name for member in members(path, LIMITS)] == list(FILES)
    with pytest.raises(DataError, match=r"got no member a/three \(it has a/one.txt, a/two.bin, b/empty\)"):
        read_member(path, "a/three", LIMITS)


@pytest.mark.parametrize("form", list(MAKERS))
@pytest.mark.parametrize("name", ["../out", "a/../../out", "/etc/passwd", "C:/x", "a\\..\\x", "./../x"])
def test_a_path_that_leaves_its_folder_is_refused(tmp_path: Path, form: str, name: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(MAKERS[form]({"good": b"1", name: b"2"}))
    refused(path, "a path that leaves its folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("form", list(MAKERS))
def test_limits_hold_for_members_bytes_and_number(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(MAKERS[form]({"large": bytes(10_001)}))
    refused(path, "member large: got more than 10,000 bytes unpacked")
    path.write_bytes(MAKERS[form]({f"f{i}": bytes(9_000) for i in range(6)}))
    refused(path, "more than 40,000 bytes unpacked")
    path.write_bytes(MAKERS[form]({f"f{i}": b"" for i in range(21)}))
    refused(path, "more than 20 members")


def lying_zip() -> bytes:
    """A member of 5 MB whose headers say 10 bytes."""
    packed = bytearray(zip_bytes({"small": bytes(5_000_000)}))
    for place, marker in ((22, b"PK\x03\x04"), (24, b"PK\x01\x02")):
        start = packed.index(marker)
        packed[start + place : start + place + 4] = struct.pack("<I", 10)
    return bytes(packed)


def test_what_a_header_says_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(lying_zip())
    refused(path, "member small: got a broken archive")


@pytest.mark.parametrize("form", list(MAKERS))
def test_folders_are_limited_too(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a"

    def folders(count: int) -> bytes:
        stream = io.BytesIO()
        if form == "zip":
            with zipfile.ZipFile(stream, "w") as archive:
                for i in range(count):
                    archive.writestr(f"folder{i}/", b"")
                archive.writestr("one", b"1")
        else:
            with tarfile.open(fileobj=stream, mode="w" if form == "tar" else "w:gz") as tar:
                for i in range(count):
                    info = tarfile.TarInfo(f"folder{i}")
                    info.type = tarfile.DIRTYPE
                    tar.addfile(info)
                last = tarfile.TarInfo("one")
                last.size = 1
                tar.addfile(last, io.BytesIO(b"1"))
        return stream.getvalue()

    limits = Limits(member_bytes=10, total_bytes=1 << 20, members=20)
    path.write_bytes(folders(39))
    assert content(path, limits) == {"one": b"1"}
    path.write_bytes(folders(40))
    refused(path, "more than 40 members and folders", limits)


def bomb() -> bytes:
    return gzip.compress(bytes(50_000_000), compresslevel=9)


def test_a_gzip_bomb_is_stopped_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(bomb())
    chunks = gunzip(path, 1_000)
    tracemalloc.start()
    try:
        # not even the first piece is handed out
        with pytest.raises(DataError, match="more than 1,000 bytes unpacked"):
            next(chunks)
        refused(path, "got more than 40,000 bytes unpacked")
        # a tenth of what the file swells to
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@settings(deadline=None, max_examples=30)
@given(st.binary(max_size=5000))
def test_gunzip_gives_what_was_packed(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("gzip") / "a.gz"
    path.write_bytes(gzip.compress(data[:2000]) + gzip.compress(data[2000:]))
    assert b"".join(gunzip(path, 5000)) == data


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    packed = bytearray(zip_bytes({"secret": b"x"}))
    for place, marker in ((6, b"PK\x03\x04"), (8, b"PK\x01\x02")):
        packed[packed.index(marker) + place] |= 1
    path = tmp_path / "a.zip"
    path.write_bytes(bytes(packed))
    refused(path, "an encrypted member")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_are_refused(tmp_path: Path, kind: bytes) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    path = tmp_path / "a.tar"
    path.write_bytes(stream.getvalue())
    refused(path, "member link: got a link, a device or a file with holes")


def test_a_file_with_holes_in_a_tar_is_refused(tmp_path: Path) -> None:
    # the old form of GNU: a map of one piece of 1 byte, in a file of 9,000
    header = bytearray(tarfile.TarInfo("holes").tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"00000000001\0"
    header[156:157] = b"S"
    header[386:410] = b"00000000000\0" + b"00000000001\0"
    header[483:495] = b"%011o\0" % 9_000
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    path = tmp_path / "a.tar"
    path.write_bytes(bytes(header) + b"x" + bytes(511) + bytes(1024))
    refused(path, "member holes: got a link, a device or a file with holes")


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    refused(path, "member link: got a link, a device or a file with holes")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_comes_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("same", "1")
        archive.writestr("same", "2")
    refused(path, "member same: got the same name again")
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in ("same", "./same"):
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    path.write_bytes(stream.getvalue())
    refused(path, "member same: got the same name again")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "an empty file"),
        (b"<html><head><title>Denied</title></head>", "an HTML page titled 'Denied'"),
        (b"some other text that is no archive at all " * 20, "broken archive"),
        (gzip.compress(b"no tar inside"), "broken archive"),
        (plain_tar({}), "an archive without files|broken archive"),
        (zip_bytes({}), "an archive without files|broken archive"),
    ],
    ids=["empty", "web page", "text", "gzip of text", "empty tar", "empty zip"],
)
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes, told: str) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(data)
    refused(path, told)


@pytest.mark.parametrize("form", list(MAKERS))
def test_a_cut_archive_is_refused_wherever_it_is_cut(tmp_path: Path, form: str) -> None:
    files = {f"f{i}": bytes([i]) * 3000 for i in range(5)}
    whole = MAKERS[form](files)
    path = tmp_path / "a"
    # the end of a plain tar is padding that no content depends on, behind one block of zeros
    last = len(whole) - 1 if form != "tar" else 5 * MEMBER_OF_3000 + 511
    for length in {1, 100, len(whole) // 3, len(whole) // 2, last}:
        path.write_bytes(whole[:length])
        with pytest.raises(DataError):
            content(path)


def five_members() -> bytearray:
    return bytearray(plain_tar({f"f{i}": bytes([i + 1]) * 3000 for i in range(5)}))


@pytest.mark.parametrize("count", range(1, 6))
def test_a_tar_cut_between_its_members_is_refused(tmp_path: Path, count: int) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(five_members()[: count * MEMBER_OF_3000])
    refused(path, f"byte {count * MEMBER_OF_3000 + 1:d}: got the end of the file, allowed is a complete archive")


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["tar", "tar.gz"])
@pytest.mark.parametrize("number", range(1, 5))
def test_a_spoilt_header_is_not_the_end_of_the_archive(
    tmp_path: Path, pack: Callable[[bytes], bytes], number: int
) -> None:
    spoilt = five_members()
    spoilt[number * MEMBER_OF_3000 + 10] ^= 0xFF
    path = tmp_path / "a.tar"
    path.write_bytes(pack(bytes(spoilt)))
    refused(path, "got something that is no member")


def test_a_tar_with_a_zip_in_it_is_a_tar(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(plain_tar({"one": b"1", "inner.zip": zip_bytes({"x": b"1"})}))
    assert list(content(path)) == ["one", "inner.zip"]


@pytest.mark.parametrize("form", ["tar.gz", "zip"])
def test_a_flipped_byte_of_content_is_noticed(tmp_path: Path, form: str) -> None:
    generator_bytes = bytes((i * 7919 + i * i) % 256 for i in range(4000))
    whole = bytearray(MAKERS[form]({"f": generator_bytes}))
    path = tmp_path / "a"
    for place in (len(whole) // 2, len(whole) // 2 + 37):
        changed = whole.copy()
        changed[place] ^= 0x10
        path.write_bytes(bytes(changed))
        with pytest.raises(DataError):
            content(path)


def outcome(path: Path) -> dict[str, bytes] | None:
    """The content, or None where it is refused."""
    try:
        return content(path)
    except DataError:
        return None


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(["tar.gz", "zip"]),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=3),
)
def test_flipped_bytes_never_change_content_nor_end_otherwise_than_in_a_data_error(
    tmp_path_factory: pytest.TempPathFactory, form: str, flips: list[tuple[int, int]]
) -> None:
    files = {f"d/f{i}": bytes([97 + i]) * 300 for i in range(3)}
    whole = bytearray(MAKERS[form](files))
    for place, value in flips:
        whole[place % len(whole)] = value
    path = tmp_path_factory.mktemp("flipped") / "a"
    path.write_bytes(bytes(whole))
    came = outcome(path)
    # a flipped name is all that may come through
    assert came is None or list(came.values()) == list(files.values())


def unknown_packing(packed: bytes) -> bytes:
    """Both headers name a way of packing that does not exist."""
    changed = bytearray(packed)
    for place, marker in ((8, b"PK\x03\x04"), (10, b"PK\x01\x02")):
        changed[changed.index(marker) + place] = 77
    return bytes(changed)


def swallowed(packed: bytes) -> bytes:
    """The comment of the first record of the directory is said to be as long as the second record."""
    changed = bytearray(packed)
    first = changed.index(b"PK\x01\x02")
    second = changed.index(b"PK\x01\x02", first + 1)
    third = changed.index(b"PK\x01\x02", second + 1)
    changed[first + 32 : first + 34] = struct.pack("<H", third - second)
    return bytes(changed)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [(unknown_packing, "a broken archive"), (swallowed, "got 2 members, allowed is the 3 that its last record tells")],
)
def test_spoilt_records_of_a_zip(tmp_path: Path, spoil: Callable[[bytes], bytes], told: str) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(spoil(zip_bytes(FILES)))
    refused(path, told)


@pytest.mark.parametrize("name", ["absent.zip", ""])
def test_a_file_that_is_not_there_or_a_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"does not exist|is a folder"):
        content(tmp_path / name)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]), max_size=20), max_size=30))
def test_lines_of_a_file(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode() + b"end")
    assert list(file_lines(path)) == [*lines, "end"]


def test_a_line_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "CHUNK_BYTES", 100)
    monkeypatch.setattr(archives, "LINE_BYTES", 1_000)
    path = tmp_path / "a.txt"
    path.write_bytes(b"first\n" + b"x" * 950 + b"\nlast")
    assert [len(line) for line in file_lines(path)] == [5, 950, 4]
    path.write_bytes(b"first\n" + b"x" * 5_000)
    with pytest.raises(DataError, match="line 2: got a line of more than 1,000 bytes, allowed is at most 1,000"):
        list(file_lines(path))


def test_bytes_that_are_no_text_are_placed(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("né\n".encode() + b"caf\xe9 au lait\n")
    with pytest.raises(DataError, match="line 2, byte 4: got byte 0xe9, allowed is utf-8 text"):
        list(file_lines(path))
    path.write_bytes(b"a\nb\0\n")
    with pytest.raises(DataError, match="line 2, byte 2: got a NUL byte"):
        list(file_lines(path))
