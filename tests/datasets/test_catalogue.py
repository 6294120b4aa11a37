"""The catalogue: what it may say, and what it says of this project's own entries."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from components.config import validated
from components.datasets.core.catalogue import CATALOGUE_PATH, load_catalogue
from components.datasets.core.sources import kind_of_source
from components.datasets.features.config import FeaturesConfig
from components.datasets.readers import READERS, reader_named
from components.datasets.registry import kind_named, require_reader
from components.errors import ConfigError, UsageError
from components.quality.core.profile import accepted_profile, profile_path
from components.stages.inspecting import read_dataset
from tests.datasets.checkouts import ROOT

FILE = {"name": "a.tle", "sha256": "0" * 64, "bytes": 9, "sources": [{"mirror": "orbital/a.tle"}]}
ENTRY: dict[str, Any] = {
    "name": "an-entry",
    "title": "t",
    "description": "d",
    "reader": "orbital-tle",
    "licence": "l",
    "citation": "c",
    "files": [FILE],
}
LIVE_FILE = {"name": "a.tle", "sources": [{"url": "https://example.org/a.tle"}]}


def write(root: Path, *entries: dict[str, Any], text: str | None = None) -> Path:
    (root / "data").mkdir(exist_ok=True)
    named = {entry["name"]: {key: value for key, value in entry.items() if key != "name"} for entry in entries}
    content = {"format": "quintet-catalogue/1", "entries": named}
    (root / CATALOGUE_PATH).write_text(text if text is not None else yaml.safe_dump(content), encoding="utf-8")
    return root


def test_the_projects_own_catalogue_is_complete() -> None:
    catalogue = load_catalogue(ROOT)
    published = {"orbital-celestrak", "cifar10", "cifar100", "mnist", "fashion-mnist", "sst2", "imdb", "newsgroups20"}
    published |= {f"glue-{task}" for task in ("cola", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")}
    assert published <= set(catalogue.names)
    assert {entry.name for entry in catalogue.entries.values() if entry.shipped} == {
        "orbital-sample",
        "orbital-tle-sample",
        "fashion-mnist-sample",
    }
    # what is not the whole of something says so, and of what
    for entry in catalogue.entries.values():
        if entry.name.endswith(("sample", "4k", "25k", "lowercased", "parquet")):
            assert entry.subset_of or entry.stand_in_for, entry.name
    # what cannot be verified is pinned when it is fetched, and is the exception
    assert {entry.name for entry in catalogue.entries.values() if entry.live} <= {"orbital-celestrak", "lra-aan"}
    for name in ("orbital-previsat-2016", "orbital-tle-2022"):
        assert "internal only" in catalogue.entry(name).licence.lower()
        assert {kind_of_source(source) for source in catalogue.entry(name).files[0].sources} == {"mirror"}
    assert len(catalogue.entry("orbital-previsat-2016").exclusions) == 13


def datasets_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.yaml"))


@pytest.mark.parametrize("path", datasets_of(ROOT / "conf" / "dataset"), ids=lambda path: path.stem)
def test_every_configured_data_set_fits_its_entry_and_its_kind(path: Path) -> None:
    config = read_dataset(path)
    entry = load_catalogue(ROOT).entry(config.entry)
    require_reader(path.stem, config, entry)
    kind = kind_named(config.kind)
    validated(kind.PrepareOptions, config.prepare, path.name)
    options: Any = validated(kind.GateOptions, config.gate, path.name)
    # where a version was accepted later ones are compared with it; where none was, that is said
    accepted = accepted_profile(ROOT / profile_path(path.stem))
    assert accepted is not None or not options.drift.require_reference


@pytest.mark.parametrize("path", datasets_of(ROOT / "conf" / "features"), ids=lambda path: path.stem)
def test_every_configured_feature_set_fits_its_data_set(path: Path) -> None:
    config = validated(FeaturesConfig, yaml.safe_load(path.read_text()), path.name)
    assert read_dataset(ROOT / "conf" / "dataset" / f"{config.dataset}.yaml").kind == "text"
    if config.compute.encoder.entry is not None:
        assert load_catalogue(ROOT).entry(config.compute.encoder.entry).reader == "encoder-files"


def test_every_reader_of_the_registry_exists() -> None:
    assert all(callable(reader_named(name)) for name in READERS)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        UsageError, match=r"no data set 'orbital-sampel' .*it has: orbital-sample, .*did you mean 'orbital-sample'"
    ):
        load_catalogue(ROOT).entry("orbital-sampel")


def test_a_small_catalogue_is_read(tmp_path: Path) -> None:
    live = ENTRY | {"name": "a-live-one", "live": True, "files": [LIVE_FILE]}
    catalogue = load_catalogue(write(tmp_path, ENTRY, live))
    assert catalogue.entry("an-entry").files[0].bytes == 9
    assert catalogue.entry("a-live-one").files[0].sha256 is None


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        pytest.param(ENTRY | {"colour": "red"}, "an-entry.colour: Extra inputs", id="unknown key"),
        pytest.param(
            {k: v for k, v in ENTRY.items() if k != "licence"}, "an-entry.licence: Field required", id="key lost"
        ),
        pytest.param(ENTRY | {"name": "An Entry"}, "An Entry.*: String should match", id="name"),
        pytest.param(ENTRY | {"reader": "csv"}, "an-entry.reader: .*allowed are the readers aan-", id="reader"),
        pytest.param(ENTRY | {"files": []}, "one file or more is needed, or `generated: true`", id="no files"),
        pytest.param(ENTRY | {"generated": True}, "a generated entry has no files and is not live", id="generated"),
        pytest.param(
            ENTRY | {"files": [FILE | {"sources": [{"url": "https://a.b/c", "packed_bytes": 3}]}]},
            "packed_sha256 and packed_bytes belong to a source with `unpack`",
            id="packed digest of what is not packed",
        ),
        pytest.param(
            ENTRY | {"files": [FILE | {"sources": [{"mirror": "a", "unpack": "zip"}]}]},
            "Input should be 'gzip'",
            id="unknown packing",
        ),
        pytest.param(ENTRY | {"files": [FILE, FILE]}, "file names must differ, a.tle came more than once", id="twice"),
        pytest.param(ENTRY | {"files": [FILE | {"sha256": "00"}]}, "files.0.sha256: String should match", id="sha256"),
        pytest.param(ENTRY | {"files": [FILE | {"bytes": 0}]}, "files.0.bytes: Input should be greater", id="bytes"),
        pytest.param(ENTRY | {"files": [FILE | {"name": "../a"}]}, "files.0.name: String should match", id="file name"),
        pytest.param(ENTRY | {"files": [LIVE_FILE]}, "sha256 and bytes are required, or `live: true`", id="unpinned"),
        pytest.param(ENTRY | {"live": True}, "a live entry's files have no sha256", id="live and pinned"),
        pytest.param(
            ENTRY | {"live": True, "files": [LIVE_FILE | {"sources": [{"mirror": "a"}]}]},
            "a live entry's sources are addresses",
            id="live from a mirror",
        ),
        pytest.param(
            ENTRY | {"files": [FILE | {"sources": [{"ftp": "a"}]}]},
            "allowed is one of the keys sample, own, mirror, url, package",
            id="source kind",
        ),
        *(
            pytest.param(
                ENTRY | {"files": [FILE | {"sources": [{"mirror": path}]}]},
                "allowed is a relative path with forward slashes",
                id=f"path {path!r}",
            )
            for path in ("/etc/passwd", "../secret", "a/../../b", "C:/x", "a\\b", "")
        ),
        pytest.param(
            ENTRY | {"files": [FILE | {"sources": [{"url": "file:///etc/passwd"}]}]},
            "files.0.sources.0.url.url: String should match",
            id="address",
        ),
        pytest.param(
            ENTRY | {"exclude": [{"id": 5}]}, "an-entry.exclude.0.reason: Field required", id="exclusion without reason"
        ),
    ],
)
def test_faults_are_one_line_that_names_the_entry(tmp_path: Path, entry: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        load_catalogue(write(tmp_path, entry))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("data/catalogue.yaml is refused: ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("format: [", "is not YAML"),
        ("", "the whole: Input should be a valid dictionary"),
        ("format: other/1\nentries: []\n", "format: Input should be 'quintet-catalogue/1'"),
        ("format: quintet-catalogue/1\nentries: {}\n", "entries: Dictionary should have at least 1 item"),
        ("format: quintet-catalogue/1\nentries: []\n", "entries: Input should be a valid dictionary"),
    ],
)
def test_what_is_no_catalogue(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_catalogue(write(tmp_path, text=text))


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    write(tmp_path, ENTRY)
    path = tmp_path / CATALOGUE_PATH
    head, entry = path.read_text(encoding="utf-8").split("entries:\n")
    path.write_text(f"{head}entries:\n{entry.split('format')[0]}{entry}", encoding="utf-8")
    with pytest.raises(ConfigError, match="an-entry stands there twice"):
        load_catalogue(tmp_path)


def test_the_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist; run from the root of a checkout"):
        load_catalogue(tmp_path / "nowhere")
