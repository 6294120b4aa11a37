"""Sources: only the catalogued bytes count, from whichever source, and nothing half had stays."""

import gzip
import importlib.metadata
import shutil
from pathlib import Path

import pytest

from components.datasets.core.download import CHUNK_BYTES
from components.datasets.core.fetching import check, fetch
from components.datasets.core.sources import MIRROR_VARIABLE
from components.errors import DataError
from components.files import sha256_bytes
from tests.datasets.checkouts import CONTENT, STATION, copy_of_samples, entry_of, left_files, three_line_text
from tests.datasets.loopback import Site, serving

HTML = b"<!DOCTYPE html>\n<html><head><title>Please sign in</title></head><body>no</body></html>\n"
# Larger than the chunks that are written: what a broken connection brought in full chunks is kept.
LARGE = bytes(range(256)) * 2000
TARGET = "data/raw/test-sets/sets.tle"


@pytest.fixture(autouse=True)
def _no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MIRROR_VARIABLE, raising=False)


def test_a_download_arrives_once_and_is_not_fetched_again(tmp_path: Path) -> None:
    with serving(Site(CONTENT)) as site:
        entry = entry_of(CONTENT, [{"url": site.url}])
        seen: list[tuple[int, int | None]] = []
        first = fetch(entry, tmp_path, progress=lambda had, whole: seen.append((had, whole)))
        second = fetch(entry, tmp_path)
        assert site.asked == [None]
    assert first.paths[0].read_bytes() == CONTENT
    assert (first.source, second.source) == ("url", "raw")
    assert site.url in first.reason
    assert "already there" in second.reason
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert left_files(tmp_path) == [TARGET]


def test_a_broken_connection_is_continued_where_it_broke(tmp_path: Path) -> None:
    with serving(Site(LARGE, break_after=2 * CHUNK_BYTES, breaks=2)) as site:
        fetched = fetch(entry_of(LARGE, [{"url": site.url}]), tmp_path)
        assert site.asked == [None, f"bytes={2 * CHUNK_BYTES}-", f"bytes={4 * CHUNK_BYTES}-"]
    assert fetched.paths[0].read_bytes() == LARGE


def test_a_run_continues_what_an_earlier_run_left(tmp_path: Path) -> None:
    with serving(Site(LARGE, break_after=CHUNK_BYTES, breaks=3)) as site:
        entry = entry_of(LARGE, [{"url": site.url}])
        with pytest.raises(DataError, match=rf"connection failed .*3 attempts, {3 * CHUNK_BYTES:,} bytes had"):
            fetch(entry, tmp_path)
        assert not (tmp_path / TARGET).exists()
        assert [path for path in left_files(tmp_path) if not path.endswith(".part")] == []
        fetch(entry, tmp_path)
        assert site.asked[-1] == f"bytes={3 * CHUNK_BYTES}-"
    assert left_files(tmp_path) == [TARGET]


def test_a_server_without_ranges_is_asked_again_from_the_start(tmp_path: Path) -> None:
    with serving(Site(LARGE, break_after=CHUNK_BYTES, breaks=1, ranges_supported=False)) as site:
        fetched = fetch(entry_of(LARGE, [{"url": site.url}]), tmp_path)
    assert fetched.paths[0].read_bytes() == LARGE


def test_a_left_part_of_another_file_is_given_up(tmp_path: Path) -> None:
    with serving(Site(LARGE, break_after=CHUNK_BYTES, breaks=3)) as site:
        entry = entry_of(LARGE, [{"url": site.url}])
        with pytest.raises(DataError):
            fetch(entry, tmp_path)
        (part,) = (tmp_path / ".quintet" / "downloads").iterdir()
        part.write_bytes(b"x" * 210)
        assert fetch(entry, tmp_path).paths[0].read_bytes() == LARGE
        assert site.asked[-2:] == ["bytes=210-", None]


def test_a_busy_server_is_asked_again(tmp_path: Path) -> None:
    with serving(Site(CONTENT, statuses=[503, 429])) as site:
        assert fetch(entry_of(CONTENT, [{"url": site.url}]), tmp_path).source == "url"
        assert len(site.asked) == 3


@pytest.mark.parametrize(
    ("sent", "statuses", "told"),
    [
        pytest.param(HTML, [], r"an HTML page titled 'Please sign in' came in place of the file", id="html"),
        pytest.param(CONTENT[:-9], [], rf"a short file came, {len(CONTENT) - 9} of {len(CONTENT)} bytes", id="short"),
        pytest.param(CONTENT + b"x", [], rf"more than the {len(CONTENT)} bytes expected came", id="long"),
        pytest.param(CONTENT[:-2] + b"8\n", [], r"other content came, sha256 [0-9a-f]{64}", id="hash"),
        pytest.param(b"", [], r"an empty file came", id="empty"),
        pytest.param(CONTENT, [404], r"the server answered 404", id="absent"),
        pytest.param(CONTENT, [500, 500, 500], r"the server answered 500 .*3 attempts", id="down"),
    ],
)
def test_a_wrong_answer_is_one_error_and_leaves_nothing(
    tmp_path: Path, sent: bytes, statuses: list[int], told: str
) -> None:
    with serving(Site(sent, statuses=statuses)) as site:
        entry = entry_of(CONTENT, [{"url": site.url}])
        with pytest.raises(DataError, match=told) as caught:
            fetch(entry, tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert "no source yields sets.tle" in message
    assert f"expected {len(CONTENT)} bytes, sha256 {entry.files[0].sha256}" in message
    assert f"put the file at {TARGET}, and run `quintet data fetch test-sets`" in message
    assert left_files(tmp_path) == []


def test_an_address_that_nobody_answers(tmp_path: Path) -> None:
    with serving(Site(CONTENT)) as site:
        url = site.url
    with pytest.raises(DataError, match=r"connection failed \(ConnectionRefusedError\)"):
        fetch(entry_of(CONTENT, [{"url": url}]), tmp_path)
    assert left_files(tmp_path) == []


def test_the_mirror_comes_by_argument_or_by_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = tmp_path / "mirror"
    (mirror / "orbital").mkdir(parents=True)
    (mirror / "orbital" / "m.tle").write_bytes(CONTENT)
    entry = entry_of(CONTENT, [{"mirror": "orbital/m.tle"}])
    with pytest.raises(DataError, match=r"QUINTET_DATA_MIRROR is not set"):
        fetch(entry, tmp_path / "a")
    assert fetch(entry, tmp_path / "a", mirror).source == "mirror"
    monkeypatch.setenv(MIRROR_VARIABLE, str(mirror))
    fetched = fetch(entry, tmp_path / "b")
    assert fetched.paths == (tmp_path / "b" / TARGET,)
    assert fetched.paths[0].read_bytes() == CONTENT


def test_a_mirror_of_other_content_is_passed_over_and_said(tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "m.tle").write_bytes(CONTENT[:50])
    with serving(Site(CONTENT)) as site:
        entry = entry_of(CONTENT, [{"mirror": "m.tle"}, {"url": site.url}])
        fetched = fetch(entry, tmp_path / "checkout", tmp_path / "mirror")
    assert fetched.source == "url"
    assert "mirror m.tle: a short file, 50 bytes" in fetched.reason


def test_a_mirrored_file_with_a_flipped_digit_is_located(tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    broken = CONTENT.replace(b"247.4627", b"247.4727")
    (tmp_path / "mirror" / "m.tle").write_bytes(broken)
    entry = entry_of(CONTENT, [{"mirror": "m.tle"}])
    with pytest.raises(DataError, match=r"m\.tle, line 6, column 69 \(checksum\): got '7', allowed is '8'"):
        fetch(entry, tmp_path / "checkout", tmp_path / "mirror")
    assert left_files(tmp_path / "checkout") == []
    with pytest.raises(DataError, match=r"line 6, column 69"):
        check(entry, tmp_path / "checkout", tmp_path / "mirror")


def test_content_without_fault_is_still_not_the_catalogued_one(tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "m.tle").write_text(three_line_text(("ISS (ZARYA)", STATION)))
    entry = entry_of(CONTENT, [{"mirror": "m.tle"}])
    with pytest.raises(
        DataError, match=r"reads without fault, allowed is the content that test-sets catalogues"
    ) as caught:
        fetch(entry, tmp_path / "checkout", tmp_path / "mirror")
    assert "an entry of its own in data/catalogue.yaml" in str(caught.value)


def test_a_spoilt_raw_file_is_replaced_and_said(tmp_path: Path) -> None:
    with serving(Site(CONTENT)) as site:
        entry = entry_of(CONTENT, [{"url": site.url}])
        path = fetch(entry, tmp_path).paths[0]
        path.write_bytes(CONTENT[:10])
        with pytest.raises(DataError, match=r"sets\.tle"):
            check(entry, tmp_path)
        assert "a short file, 10 bytes" in fetch(entry, tmp_path).reason
    assert path.read_bytes() == CONTENT


def test_a_spoilt_raw_file_is_located_where_no_source_is_left(tmp_path: Path) -> None:
    with serving(Site(CONTENT)) as site:
        entry = entry_of(CONTENT, [{"url": site.url}])
        path = fetch(entry, tmp_path).paths[0]
    path.write_bytes(CONTENT.replace(b"51.6416", b"51.6417"))
    with pytest.raises(DataError, match=r"line 6, column 69"):
        fetch(entry, tmp_path)


def test_a_package_of_the_pinned_version_is_a_source(tmp_path: Path) -> None:
    installed = importlib.metadata.distribution("sgp4")
    inside = next(str(file) for file in installed.files or () if file.name == "__init__.py")
    content = Path(str(installed.locate_file(inside))).read_bytes()
    pin = {"distribution": "sgp4", "version": installed.version, "path": inside}
    fetched = fetch(entry_of(content, [{"package": pin}]), tmp_path)
    assert fetched.paths[0].read_bytes() == content
    assert fetched.reason == f"copied from the package sgp4=={installed.version}"
    with pytest.raises(DataError, match=rf"version {installed.version} of sgp4 is installed, sgp4==0.1 is needed"):
        fetch(entry_of(content, [{"package": pin | {"version": "0.1"}}]), tmp_path / "a")
    with pytest.raises(DataError, match=r"no-such-package==1 is not installed \(pip install"):
        fetch(
            entry_of(content, [{"package": {"distribution": "no-such-package", "version": "1", "path": "x"}}]),
            tmp_path / "b",
        )
    with pytest.raises(DataError, match=r"has no file nowhere"):
        fetch(entry_of(content, [{"package": pin | {"path": "nowhere"}}]), tmp_path / "c")


def test_a_sample_is_read_in_place(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "s.tle").write_bytes(CONTENT)
    entry = entry_of(CONTENT, [{"sample": "data/s.tle"}])
    fetched = fetch(entry, tmp_path)
    assert fetched.paths == (tmp_path / "data" / "s.tle",)
    assert fetched.source == "sample"
    assert check(entry, tmp_path).present
    assert left_files(tmp_path) == ["data/s.tle"]
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(DataError, match=r"data/s\.tle: no such file; restore it with `git checkout -- data/s\.tle`"):
        fetch(entry, tmp_path)
    with pytest.raises(DataError, match=r"no such file"):
        check(entry, tmp_path)


def test_checking_fetches_nothing(tmp_path: Path) -> None:
    with serving(Site(CONTENT)) as site:
        checked = check(entry_of(CONTENT, [{"url": site.url}]), tmp_path)
        assert site.asked == []
    assert not checked.present
    assert checked.reason == "not fetched yet; `quintet data fetch test-sets` does"
    assert left_files(tmp_path) == []


def test_shipped_samples_are_the_catalogued_ones(tmp_path: Path) -> None:
    from components.datasets.core.catalogue import load_catalogue

    copy_of_samples(tmp_path)
    for name in ("orbital-sample", "orbital-tle-sample"):
        assert check(load_catalogue(tmp_path).entry(name), tmp_path).present


PACKED = gzip.compress(CONTENT, mtime=0)
PACKED_DIGEST = {"packed_sha256": sha256_bytes(PACKED), "packed_bytes": len(PACKED)}


@pytest.mark.parametrize("stated", [PACKED_DIGEST, {}], ids=["packed digest stated", "content digest alone"])
def test_a_packed_download_is_unpacked_and_only_the_content_counts(tmp_path: Path, stated: dict[str, object]) -> None:
    with serving(Site(PACKED)) as site:
        entry = entry_of(CONTENT, [{"url": site.url, "unpack": "gzip", **stated}])
        fetched = fetch(entry, tmp_path)
    assert fetched.paths[0].read_bytes() == CONTENT
    assert left_files(tmp_path) == [TARGET]


def test_copies_that_were_packed_otherwise_are_the_same_file(tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    other = gzip.compress(CONTENT, compresslevel=1, mtime=99)
    assert other != PACKED
    (mirror / "sets.gz").write_bytes(other)
    entry = entry_of(CONTENT, [{"mirror": "sets.gz", "unpack": "gzip"}])
    assert "in the mirror" in check(entry, tmp_path / "root", mirror).reason
    fetched = fetch(entry, tmp_path / "root", mirror)
    assert fetched.paths[0].read_bytes() == CONTENT
    assert "unpacked from the mirror" in fetched.reason


@pytest.mark.parametrize(
    ("packed", "told"),
    [
        pytest.param(gzip.compress(CONTENT + b"x"), "bytes unpacked", id="longer"),
        pytest.param(gzip.compress(bytes(1 << 24)), rf"more than {len(CONTENT)} bytes unpacked", id="bomb"),
        pytest.param(gzip.compress(CONTENT[:-1]), "a short file", id="shorter"),
        pytest.param(gzip.compress(b"y" + CONTENT[1:]), "other content, sha256 [0-9a-f]{64} unpacked", id="other"),
        pytest.param(PACKED[:-9], "a broken archive", id="truncated"),
        pytest.param(PACKED[:-5] + b"\0" + PACKED[-4:], "a broken archive", id="checksum"),
        pytest.param(HTML, "an HTML page titled 'Please sign in'", id="web page"),
        pytest.param(CONTENT, "a gzip archive", id="not packed"),
        pytest.param(b"", "an empty file", id="empty"),
    ],
)
def test_a_packed_copy_of_other_content_is_refused_and_leaves_nothing(tmp_path: Path, packed: bytes, told: str) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "sets.gz").write_bytes(packed)
    entry = entry_of(CONTENT, [{"mirror": "sets.gz", "unpack": "gzip"}])
    with pytest.raises(DataError, match=told) as caught:
        fetch(entry, tmp_path / "root", mirror)
    assert "\n" not in str(caught.value)
    assert left_files(tmp_path / "root") == []


def test_a_file_of_the_users_own_comes_by_dvc(tmp_path: Path) -> None:
    entry = entry_of(CONTENT, [{"own": TARGET}])
    with pytest.raises(DataError, match=r"`dvc pull data/raw/test-sets.dvc`"):
        fetch(entry, tmp_path)
    (tmp_path / TARGET).write_bytes(CONTENT)
    assert fetch(entry, tmp_path).paths == (tmp_path / TARGET,)
