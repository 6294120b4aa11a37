"""Preparing texts: what is cut, emptied, copied or held out is counted, and nothing else changes."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from components.datasets.core.catalogue import load_catalogue
from components.datasets.core.fetching import fetch
from components.datasets.core.sources import MIRROR_VARIABLE, mirror_folder
from components.datasets.text.config import PrepareOptions
from components.datasets.text.kind import prepare
from components.errors import ConfigError, DataError, QuintetError
from components.files import sha256_file
from tests.datasets.checkouts import ROOT
from tests.datasets.texts import text_entry, write_parquet


def silent(done: int, total: int | None) -> None:
    """Progress goes nowhere."""


def prepared(folder: Path, columns: dict[str, dict[str, list[Any]]], prepare_as: dict[str, Any], **options: Any):  # type: ignore[no-untyped-def]
    """Summary and rows of the splits in `columns`."""
    out = folder / "out"
    out.mkdir(parents=True)
    paths = [write_parquet(folder / f"{split}.parquet", content) for split, content in columns.items()]
    entry = text_entry("text-parquet", {f"{split}.parquet": split for split in columns}, **options)
    summary = prepare(entry, paths, PrepareOptions(seed=5, **prepare_as), out, silent)
    return summary, pq.read_table(out / "rows.parquet").to_pylist()


def numbered(split: str, rows: int) -> dict[str, list[Any]]:
    return {"text": [f"{split} text {i}" for i in range(rows)], "label": [i % 2 for i in range(rows)]}


def test_rows_and_published_splits_are_kept(tmp_path: Path) -> None:
    splits = {split: numbered(split, 40) for split in ("train", "validation", "test")}
    summary, rows = prepared(tmp_path, splits, {})
    expected = [
        {"id": f"{split}-{i + 1}", "text": text, "label": label, "group": "", "split": split}
        for split, content in splits.items()
        for i, (text, label) in enumerate(zip(content["text"], content["label"], strict=True))
    ]
    assert rows == expected
    assert summary["counts"] == {split: {"no": 20, "yes": 20} for split in splits}
    assert (summary["rows"], summary["rows_of_entry"], summary["splits"]) == (120, 120, dict.fromkeys(splits, 40))
    assert (summary["classes"], summary["pairs"]) == (["no", "yes"], False)


def test_development_rows_may_be_the_test(tmp_path: Path) -> None:
    splits = {"train": numbered("train", 200), "validation": numbered("validation", 40)}
    summary, rows = prepared(tmp_path, splits, {"validation_as_test": True, "validation": 0.25})
    assert [row["text"] for row in rows if row["split"] == "test"] == splits["validation"]["text"]
    assert summary["splits"] == {"train": 150, "validation": 50, "test": 40}
    assert {row["text"] for row in rows if row["split"] != "test"} == set(splits["train"]["text"])


@pytest.mark.parametrize("published", [("train",), ("train", "test"), ("train", "validation", "test")])
def test_development_rows_cannot_be_the_test_where_there_are_none_or_a_test(
    tmp_path: Path, published: tuple[str, ...]
) -> None:
    splits = {split: numbered(split, 40) for split in published}
    with pytest.raises(ConfigError, match=f"validation_as_test is true, but the published splits are {published[0]}"):
        prepared(tmp_path, splits, {"validation_as_test": True})
    assert not (tmp_path / "out" / "rows.parquet").exists()


def test_texts_are_cut_and_counted(tmp_path: Path) -> None:
    content = {"one": ["é" * 9, "short", "x" * 10] * 20, "two": ["y" * 11, "z", "w"] * 20, "label": [0, 1, 0] * 20}
    content["one"] = [f"{i:02}{text}" for i, text in enumerate(content["one"])]
    splits = {"train": content, "validation": content, "test": content}
    summary, rows = prepared(tmp_path, splits, {"max_characters": 10}, text="one", second="two")
    # characters, not bytes; a pair counts once
    assert summary["cut"] == 3 * 40
    assert [row["text"] for row in rows[:3]] == ["00" + "é" * 8, "01short", "02" + "x" * 8]
    assert [row["second"] for row in rows[:3]] == ["y" * 10, "z", "w"]
    assert summary["pairs"]


def test_texts_of_which_nothing_is_left_are_left_out_and_counted(tmp_path: Path) -> None:
    content = numbered("train", 100)
    content["text"][::10] = [f"> quoted {i}" for i in range(10)]
    summary, rows = prepared(tmp_path, {"train": content}, {"remove": ["quotes"]})
    assert (summary["rows_of_entry"], summary["emptied"], summary["rows"]) == (100, 10, 90)
    # the rows behind an empty one keep their own texts and labels
    whole = {f"train-{i + 1}": pair for i, pair in enumerate(zip(content["text"], content["label"], strict=True))}
    assert all((row["text"], row["label"]) == whole[row["id"]] for row in rows)
    assert len(rows) == 90


def test_copies_are_dropped_as_asked(tmp_path: Path) -> None:
    splits = {split: numbered(split, 40) for split in ("train", "validation", "test")}
    splits["train"]["text"][:3] = ["same  text", "same text\n", "test text 7"]
    summary, rows = prepared(tmp_path / "kept", splits, {})
    assert summary["duplicates"] == {"within": 1, "across": 1}
    assert len(rows) == 120
    summary, rows = prepared(tmp_path / "dropped", splits, {"drop_duplicates": ["within", "across"]})
    assert summary["duplicates"] == {"within": 1, "across": 1}
    assert summary["splits"] == {"train": 38, "validation": 40, "test": 40}
    assert max(Counter(" ".join(row["text"].split()) for row in rows).values()) == 1
    assert {"train-1", "test-8"} <= {row["id"] for row in rows}


def test_a_pair_is_another_when_its_words_change_sides(tmp_path: Path) -> None:
    content = {"one": ["a b", "a"] * 20, "two": ["c", "b c"] * 20, "label": [0, 1] * 20}
    splits = dict.fromkeys(("train", "validation", "test"), content)
    summary, _ = prepared(tmp_path, splits, {}, text="one", second="two")
    assert summary["duplicates"] == {"within": 3 * 38, "across": 2 * 40}


def test_targets_of_a_regression_are_kept_as_they_are(tmp_path: Path) -> None:
    content = {"text": [f"text {i}" for i in range(100)], "label": [i / 20 for i in range(100)]}
    summary, rows = prepared(tmp_path, {"train": content}, {"validation": 0.2, "test": 0.2}, classes=None)
    assert {row["text"]: row["label"] for row in rows} == dict(zip(content["text"], content["label"], strict=True))
    assert (summary["classes"], summary["counts"]) == (None, None)
    # each whole number has its share
    assert Counter(int(row["label"]) for row in rows if row["split"] == "test") == dict.fromkeys(range(5), 4)


def test_a_smaller_part_is_in_a_larger_one_and_twice_is_the_same(tmp_path: Path) -> None:
    ids = []
    for number, limit in enumerate((20, 50, 50)):
        folder = tmp_path / str(number)
        _, rows = prepared(folder, {"train": numbered("train", 200)}, {"rows": {"train": limit}})
        ids.append({row["id"] for row in rows if row["split"] == "train"})
    assert ids[0] < ids[1]
    assert len(ids[0]) == 20
    first, second = (sha256_file(tmp_path / number / "out" / "rows.parquet") for number in ("1", "2"))
    assert first == second


def test_rows_of_which_a_split_cannot_be_held_out_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="1 rows in 1 groups cannot be parted"):
        prepared(tmp_path, {"train": numbered("train", 1)}, {})


# rows of the entry by published split, as its publisher counts them
MIRRORED = {
    "sst2-parquet": {"train": 67349, "test": 872},
    "imdb-4k": {"train": 4000, "test": 4000},
    "cola-lowercased": {"train": 8551, "test": 516},
    "rte-parquet": {"train": 2490, "test": 277},
}
PACKAGED = {"imdb-train-25k": (25000, [12500, 12500], 96), "rotten-tomatoes": (8530, [4265, 4265], 0)}


@pytest.mark.parametrize("name", list(MIRRORED))
def test_mirrored_entries_have_the_rows_that_are_published(tmp_path: Path, name: str) -> None:
    entry = load_catalogue(ROOT).entry(name)
    folder = mirror_folder(None)
    if folder is None or not all((folder / source.mirror).is_file() for f in entry.files for source in f.sources):
        pytest.skip(f"{MIRROR_VARIABLE} names no folder with the files of {name}")
    options = PrepareOptions(seed=1, validation_as_test=name != "imdb-4k")
    (tmp_path / "out").mkdir()
    summary = prepare(entry, fetch(entry, tmp_path).paths, options, tmp_path / "out", silent)
    splits = summary["splits"]
    assert {"train": splits["train"] + splits["validation"], "test": splits["test"]} == MIRRORED[name]
    assert summary["rows_of_entry"] == sum(MIRRORED[name].values())


@pytest.mark.parametrize("name", list(PACKAGED))
def test_packaged_entries_have_the_rows_that_are_published(tmp_path: Path, name: str) -> None:
    entry = load_catalogue(ROOT).entry(name)
    try:
        paths = fetch(entry, tmp_path).paths
    except QuintetError as error:
        pytest.skip(f"the package with {name} is not installed: {error}")
    (tmp_path / "out").mkdir()
    summary = prepare(entry, paths, PrepareOptions(seed=1), tmp_path / "out", silent)
    rows, of_class, copies = PACKAGED[name]
    assert (summary["rows_of_entry"], summary["rows"]) == (rows, rows)
    assert [sum(split[kind] for split in summary["counts"].values()) for kind in summary["classes"]] == of_class
    assert summary["duplicates"] == {"within": copies, "across": 0}
