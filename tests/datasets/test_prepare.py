"""Preparing: the split's promises, canonical bytes, and faults of the shipped files told with their place."""

import hashlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.datasets.core.catalogue import load_catalogue
from components.datasets.core.fetching import fetch
from components.datasets.core.splitting import split_groups
from components.datasets.orbital.config import PrepareOptions
from components.datasets.orbital.kinds import KINDS
from components.datasets.orbital.prepare import prepared_table, smallest_by_hash, split_table
from components.datasets.orbital.regimes import regime_of
from components.datasets.orbital.table import (
    COLUMNS,
    SPLITS,
    build_table,
    columns_from_elements,
    read_table,
    write_table,
)
from components.errors import DataError
from tests.datasets.checkouts import ROOT, copy_of_samples

SAMPLE = "satcat_2016_sample.csv"
Prepared = tuple[pd.DataFrame, dict[str, Any]]


def prepare(name: str, **options: Any) -> Prepared:
    entry = load_catalogue(ROOT).entry(name)
    return prepared_table(entry, fetch(entry, ROOT).paths, PrepareOptions(**({"seed": 0} | options)))


@pytest.fixture(scope="module")
def sample() -> Prepared:
    with warnings.catch_warnings():
        # rare classes must not make scikit-learn complain
        warnings.simplefilter("error")
        return prepare("orbital-sample")


def test_the_prepared_table_is_the_contract(sample: Prepared) -> None:
    table, summary = sample
    assert list(table.columns) == list(COLUMNS)
    assert len(table) == summary["rows"] == 6000
    assert table["norad_id"].is_monotonic_increasing
    assert table["norad_id"].is_unique
    assert not table.isna().any().any()
    told = [
        regime_of(*row)
        for row in zip(table["eccentricity"], table["mean_motion_rev_day"], table["semi_major_axis_km"], strict=True)
    ]
    assert table["regime"].tolist() == told


def test_no_launch_and_no_object_is_in_two_splits(sample: Prepared) -> None:
    table, _ = sample
    for key in ("launch", "norad_id"):
        assert table.groupby(key)["split"].nunique().max() == 1


def test_every_class_keeps_its_share_in_every_split(sample: Prepared) -> None:
    table, summary = sample
    for column, words in (("regime", ("LEO", "MEO", "GEO", "HEO")), ("kind", KINDS)):
        for word in words:
            whole = (table[column] == word).mean()
            for split in SPLITS:
                part = (table.loc[table["split"] == split, column] == word).mean()
                assert part > 0
                # the largest cloud of debris, 15 % of all objects, must lie in one split
                assert abs(part - whole) < 0.03, (word, split)
    assert summary["counts"]["split"] == {"train": 3746, "validation": 1126, "test": 1128}


def test_the_summary_is_json_and_counts_what_the_table_has(sample: Prepared) -> None:
    table, summary = sample
    json.dumps(summary, allow_nan=False)
    assert summary["counts"]["regime"] == {"LEO": 4721, "MEO": 185, "GEO": 387, "HEO": 696, "OTHER": 11}
    assert summary["counts"]["kind"] == table["kind"].value_counts().to_dict()
    for column in ("kind", "regime"):
        for word, count in summary["counts"][column].items():
            assert sum(summary["counts_by_split"][split][column][word] for split in SPLITS) == count


def test_same_seed_same_bytes_and_other_seed_other_split(sample: Prepared, tmp_path: Path) -> None:
    table, _ = sample
    again, _ = prepare("orbital-sample")
    other, _ = prepare("orbital-sample", seed=1)
    for name, frame in (("a", table), ("b", again), ("c", other)):
        write_table(frame, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()
    assert b"\r" not in (tmp_path / "a").read_bytes()
    pd.testing.assert_frame_equal(table.drop(columns="split"), other.drop(columns="split"))


def test_the_whole_table_reads_back_as_it_was(sample: Prepared, tmp_path: Path) -> None:
    table, _ = sample
    write_table(table, tmp_path / "table.csv")
    pd.testing.assert_frame_equal(read_table(tmp_path / "table.csv"), table)


def test_a_smaller_choice_is_part_of_a_larger_one(sample: Prepared) -> None:
    table, _ = sample
    small, summary = prepare("orbital-sample", max_rows=400)
    assert (len(small), summary["rows"], summary["rows_of_entry"]) == (400, 400, 6000)
    assert set(small["norad_id"]) < set(smallest_by_hash(table, 900)["norad_id"])
    digests = [hashlib.sha256(str(number).encode()).hexdigest() for number in table["norad_id"]]
    assert set(small["norad_id"]) == {table["norad_id"][index] for index in np.argsort(digests)[:400]}
    for split in SPLITS:
        part = small[small["split"] == split]
        assert {"LEO", "MEO", "GEO", "HEO"} <= set(part["regime"])
        assert set(KINDS) == set(part["kind"])


def test_the_element_sets_give_the_same_kind_of_table() -> None:
    table, summary = prepare("orbital-tle-sample")
    assert list(table.columns) == list(COLUMNS)
    assert summary["counts"]["regime"] == {"LEO": 826, "MEO": 80, "GEO": 21, "HEO": 52, "OTHER": 0}
    assert summary["counts"]["kind"] == {"PAYLOAD": 892, "ROCKET BODY": 87, "DEBRIS": 0}
    for split in SPLITS:
        assert set(table.loc[table["split"] == split, "regime"]) == {"LEO", "MEO", "GEO", "HEO"}
    assert table.groupby("launch")["split"].nunique().max() == 1


def _flip_digit(content: bytes) -> bytes:
    lines = content.split(b"\n")
    at = next(index for index, character in enumerate(lines[10][8:], start=8) if chr(character).isdigit())
    lines[10] = lines[10][:at] + (b"1" if lines[10][at : at + 1] != b"1" else b"2") + lines[10][at + 1 :]
    return b"\n".join(lines)


def _nan(content: bytes) -> bytes:
    lines = content.split(b"\n")
    fields = lines[10].split(b",")
    fields[5] = b"NaN"
    lines[10] = b",".join(fields)
    return b"\n".join(lines)


@pytest.mark.parametrize(
    ("name", "file", "spoil", "told"),
    [
        pytest.param("orbital-tle-sample", "gpredict_2018.tle", _flip_digit, r"line 11, column", id="flipped digit"),
        pytest.param(
            "orbital-sample", SAMPLE, _nan, r"row 10 \(line 11\), column inclination_deg: got 'NaN'", id="NaN"
        ),
        pytest.param("orbital-sample", SAMPLE, lambda _: b"", "got an empty file", id="empty"),
        pytest.param("orbital-tle-sample", "gpredict_2018.tle", lambda _: b"", "got an empty file", id="empty TLE"),
        pytest.param(
            "orbital-sample",
            SAMPLE,
            lambda content: content.replace(b"perigee_km", b"perigee", 1),
            r"line 1 \(header\): got column 'perigee' \(perhaps 'perigee_km' renamed\)",
            id="renamed column",
        ),
        pytest.param(
            "orbital-sample",
            SAMPLE,
            lambda content: content[:-30],
            r"row 6000 \(line 6001\): got \d+ fields",
            id="short",
        ),
        pytest.param(
            "orbital-sample",
            SAMPLE,
            lambda content: b"\n".join(content.split(b"\n")[:-3]) + b"\n",
            "reads without fault, allowed is the content that orbital-sample catalogues",
            id="rows lost",
        ),
    ],
)
def test_a_spoilt_sample_stops_with_one_line(
    tmp_path: Path, name: str, file: str, spoil: Callable[[bytes], bytes], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy_of_samples(tmp_path) / file
    path.write_bytes(spoil(path.read_bytes()))
    monkeypatch.chdir(tmp_path)
    entry = load_catalogue(tmp_path).entry(name)
    with pytest.raises(DataError, match=told) as caught:
        prepared_table(entry, fetch(entry, tmp_path).paths, PrepareOptions(seed=0))
    message = str(caught.value)
    assert message.startswith(f"data/samples/orbital/{file}")
    assert f"`git checkout -- data/samples/orbital/{file}`" in message
    assert "\n" not in message


ROWS = st.builds(
    lambda number, name, kind, launch, orbit, split: (
        {"norad_id": number, "name": name, "kind": kind, "launch": launch, "split": split}
        | columns_from_elements(*orbit)
    ),
    st.integers(1, 339999),
    st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=20),
    st.sampled_from(KINDS),
    st.one_of(st.just("1999-025"), st.integers(1, 9).map("unknown-{}".format)),
    st.tuples(st.floats(0.0, 180.0), st.floats(0.0, 0.02), st.floats(0.05, 15.0)),
    st.sampled_from(SPLITS),
)


@settings(max_examples=50)
@given(rows=st.lists(ROWS, min_size=1, max_size=5, unique_by=lambda row: row["norad_id"]))
def test_any_table_reads_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.mktemp("table") / "table.csv"
    table = pd.DataFrame(rows)[list(COLUMNS)]
    write_table(table, path)
    pd.testing.assert_frame_equal(read_table(path), table)


def test_a_prepared_table_with_a_repeated_object_is_refused(sample: Prepared, tmp_path: Path) -> None:
    table, _ = sample
    write_table(table.iloc[[0, 1, 0]], tmp_path / "table.csv")
    with pytest.raises(DataError, match=r"row 3 \(line 4\), column norad_id: got 11 again \(first in line 2\)"):
        read_table(tmp_path / "table.csv")


@settings(max_examples=30, deadline=None)
@given(
    groups=st.lists(st.integers(0, 30), min_size=60, max_size=120),
    seed=st.integers(0, 2**32 - 1),
    data=st.data(),
)
def test_splits_never_cut_a_group(groups: list[int], seed: int, data: st.DataObject) -> None:
    if len(set(groups)) < 8:
        return
    classes = data.draw(st.lists(st.sampled_from("aaaaab"), min_size=len(groups), max_size=len(groups)))
    keys = [str(group) for group in groups]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts = split_groups(classes, classes, keys, seed, 0.2, 0.2)
    frame = pd.DataFrame({"key": keys, "part": parts})
    assert frame.groupby("key")["part"].nunique().max() == 1
    assert set(parts) == set(SPLITS)
    assert np.array_equal(parts, split_groups(classes, classes, keys, seed, 0.2, 0.2))


def test_a_launch_larger_than_a_fold_does_not_starve_a_split() -> None:
    # half of all rows are one launch of one class: a fold that held it would hold none of the other
    groups = ["cloud"] * 500 + [f"launch-{index}" for index in range(500)]
    classes = ["a"] * 500 + ["b"] * 500
    parts = split_groups(classes, classes, groups, 3, 0.2, 0.2)
    assert set(parts[:500]) == {"train"}
    assert set(parts[500:]) == set(SPLITS)


def test_too_few_launches_and_impossible_fractions_are_refused() -> None:
    rows = [
        {"norad_id": number, "name": "A", "kind": "PAYLOAD", "launch": "1999-025"}
        | columns_from_elements(50.0, 0.0, 15.0)
        for number in range(1, 20)
    ]
    with pytest.raises(DataError, match="1 launches cannot be dealt into 5 parts; take more rows"):
        split_table(build_table(rows), 0)
    for validation, test in ((0.0, 0.2), (0.2, 0.0), (0.5, 0.5), (-0.1, 0.2)):
        with pytest.raises(ValueError, match="allowed are positive ones with a sum below 1"):
            split_table(build_table(rows), 0, validation, test)
