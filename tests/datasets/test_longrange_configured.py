"""The long-range sets of conf/dataset: each fits its entry, its kind and its gate; generators write the same twice."""

from pathlib import Path

import pytest
import yaml

from components.config import DatasetConfig
from components.datasets.core.catalogue import load_catalogue
from components.datasets.longrange.config import (
    GENERATED,
    GateOptions,
    ListOpsOptions,
    PathfinderOptions,
    PrepareOptions,
)
from components.datasets.preparing import prepare_dataset
from components.datasets.registry import require_reader
from components.files import sha256_path
from tests.datasets.checkouts import ROOT
from tests.datasets.sequences import silent

CONFIGURED = sorted((ROOT / "conf" / "dataset").glob("lra-*.yaml"))
CATALOGUE = load_catalogue(ROOT)
# published rows where the generator makes as many as it is told
PUBLISHED_ROWS = {"lra-listops": (96_000, 2_000, 2_000), "lra-pathfinder": (160_000, 20_000, 20_000)}


def configured(path: Path) -> DatasetConfig:
    return DatasetConfig.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", CONFIGURED, ids=lambda path: path.stem)
def test_each_configuration_fits_its_entry_kind_and_gate(path: Path) -> None:
    config = configured(path)
    entry = CATALOGUE.entry(config.entry)
    require_reader(path.stem, config, entry)
    prepare, gate = PrepareOptions.model_validate(config.prepare), GateOptions.model_validate(config.gate)
    limits = {
        "listops": lambda: (prepare.listops or ListOpsOptions()).max_length - 1,
        "pathfinder": lambda: (prepare.pathfinder or PathfinderOptions()).size ** 2,
        "bytes": lambda: prepare.max_text_length,
        "retrieval": lambda: prepare.max_text_length,
        "pixels": lambda: {"cifar10": 1024, "cifar10-4k": 1024, "fashion-mnist-sample": 784}[config.entry],
    }
    # the gate's bound is what the preparation can reach, and no looser
    assert gate.max_length == limits[prepare.task]()
    if prepare.task in GENERATED:
        assert gate.min_rows == sum(prepare.rows.model_dump().values())
    # what is not the published set says so in its first line
    told = path.read_text(encoding="utf-8").splitlines()[0]
    assert told.startswith("# Long-Range Arena") == (path.stem.count("-") == 1)


@pytest.mark.parametrize("name", list(PUBLISHED_ROWS))
def test_the_generated_sets_have_the_published_sizes_and_settings(name: str) -> None:
    config = configured(ROOT / "conf" / "dataset" / f"{name}.yaml")
    options = PrepareOptions.model_validate(config.prepare)
    assert tuple(options.rows.model_dump().values()) == PUBLISHED_ROWS[name]
    assert (options.listops, options.pathfinder) == (None, None)


@pytest.mark.parametrize("name", ["lra-listops-short", "lra-pathfinder-small"])
def test_a_generator_writes_the_same_bytes_twice(name: str, tmp_path: Path) -> None:
    config = configured(ROOT / "conf" / "dataset" / f"{name}.yaml")
    rows = {"train": 40, "validation": 10, "test": 10}
    small = config.model_copy(update={"prepare": {**config.prepare, "rows": rows}})
    digests = set()
    for attempt in ("first", "second"):
        folder = tmp_path / attempt
        folder.mkdir()
        summary = prepare_dataset(name, small, CATALOGUE.entry(config.entry), (), folder, silent)
        assert summary["splits"] == rows
        digests.add(sha256_path(folder))
    assert len(digests) == 1
