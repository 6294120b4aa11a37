"""Live entries: the first fetch decides what the data set is, and only a refresh changes it."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from components.datasets.core.fetching import check, fetch
from components.errors import DataError
from tests.datasets.checkouts import CONTENT, STATION, entry_of, left_files, three_line_text
from tests.datasets.loopback import Site, serving

TOMORROW = three_line_text(("ISS (ZARYA)", STATION)).encode()
FILES = ["data/raw/test-sets/pin.json", "data/raw/test-sets/sets.tle"]


def test_the_first_fetch_pins_and_later_ones_keep(tmp_path: Path) -> None:
    with serving(Site(CONTENT)) as site:
        entry = entry_of(None, [{"url": site.url}])
        assert not check(entry, tmp_path).present
        fetched = fetch(entry, tmp_path)
        site.content = TOMORROW
        again = fetch(entry, tmp_path)
        assert len(site.asked) == 1
    pin = json.loads((tmp_path / FILES[0]).read_text())["files"]["sets.tle"]
    assert pin["url"] == site.url
    assert pin["bytes"] == len(CONTENT)
    assert datetime.fromisoformat(pin["retrieved"]).utcoffset() is not None
    assert "pinned" in fetched.reason
    assert again.reason == "pinned by an earlier fetch, verified"
    assert again.paths[0].read_bytes() == CONTENT
    assert check(entry, tmp_path).present
    assert left_files(tmp_path) == FILES


def test_a_refresh_fetches_and_pins_anew(tmp_path: Path) -> None:
    with serving(Site(CONTENT)) as site:
        entry = entry_of(None, [{"url": site.url}])
        fetch(entry, tmp_path)
        site.content = TOMORROW
        assert fetch(entry, tmp_path, refresh=True).paths[0].read_bytes() == TOMORROW
    assert json.loads((tmp_path / FILES[0]).read_text())["files"]["sets.tle"]["bytes"] == len(TOMORROW)


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"<html><title>Busy</title></html>", "an HTML page titled 'Busy'"),
        (b"Invalid query\n", "what the publisher sent is refused"),
        (CONTENT.replace(b"51.6416", b"51.6417"), "line 6, column 69"),
        (b"", "an empty file came"),
    ],
)
def test_a_refused_refresh_changes_nothing(tmp_path: Path, sent: bytes, told: str) -> None:
    with serving(Site(CONTENT)) as site:
        entry = entry_of(None, [{"url": site.url}])
        fetch(entry, tmp_path)
        site.content = sent
        with pytest.raises(DataError, match=told):
            fetch(entry, tmp_path, refresh=True)
    assert left_files(tmp_path) == FILES
    assert fetch(entry, tmp_path).paths[0].read_bytes() == CONTENT


def test_a_broken_live_download_starts_again_from_nothing(tmp_path: Path) -> None:
    with serving(Site(CONTENT, break_after=100, breaks=1)) as site:
        fetched = fetch(entry_of(None, [{"url": site.url}]), tmp_path)
        assert site.asked == [None, None]
    assert fetched.paths[0].read_bytes() == CONTENT


def test_changed_absent_and_unpinned_files_are_refused(tmp_path: Path) -> None:
    with serving(Site(CONTENT)) as site:
        entry = entry_of(None, [{"url": site.url}])
        path = fetch(entry, tmp_path).paths[0]
    mend = r"`quintet data fetch test-sets --refresh`"
    path.write_bytes(TOMORROW)
    with pytest.raises(DataError, match=rf"a short file, .* allowed is what was pinned .*{mend}"):
        check(entry, tmp_path)
    path.unlink()
    with pytest.raises(DataError, match=rf"is pinned and absent; {mend}"):
        fetch(entry, tmp_path)
    (tmp_path / FILES[0]).write_text("{}")
    with pytest.raises(DataError, match=rf"pin\.json is no pin; {mend}"):
        fetch(entry, tmp_path)
    (tmp_path / FILES[0]).write_text('{"format": "quintet-pin/1", "entry": "test-sets", "files": {}}')
    with pytest.raises(DataError, match=r"pins the files none, allowed are those of the catalogue, sets\.tle"):
        fetch(entry, tmp_path)


def test_a_live_file_is_taken_up_to_its_own_limit(tmp_path: Path) -> None:
    with serving(Site(CONTENT)) as site:
        entry = entry_of(None, [{"url": site.url}])
        (file,) = entry.files
        small = entry.model_copy(update={"files": (file.model_copy(update={"limit_bytes": len(CONTENT) - 1}),)})
        with pytest.raises(DataError, match=rf"more than the {len(CONTENT) - 1} bytes expected came"):
            fetch(small, tmp_path)
        assert left_files(tmp_path) == []
        exact = entry.model_copy(update={"files": (file.model_copy(update={"limit_bytes": len(CONTENT)}),)})
        assert fetch(exact, tmp_path).paths[0].read_bytes() == CONTENT
