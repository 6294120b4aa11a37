"""Texts as bytes and images as grey pixels: the prepared folder holds exactly what the entry holds, value by value."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from components.arrays import open_array
from components.config import DatasetConfig
from components.datasets.core.catalogue import Entry, load_catalogue
from components.datasets.core.fetching import fetch
from components.datasets.core.sources import MIRROR_VARIABLE, mirror_folder
from components.datasets.longrange.config import PrepareOptions
from components.datasets.longrange.encoded import bytes_of_texts, grey
from components.datasets.longrange.kind import READERS, TASKS, prepare
from components.datasets.longrange.source import byte_tokens, level_vocabulary
from components.datasets.preparing import prepare_dataset
from components.datasets.readers import READERS as ALL_READERS
from components.datasets.readers import reader_named
from components.datasets.text.source import TextRow
from components.errors import ConfigError
from components.files import read_json, sha256_path
from tests.datasets.checkouts import ROOT, left_files
from tests.datasets.sequences import file_entry, in_memory, ragged, silent, text_source

MIRROR = mirror_folder(None)
LINES = [f"{number % 2}\tline {number} … ä long enough text" for number in range(40)]


def lines_entry(**changes: Any) -> Entry:
    entry = file_entry("text-lines", ["rows.txt"], options={"classes": ["no", "yes"]}, **changes)
    return entry.model_copy(update={"files": (entry.files[0].model_copy(update={"split": "train"}),)})


def lines_prepared(folder: Path, tmp_path: Path, lines: list[str] = LINES, **options: Any) -> dict[str, Any]:
    path = tmp_path / "rows.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    wanted = PrepareOptions.model_validate({"task": "bytes", "seed": 1} | options)
    folder.mkdir(exist_ok=True)
    return prepare(lines_entry(), [path], wanted, folder, silent)


def test_every_text_comes_back_from_its_bytes(tmp_path: Path) -> None:
    summary = lines_prepared(tmp_path / "out", tmp_path)
    rows = ragged(tmp_path / "out")
    texts = [bytes(row - 1).decode("utf-8") for row in rows]
    assert texts == [line.partition("\t")[2] for line in LINES]
    labels, splits = (open_array(tmp_path / "out" / f"{name}.npy").tolist() for name in ("labels", "splits"))
    assert labels == [number % 2 for number in range(40)]
    counted = Counter(splits)
    assert summary["splits"] == {"train": counted[0], "validation": counted[1], "test": counted[2]}
    assert (summary["rows"], summary["rows_of_entry"], summary["classes"]) == (40, 40, ["no", "yes"])
    assert summary["counts"]["validation"] == {"no": 2, "yes": 2}
    assert summary["tokens"] == sum(len(row) for row in rows)
    assert (summary["task"], summary["pairs"], summary["cut"]) == ("bytes", False, 0)
    assert rows[0].dtype == np.uint8
    assert left_files(tmp_path / "out") == [
        "labels.npy",
        "offsets.npy",
        "splits.npy",
        "tokens.npy",
        "vocabulary.json",
    ]
    vocabulary = read_json(tmp_path / "out" / "vocabulary.json")
    assert vocabulary["0"] == "padding"
    assert vocabulary["66"] == "byte 65"
    assert len(vocabulary) == summary["vocabulary"] == 257


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    first, second, other = (tmp_path / name for name in ("first", "second", "other"))
    assert lines_prepared(first, tmp_path) == lines_prepared(second, tmp_path)
    lines_prepared(other, tmp_path, seed=2)
    assert sha256_path(first) == sha256_path(second) != sha256_path(other)


def test_texts_are_cut_after_bytes_and_the_summary_tells_how_many(tmp_path: Path) -> None:
    summary = lines_prepared(tmp_path / "out", tmp_path, texts={"max_length": 9})
    assert {len(row) for row in ragged(tmp_path / "out")} == {9}
    # the dots are one character of three bytes, and the cut falls after two of them
    assert bytes(ragged(tmp_path / "out")[7] - 1) == "line 7 …".encode()[:9]
    assert (summary["cut"], summary["variant"]) == (40, "Text as bytes, cut after 9 bytes (published: 4000)")
    whole = lines_prepared(tmp_path / "whole", tmp_path, texts={"max_length": None})
    assert (whole["cut"], whole["variant"]) == (0, "Text as bytes, whole (published: 4000)")
    assert lines_prepared(tmp_path / "due", tmp_path)["variant"] == "Text as bytes, cut after 4000 bytes"


def test_copies_are_told_by_what_is_left_of_a_text(tmp_path: Path) -> None:
    lines = [*LINES, "1\tline 1 … another end", "0\tline 2 … a third one"]
    kept = lines_prepared(tmp_path / "kept", tmp_path, lines)
    assert kept["duplicates"] == {"within": 0, "across": 0}
    # the first eight bytes are the same as those of rows 1 and 10 to 19, and so on
    dropped = lines_prepared(tmp_path / "dropped", tmp_path, lines, texts={"max_length": 8}, drop_duplicates=["within"])
    starts = [line.partition("\t")[2].encode()[:8] for line in lines]
    assert dropped["rows"] == len(set(starts))
    assert dropped["duplicates"]["within"] == len(lines) - len(set(starts))


def test_a_smaller_choice_is_part_of_a_larger_one(tmp_path: Path) -> None:
    small = {"train": 5, "validation": 2, "test": 2}
    sets = []
    for name, rows in (("small", small), ("large", {"train": 12})):
        lines_prepared(tmp_path / name, tmp_path, rows=rows)
        splits = open_array(tmp_path / name / "splits.npy")
        sets.append({row.tobytes() for row, code in zip(ragged(tmp_path / name), splits, strict=True) if code == 0})
    assert len(sets[0]) == 5
    assert sets[0] < sets[1]


@given(st.text(max_size=300), st.one_of(st.none(), st.integers(1, 40)))
def test_tokens_are_never_padding_and_fit_into_a_byte(text: str, limit: int | None) -> None:
    if "\0" in text:
        return
    try:
        content = text.encode()
    except UnicodeEncodeError:
        return
    tokens = byte_tokens(text, limit)
    assert tokens.dtype == np.uint8
    assert bytes(tokens - 1) == content[:limit]
    # above 0xf4 there is no byte of UTF-8, so that nothing can come round to 0
    assert all(0 < token <= 0xF5 for token in tokens.tolist())


def test_the_vocabulary_of_levels_begins_behind_the_padding() -> None:
    vocabulary = level_vocabulary("brightness")
    assert sorted(vocabulary) == list(range(1, 257))
    assert vocabulary[256] == "brightness 255"


def test_entries_that_do_not_fit_the_task_are_refused() -> None:
    row = [TextRow("1", "one", "two", 0)]
    options = PrepareOptions(task="bytes", seed=1)
    entry = lines_entry()
    with pytest.raises(ConfigError, match="had holds pairs of texts, the task bytes takes single ones"):
        bytes_of_texts(text_source(row, pairs=True), entry, options, silent)
    with pytest.raises(ConfigError, match="had has numbers as labels, long-range tasks take classes"):
        bytes_of_texts(text_source(row, classes=None), entry, options, silent)
    with pytest.raises(ConfigError, match="task pixels cannot be made of had, which 'text-lines' reads"):
        prepare(entry, [], PrepareOptions(task="pixels", seed=1), Path("nowhere"), silent)


def test_every_task_has_its_readers_and_all_of_them_exist() -> None:
    assert set(READERS) <= set(ALL_READERS)
    for readers, _ in TASKS.values():
        assert set(readers) <= set(READERS)


def reference_grey(images: NDArray[np.uint8]) -> NDArray[np.int64]:
    """In single precision and fractions, as image libraries do it."""
    fractions = images.astype(np.float32) / np.float32(255)
    brightness = fractions @ np.asarray([0.2989, 0.5870, 0.1140], dtype=np.float32)
    return np.floor(brightness * np.float32(255.5)).astype(np.int64)


def test_colours_become_the_published_brightness() -> None:
    images = np.random.default_rng(1).integers(0, 256, (200, 8, 8, 3), dtype=np.uint8)
    found, reference = grey(images).astype(np.int64), reference_grey(images)
    # single precision may fall on the other side of a whole number
    assert np.abs(found - reference).max() <= 1
    assert (found != reference).mean() < 1e-3
    one = np.zeros((1, 1, 4, 3), dtype=np.uint8)
    one[0, 0] = [[255, 255, 255], [255, 0, 0], [0, 255, 0], [0, 0, 255]]
    assert grey(one).ravel().tolist() == [255, 76, 149, 29]
    assert np.array_equal(grey(images[..., :1]), images[..., 0])


def test_the_shipped_images_are_prepared_pixel_by_pixel(tmp_path: Path) -> None:
    entry = load_catalogue(ROOT).entry("fashion-mnist-sample")
    paths = fetch(entry, ROOT).paths
    summary = prepare(entry, paths, PrepareOptions(task="pixels", seed=1), tmp_path, silent)
    source = reader_named(entry.reader)(paths, entry)
    images = np.concatenate([batch for part in source.parts.values() for batch, _ in part.batches()])
    tokens = open_array(tmp_path / "tokens.npy")
    assert tokens.dtype == np.uint16
    assert np.array_equal(np.asarray(tokens).reshape(images.shape[:3]), images[..., 0].astype(int) + 1)
    assert set(np.diff(open_array(tmp_path / "offsets.npy")).tolist()) == {784}
    assert (summary["shape"], summary["vocabulary"]) == ([28, 28], 257)
    assert summary["splits"] == {"train": 5400, "validation": 600, "test": 1000}
    assert summary["variant"] == "Image of 28 by 28 pixels, 784 tokens"


@pytest.mark.skipif(
    MIRROR is None or not (MIRROR / "imdb").is_dir(), reason=f"{MIRROR_VARIABLE} names no folder with imdb/"
)
def test_mirrored_reviews_come_whole(tmp_path: Path) -> None:
    entry = load_catalogue(ROOT).entry("imdb-4k")
    config = DatasetConfig(kind="longrange", source="text", entry="imdb-4k", prepare={"task": "bytes", "seed": 1})
    paths = fetch(entry, tmp_path).paths
    (tmp_path / "out").mkdir()
    summary = prepare_dataset("lra-text-imdb-4k", config, entry, paths, tmp_path / "out", silent)
    assert (summary["rows"], summary["splits"]["test"]) == (8000, 4000)
    assert summary["subset_of"].startswith("imdb")
    source = reader_named(entry.reader)(paths, entry)
    for row, text in zip(ragged(tmp_path / "out")[:50], source.parts["train"](), strict=False):
        assert bytes(row - 1) == text.text.encode()[:4000]


def test_rows_of_one_group_stay_in_one_split() -> None:
    rows = [TextRow(str(i), f"text {i}", None, i % 2, (f"group {i // 5}",)) for i in range(100)]
    made = bytes_of_texts(text_source(rows), lines_entry(), PrepareOptions(task="bytes", seed=3), silent)
    splits = [row.split for row in in_memory(made)]
    assert all(len(set(splits[begin : begin + 5])) == 1 for begin in range(0, 100, 5))
    assert set(splits) == {0, 1, 2}
