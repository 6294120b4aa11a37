"""Preparing, whatever the kind: where data come from is said, and what does not fit is refused at once."""

from pathlib import Path
from typing import Any

import pytest

from components.config import DatasetConfig
from components.datasets.core.catalogue import load_catalogue
from components.datasets.core.fetching import fetch
from components.datasets.preparing import prepare_dataset
from components.errors import ConfigError, DataError
from components.files import canonical_json, sha256_path, write_json
from components.stages.inspecting import read_dataset
from tests.datasets.checkouts import ROOT

CATALOGUE = load_catalogue(ROOT)
SHIPPED = ("orbital-sample", "orbital-tle-sample", "fashion-mnist-sample", "lra-listops-short")


def configured(name: str, **changes: Any) -> DatasetConfig:
    return read_dataset(ROOT / "conf" / "dataset" / f"{name}.yaml").model_copy(update=changes)


def prepared(config: DatasetConfig, folder: Path, entry: str | None = None) -> dict[str, Any]:
    folder.mkdir(parents=True)
    of = CATALOGUE.entry(entry or config.entry)
    told: list[tuple[int, int | None]] = []
    summary = prepare_dataset("some-set", config, of, fetch(of, ROOT).paths, folder, lambda *done: told.append(done))
    # whoever waits is told how far it is, and never more than all
    assert told
    assert all(whole is None or done <= whole for done, whole in told)
    return summary


@pytest.mark.parametrize("name", SHIPPED)
def test_the_summary_says_what_the_data_are_and_where_from(tmp_path: Path, name: str) -> None:
    config = configured(name)
    summary = prepared(config, tmp_path / "one")
    entry = CATALOGUE.entry(config.entry)
    assert (summary["entry"], summary["kind"], summary["title"]) == (entry.name, config.kind, entry.title)
    assert (summary["licence"], summary["citation"]) == (entry.licence, entry.citation)
    assert (summary["subset_of"], summary["stand_in_for"]) == (entry.subset_of, entry.stand_in_for)
    assert {file["sha256"] for file in summary["files"].values()} == {file.sha256 for file in entry.files}
    assert summary["rows"] == sum(summary["splits"].values()) <= summary["rows_of_entry"]
    assert set(summary["splits"]) == {"train", "validation", "test"}
    assert summary["prepare"]["seed"] == config.prepare["seed"]
    # JSON types only, in one form
    write_json(tmp_path / "summary.json", summary)
    assert (tmp_path / "summary.json").read_text() == canonical_json(summary)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_same_configuration_gives_the_same_bytes_and_another_seed_others(tmp_path: Path, name: str) -> None:
    config = configured(name)
    for folder in ("one", "two"):
        prepared(config, tmp_path / folder)
    assert sha256_path(tmp_path / "one") == sha256_path(tmp_path / "two")
    prepared(configured(name, prepare={**config.prepare, "seed": 1}), tmp_path / "other")
    assert sha256_path(tmp_path / "one") != sha256_path(tmp_path / "other")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"kind": "spectra"}, "there is no kind of data 'spectra'"),
        ({"kind": "text"}, "kind 'text' takes the readers text-parquet"),
        ({"source": "text"}, "write `source: images`"),
        ({"prepare": {"seed": -1}}, "datasets.some-set.prepare is refused: seed"),
        ({"prepare": {}}, "datasets.some-set.prepare is refused: seed: Field required"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        prepared(configured("fashion-mnist-sample", **changes), tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_set_of_which_nothing_is_left_is_refused(tmp_path: Path) -> None:
    # one launch cannot be dealt out
    config = configured("orbital-tle-sample")
    with pytest.raises(DataError, match="cannot be dealt into"):
        prepared(configured("orbital-tle-sample", prepare={**config.prepare, "max_rows": 1}), tmp_path / "out")
