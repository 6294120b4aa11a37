"""Batches of each kind: the right rows, the right padding, nothing else."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from components.arrays import save_array
from components.config import TaskConfig
from components.errors import ConfigError, DataError
from components.training.data.batches import TrainingData
from components.training.data.features import FeatureRows
from components.training.data.forms import open_data
from components.training.data.images import ImageRows
from components.training.data.module import PreparedData
from components.training.data.sequences import SequenceRows
from components.training.data.streams import StreamBlocks
from tests.training import folders
from tests.training.folders import LENGTHS

SPLIT_CODES = {"train": 0, "validation": 1, "test": 2}


def test_images_are_scaled_turned_and_of_their_split(tmp_path: Path) -> None:
    codes = folders.images(tmp_path)
    for split, code in SPLIT_CODES.items():
        rows = ImageRows(tmp_path, split)
        batch = rows.__getitems__(list(range(len(rows))))
        assert batch.images.shape == (len(rows), 2, 4, 3)
        assert batch.images.dtype == torch.float32
        assert batch.labels.tolist() == np.flatnonzero(codes == code).tolist()
        assert torch.equal(batch.images.amax((1, 2, 3)), batch.labels.float() / 255)
        assert torch.equal(batch.images.amin((1, 2, 3)), batch.labels.float() / 255)


def test_channels_and_rows_of_an_image_keep_their_places(tmp_path: Path) -> None:
    pixels = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)
    save_array(tmp_path / "images.npy", pixels)
    save_array(tmp_path / "labels.npy", np.zeros(2, np.int64))
    save_array(tmp_path / "splits.npy", np.zeros(2, np.uint8))
    image = ImageRows(tmp_path, "train").__getitems__([1]).images[0]
    assert float(image[4, 2, 1]) == pytest.approx(pixels[1, 2, 1, 4] / 255)


def test_sequences_are_padded_and_masked(tmp_path: Path) -> None:
    codes = folders.sequences(tmp_path, second=True)
    rows = SequenceRows(tmp_path, "train")
    places = np.flatnonzero(codes == 0)
    batch = rows.__getitems__([0, 3, 5, 2])
    chosen = places[[0, 3, 5, 2]]
    lengths = [LENGTHS[i % len(LENGTHS)] for i in chosen]
    assert batch.tokens.shape == (4, max(lengths))
    assert batch.mask.sum(1).tolist() == lengths
    for row, (place, length) in enumerate(zip(chosen, lengths, strict=True)):
        assert batch.tokens[row, :length].tolist() == [place + 1] * length
        assert batch.tokens[row, length:].tolist() == [0] * (max(lengths) - length)
        assert batch.mask[row].tolist() == [True] * length + [False] * (max(lengths) - length)
    assert batch.second is not None
    assert batch.second_mask is not None
    assert batch.second[:, 0].tolist() == [1000 + place for place in chosen]
    assert bool(batch.second_mask.all())
    assert batch.rows.tolist() == [0, 3, 5, 2]


def test_sequences_without_a_second_have_none(tmp_path: Path) -> None:
    folders.sequences(tmp_path)
    assert SequenceRows(tmp_path, "test").__getitems__([0]).second is None


def test_features_come_as_single_precision_whatever_is_on_disk(tmp_path: Path) -> None:
    codes = folders.features(tmp_path)
    rows = FeatureRows(tmp_path, "validation")
    batch = rows.__getitems__([1, 0])
    assert batch.tokens.dtype == torch.float32
    for row, place in enumerate(np.flatnonzero(codes == 1)[[1, 0]]):
        length = LENGTHS[place % len(LENGTHS)]
        assert batch.tokens[row, :length, 0].tolist() == [float(place)] * length
        assert batch.tokens[row, :length, 1].tolist() == [float(t) for t in range(length)]
        assert float(batch.tokens[row, length:].abs().sum()) == 0
        assert int(batch.mask[row].sum()) == length


@pytest.mark.parametrize("length", [1, 7, 50, 100, 101, 500])
def test_every_token_but_the_first_is_a_target_once(tmp_path: Path, length: int) -> None:
    folders.streams(tmp_path)
    blocks = StreamBlocks(tmp_path, "validation", length)
    batch = blocks.__getitems__(list(range(len(blocks))))
    assert batch.labels[batch.mask].tolist() == list(range(1001, 1101))
    assert batch.inputs[batch.mask].tolist() == list(range(1000, 1100))
    assert int(batch.inputs[~batch.mask].sum()) == int(batch.labels[~batch.mask].sum()) == 0


def test_a_stream_too_short_and_a_block_without_length_are_refused(tmp_path: Path) -> None:
    save_array(tmp_path / "train.npy", np.zeros(1, np.uint16))
    with pytest.raises(DataError, match="has 1 tokens, allowed is 2 or more"):
        StreamBlocks(tmp_path, "train", 8)
    with pytest.raises(ValueError, match="length is 0, allowed is 1 token or more"):
        StreamBlocks(tmp_path, "train", 0)


MAKERS: dict[str, Any] = {
    "images": folders.images,
    "sequences": folders.sequences,
    "features": folders.features,
    "stream": folders.streams,
}
TASK = TaskConfig(classes=folders.CLASSES)


def opened(folder: Path, form: str) -> TrainingData[Any]:
    MAKERS[form](folder)
    return open_data(form, folder, TASK, **({"length": 10} if form == "stream" else {}))


@pytest.mark.parametrize("form", list(MAKERS))
def test_a_module_offers_the_three_splits(tmp_path: Path, form: str) -> None:
    data = PreparedData(opened(tmp_path, form), batch_size=4, seed=1)
    for loader, split in (
        (data.train_dataloader(), "train"),
        (data.val_dataloader(), "validation"),
        (data.test_dataloader(), "test"),
    ):
        rows = [row for batch in loader for row in batch.rows.tolist()]
        assert sorted(rows) == list(range(len(getattr(data.rows, split))))
        # only what is trained on is shuffled
        assert (rows == sorted(rows)) == (split != "train")


@pytest.mark.parametrize("form", list(MAKERS))
def test_all_rows_in_order_are_the_rows_and_their_labels(tmp_path: Path, form: str) -> None:
    rows = opened(tmp_path, form).train
    parts = list(rows.in_order(rows_at_once=4))
    assert [row for part in parts for row in part.rows.tolist()] == list(range(len(rows)))
    assert torch.equal(torch.cat([part.labels for part in parts]), rows.all_labels())
    drawn = rows.sample(3, torch.Generator().manual_seed(1)).rows.tolist()
    assert len(set(drawn)) == 3
    assert len(rows.sample(10**6, torch.Generator()).rows) == len(rows)


def test_classes_that_are_not_those_of_the_folder_are_refused(tmp_path: Path) -> None:
    folders.images(tmp_path)
    with pytest.raises(ConfigError, match=r"task\.classes are odd, even; those of .* are, in the order .*: even, odd"):
        open_data("images", tmp_path, TaskConfig(classes=("odd", "even")))
    (tmp_path / "summary.json").unlink()
    with pytest.raises(DataError, match=r"summary\.json is not in"):
        open_data("images", tmp_path, TASK)


@pytest.mark.parametrize("form", list(MAKERS))
def test_what_goes_to_a_worker_holds_no_data(tmp_path: Path, form: str) -> None:
    rows: Any = opened(tmp_path, form).train
    rows.__getitems__([0, 1])
    sent = pickle.dumps(rows)
    assert len(sent) < 2000
    again = pickle.loads(sent)  # noqa: S301 - just pickled here
    for one, other in zip(rows.__getitems__([0, 1]), again.__getitems__([0, 1]), strict=True):
        assert one is None if other is None else torch.equal(one, other)


def test_faults_are_told(tmp_path: Path) -> None:
    folders.images(tmp_path)
    with pytest.raises(ConfigError, match="there is no form of data 'text'; the forms are: features, images"):
        open_data("text", tmp_path, TASK)
    with pytest.raises(ValueError, match="split is 'dev', allowed is one of train, validation, test"):
        ImageRows(tmp_path, "dev")
    save_array(tmp_path / "splits.npy", np.zeros(50, np.uint8))
    with pytest.raises(DataError, match="has no row of split 'test'"):
        ImageRows(tmp_path, "test")
    (tmp_path / "splits.npy").unlink()
    with pytest.raises(DataError, match=r"splits.npy is not in"):
        ImageRows(tmp_path, "train")
    (tmp_path / "splits.npy").write_bytes(b"no array")
    with pytest.raises(DataError, match=r"splits.npy is no array"):
        ImageRows(tmp_path, "train")
