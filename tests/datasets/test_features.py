"""Frozen encoders: strict files, features that owe nothing to padding, and a kill that loses at most one chunk."""

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from components.arrays import open_array
from components.datasets.core.catalogue import load_catalogue
from components.datasets.core.fetching import fetch
from components.datasets.features.computing import Texts, compute_features
from components.datasets.features.config import EncoderConfig, FeatureOptions
from components.datasets.features.encoder import Encoder, load_encoder
from components.datasets.features.encoder_files import NEEDED, read_files
from components.datasets.readers import reader_named
from components.errors import ConfigError, DataError
from components.files import sha256_path
from tests.datasets.checkouts import ROOT

ENTRY = load_catalogue(ROOT).entry("minilm-l6")
TEXTS = [
    "A short one.",
    "A sentence that is a good deal longer than the one before it, and goes on.",
    "Word",
    "It is 'quoted', and has commas, and 42 numbers; also naïve accents.",
    " ".join(["many words"] * 40),
]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The encoder's files, as they are fetched from the installed package."""
    return read_files(fetch(ENTRY, tmp_path_factory.mktemp("checkout")).paths, ENTRY)


@pytest.fixture(scope="session")
def encoder(folder: Path) -> Encoder:
    return load_encoder(EncoderConfig(entry="minilm-l6"), folder, 32, "cpu", 1)


def texts(first: list[str], second: list[str] | None = None) -> Texts:
    rows = len(first)
    splits = [("train", "validation", "test")[i % 3] for i in range(rows)]
    return Texts([f"id {i}" for i in range(rows)], first, second, [float(i % 2) for i in range(rows)], splits, False)


OPTIONS = FeatureOptions(encoder=EncoderConfig(entry="minilm-l6"), max_tokens=32, rows_at_once=2, threads=1)


def compute(encoder: Encoder, of: Texts, out: Path, state: Path, **changes: Any) -> dict[str, Any]:
    out.mkdir(parents=True, exist_ok=True)
    return compute_features(of, encoder, OPTIONS.model_copy(update=changes), out, state, lambda done, total: None)


def test_the_encoder_is_frozen_and_known(encoder: Encoder) -> None:
    assert encoder.dim == 384
    assert encoder.facts["layers"] == 6
    assert not encoder.model.training
    assert not any(weight.requires_grad for weight in encoder.model.parameters())
    assert sum(weight.numel() for weight in encoder.model.parameters()) == 22_713_216
    catalogued = {file.name: file.sha256 for file in ENTRY.files}
    assert encoder.facts["files"] == {name: catalogued[name] for name in NEEDED}


def test_features_owe_nothing_to_padding(encoder: Encoder) -> None:
    together = encoder.encode(TEXTS, None)
    for text, padded in zip(TEXTS, together, strict=True):
        alone = encoder.encode([text], None)[0]
        assert alone.shape == padded.shape == (len(encoder.tokenize([text], None)[0]), 384)
        assert np.abs(alone - padded).max() < 1e-4 * np.abs(alone).max()


def test_features_are_those_of_the_model_itself(encoder: Encoder) -> None:
    ids = encoder.tokenizer(TEXTS[1], truncation=True, max_length=32, return_tensors="pt")
    with torch.inference_mode():
        by_hand = encoder.model(**ids).last_hidden_state[0].numpy()
    assert np.allclose(encoder.encode([TEXTS[1]], None)[0], by_hand, atol=1e-6)


def test_pairs_are_encoded_as_pairs(encoder: Encoder) -> None:
    (pair,) = encoder.encode(["one"], ["two"])
    # [CLS] one [SEP] two [SEP]
    assert len(pair) == 5
    assert not np.allclose(pair[:3], encoder.encode(["one"], None)[0], atol=1e-3)


def test_what_is_written_is_in_the_order_of_the_rows(encoder: Encoder, tmp_path: Path) -> None:
    of = texts(TEXTS)
    facts = compute(encoder, of, tmp_path / "out", tmp_path / "state", dtype="float32")
    features, offsets = open_array(tmp_path / "out/features.npy"), open_array(tmp_path / "out/offsets.npy")
    assert facts["tokens"] == offsets[-1] == len(features)
    assert facts["cut"] == sum(length > 32 for length in encoder.lengths(TEXTS, None)) == 1
    assert facts["tokens_of_longest"] == 32
    for i, text in enumerate(TEXTS):
        alone = encoder.encode([text], None)[0]
        assert np.abs(features[offsets[i] : offsets[i + 1]] - alone).max() < 1e-4 * np.abs(alone).max()
    assert open_array(tmp_path / "out/labels.npy").tolist() == [0, 1, 0, 1, 0]
    assert open_array(tmp_path / "out/splits.npy").tolist() == [0, 1, 2, 0, 1]
    half = compute(encoder, of, tmp_path / "half", tmp_path / "state-half")
    assert half["tokens"] == facts["tokens"]
    rounded = open_array(tmp_path / "half/features.npy")
    assert rounded.dtype == np.float16
    assert np.array_equal(rounded, np.asarray(features).astype(np.float16))


def test_twice_the_same_bytes_and_finished_chunks_are_not_computed_again(encoder: Encoder, tmp_path: Path) -> None:
    of = texts(TEXTS)
    compute(encoder, of, tmp_path / "one", tmp_path / "state-1")
    compute(encoder, of, tmp_path / "two", tmp_path / "state-2")
    assert sha256_path(tmp_path / "one") == sha256_path(tmp_path / "two")
    # one chunk is gone, one is half written, one has other content: only these are made anew
    chunks = sorted((tmp_path / "state-2").glob("*.chunk"))
    assert len(chunks) == 3
    chunks[0].unlink()
    chunks[1].write_bytes(chunks[1].read_bytes()[:-2])
    facts = compute(encoder, of, tmp_path / "three", tmp_path / "state-2")
    assert facts["chunks_resumed"] == 1
    assert sha256_path(tmp_path / "one") == sha256_path(tmp_path / "three")


def test_a_kill_loses_at_most_the_chunk_that_was_computed(folder: Path, tmp_path: Path, encoder: Encoder) -> None:
    code = """
import sys
from pathlib import Path
from components.datasets.features.config import EncoderConfig
from components.datasets.features.encoder import load_encoder
from tests.datasets.test_features import MANY, compute, texts
encoder = load_encoder(EncoderConfig(entry="minilm-l6"), Path(sys.argv[1]), 32, "cpu", 1)
compute(encoder, texts(MANY), Path(sys.argv[2]) / "killed", Path(sys.argv[2]) / "state")
"""
    process = subprocess.Popen([sys.executable, "-c", code, folder, tmp_path], cwd=ROOT)
    deadline = time.monotonic() + 120
    while len(list((tmp_path / "state").glob("*.sha256"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    finished = len(list((tmp_path / "state").glob("*.sha256")))
    assert 3 <= finished < len(MANY) // 2
    facts = compute(encoder, texts(MANY), tmp_path / "resumed", tmp_path / "state")
    assert facts["chunks_resumed"] >= finished
    compute(encoder, texts(MANY), tmp_path / "undisturbed", tmp_path / "fresh")
    assert sha256_path(tmp_path / "resumed") == sha256_path(tmp_path / "undisturbed")


MANY = [f"{i} {text}" for i in range(40) for text in TEXTS]


@pytest.mark.parametrize(
    ("layer", "told"), [(7, "allowed is -7 to 6"), (-8, "allowed is -7 to 6")], ids=["above", "below"]
)
def test_a_layer_that_is_not_there_is_refused(folder: Path, layer: int, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_encoder(EncoderConfig(entry="minilm-l6", layer=layer), folder, 32, "cpu", 1)


def test_a_state_below_the_last_is_that_of_an_encoder_cut_there(folder: Path) -> None:
    cut = load_encoder(EncoderConfig(entry="minilm-l6", layers=2), folder, 32, "cpu", 1)
    whole = load_encoder(EncoderConfig(entry="minilm-l6", layer=2), folder, 32, "cpu", 1)
    assert cut.facts["layers"] == 2
    assert sum(w.numel() for w in cut.model.parameters()) < sum(w.numel() for w in whole.model.parameters())
    for of_cut, of_whole in zip(cut.encode(TEXTS, None), whole.encode(TEXTS, None), strict=True):
        assert np.array_equal(of_cut, of_whole)


def test_the_last_state_has_two_names(folder: Path, encoder: Encoder) -> None:
    last = load_encoder(EncoderConfig(entry="minilm-l6", layer=6), folder, 32, "cpu", 1)
    assert np.array_equal(last.encode(TEXTS[:1], None)[0], encoder.encode(TEXTS[:1], None)[0])


def test_more_layers_than_there_are_would_be_random_and_are_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"encoder.layers is 7, allowed is 1 to 6"):
        load_encoder(EncoderConfig(entry="minilm-l6", layers=7), folder, 32, "cpu", 1)


@pytest.mark.parametrize(
    ("lacking", "refused"), [("encoder.layer.3.output.dense.bias", True), ("pooler.dense.bias", False)]
)
def test_a_weight_that_is_not_there_is_not_made_up(folder: Path, tmp_path: Path, lacking: str, refused: bool) -> None:
    spoilt = Path(shutil.copytree(folder, tmp_path / "spoilt"))
    tensors = load_file(spoilt / "model.safetensors")
    del tensors[lacking]
    save_file(tensors, spoilt / "model.safetensors", {"format": "pt"})
    config = EncoderConfig(entry="minilm-l6")
    if refused:
        with pytest.raises(DataError, match=rf"entry minilm-l6: no tensor {lacking} \(1 are missing\)"):
            load_encoder(config, spoilt, 32, "cpu", 1)
    else:
        assert load_encoder(config, spoilt, 32, "cpu", 1).dim == 384


def test_more_tokens_than_positions_are_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="max_tokens is 513, allowed is at most 512"):
        load_encoder(EncoderConfig(entry="minilm-l6"), folder, 513, "cpu", 1)


def test_an_encoder_is_an_entry_or_a_name_with_its_revision() -> None:
    revision = "0" * 40
    assert EncoderConfig(huggingface="google-bert/bert-base-uncased", revision=revision).entry is None
    for wrong in ({}, {"entry": "a", "huggingface": "b", "revision": revision}, {"huggingface": "a"}):
        with pytest.raises(ValueError, match=r"either an `entry`|belong together"):
            EncoderConfig(**wrong)
    with pytest.raises(ValueError, match="pattern"):
        EncoderConfig(huggingface="a", revision="main")
    with pytest.raises(ValueError, match="for an encoder of the hub"):
        EncoderConfig(entry="a", weights_sha256="0" * 64)


def small(tmp_path: Path) -> dict[str, Path]:
    """The least files that are in their format."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    content = {
        "config.json": b"{}",
        "tokenizer.json": b"{}",
        "model.safetensors": struct.pack("<Q", len(header)) + header + bytes(4),
    }
    for name, part in content.items():
        (tmp_path / name).write_bytes(part)
    return {name: tmp_path / name for name in content}


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("config.json", b"{", "got no JSON"),
        ("tokenizer.json", b"<html><title>Gone</title></html>", "an HTML page titled 'Gone'"),
        ("model.safetensors", b"", "an empty file"),
        ("model.safetensors", b"\x80\x04\x95pickled weights", "allowed is a safetensors file"),
        ("model.safetensors", struct.pack("<Q", 2) + b"{" + bytes(9), "header: got no JSON"),
        ("model.safetensors", None, "which its header needs"),
    ],
    ids=["JSON", "web page", "empty", "pickle", "header", "short"],
)
def test_files_are_checked_before_any_library_loads_them(
    tmp_path: Path, name: str, content: bytes | None, told: str
) -> None:
    paths = small(tmp_path)
    assert read_files(list(paths.values()), ENTRY) == tmp_path
    paths[name].write_bytes(paths[name].read_bytes()[:-1] if content is None else content)
    with pytest.raises(DataError, match=told):
        read_files(list(paths.values()), ENTRY)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    paths = small(tmp_path)
    with pytest.raises(DataError, match=r"minilm-l6: no file tokenizer.json among config.json, model.safetensors"):
        read_files([paths["config.json"], paths["model.safetensors"]], ENTRY)


def test_frozen_features_tell_good_reviews_from_bad_ones(encoder: Encoder, tmp_path: Path) -> None:
    """A linear classifier on the mean of each text's vectors. Half of the rows are of each class."""
    source = reader_named("text-csv")
    entry = load_catalogue(ROOT).entry("rotten-tomatoes")
    rows = list(source(fetch(entry, tmp_path).paths, entry).parts["train"]())
    chosen = np.random.default_rng(0).permutation(len(rows))[:400]
    means = [vectors.mean(axis=0) for i in chosen for vectors in encoder.encode([rows[i].text], None)]
    labels = [rows[i].label for i in chosen]
    fitted = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=1000)).fit(means[:280], labels[:280])
    # 0.6 is more than two standard errors above chance on 120 rows
    assert fitted.score(means[280:], labels[280:]) > 0.6
