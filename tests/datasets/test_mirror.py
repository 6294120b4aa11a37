"""The larger files of the mirror, read whole: every row passes the strict readers but the few the catalogue names."""

from pathlib import Path

import pytest

from components.datasets.core.catalogue import load_catalogue
from components.datasets.core.fetching import check, fetch
from components.datasets.core.sources import MIRROR_VARIABLE, mirror_folder
from components.datasets.orbital.prepare import smallest_by_hash
from components.datasets.orbital.table import build_table
from components.datasets.readers import reader_named
from components.errors import DataError
from tests.datasets.checkouts import ROOT

MIRROR = mirror_folder(None)
pytestmark = pytest.mark.skipif(
    MIRROR is None or not (MIRROR / "orbital").is_dir(), reason=f"{MIRROR_VARIABLE} names no folder with orbital/"
)

EXPECTED = {
    "orbital-previsat-2016": (18178, {"LEO": 14239, "HEO": 2132, "GEO": 1185, "MEO": 593, "OTHER": 29}, 11126, 1828),
    "orbital-tle-2022": (23938, {"LEO": 19479, "HEO": 2162, "GEO": 1512, "MEO": 740, "OTHER": 45}, 13213, 2079),
}


@pytest.mark.parametrize("name", list(EXPECTED))
def test_mirrored_entries_are_read_whole(tmp_path: Path, name: str) -> None:
    entry = load_catalogue(ROOT).entry(name)
    assert check(entry, tmp_path).reason == "equal to the catalogue's sha256, in the mirror"
    fetched = fetch(entry, tmp_path)
    assert fetched.source == "mirror"
    table = reader_named(entry.reader)(fetched.paths, entry)
    rows, regimes, debris, bodies = EXPECTED[name]
    assert len(table) == rows
    assert table["regime"].value_counts().to_dict() == regimes
    kinds = table["kind"].value_counts()
    assert (kinds["DEBRIS"], kinds["ROCKET BODY"]) == (debris, bodies)
    # the exclusions are needed: without them the same file is refused
    with pytest.raises(DataError, match=r"line"):
        reader_named(entry.reader)(fetched.paths, entry.model_copy(update={"exclude": ()}))


def test_the_shipped_sample_is_the_catalogued_part_of_the_whole(tmp_path: Path) -> None:
    catalogue = load_catalogue(ROOT)
    whole, sample = (
        reader_named(entry.reader)(fetch(entry, tmp_path if not entry.shipped else ROOT).paths, entry)
        for entry in (catalogue.entry("orbital-previsat-2016"), catalogue.entry("orbital-sample"))
    )
    assert smallest_by_hash(build_table(whole.to_dict("records")), 6000).equals(sample)
