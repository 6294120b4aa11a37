"""Tables as tensors, batches by seed and epoch, the choice of a device."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.config import TaskConfig
from components.errors import ConfigError, DataError
from components.training.core.device import choose_device
from components.training.data.batches import batches, majority_accuracy
from components.training.data.loader import EpochOrder
from components.training.data.tables import Split, load_table
from tests.training.tables import sample_table, train_config

ROWS = (
    "x,kind,split\n1.5,A,train\n2.5,B,train\n2.0,A,train\n3.0,C,train\n4.0,A,validation\n5.0,B,validation\n6.0,B,test\n"
)
TASK = TaskConfig(target="kind", classes=("A", "B"), features=("x",))


def test_rows_of_other_classes_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(ROWS)
    table = load_table(tmp_path / "table.csv", TASK)
    assert table.left_out == 1
    assert table.train.tokens.tolist() == [[[1.5]], [[2.5]], [[2.0]]]
    assert table.train.labels.tolist() == [0, 1, 0]
    assert majority_accuracy(table) == 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ROWS.replace("x,", "y,"), "has no column 'x'"),
        (ROWS.replace("test", "train"), "has no row of split 'test'"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        load_table(tmp_path / "table.csv", TASK)


@given(size=st.integers(1, 70), batch=st.integers(1, 80), seed=st.integers(0, 2**32 - 1), epoch=st.integers(0, 5))
def test_an_epoch_holds_each_row_once_in_an_order_of_its_own(size: int, batch: int, seed: int, epoch: int) -> None:
    split = Split(torch.arange(size, dtype=torch.float32).reshape(size, 1, 1), torch.arange(size))
    order = EpochOrder(size, seed)
    order.set_epoch(epoch)
    state = torch.random.get_rng_state()
    rows = [row for part in batches(split, batch, order=order) for row in part.rows.tolist()]
    again = [row for part in batches(split, batch, order=order) for row in part.labels.tolist()]
    assert sorted(rows) == list(range(size))
    assert rows == again
    assert torch.equal(state, torch.random.get_rng_state())


def test_the_order_changes_with_epoch_and_with_seed() -> None:
    orders = []
    for seed, epoch in ((1, 0), (1, 1), (2, 0)):
        order = EpochOrder(50, seed)
        order.set_epoch(epoch)
        orders.append(tuple(order))
    assert len(set(orders)) == 3


def test_the_sample_gives_every_class(tmp_path: Path) -> None:
    table = sample_table(tmp_path, train_config())
    assert set(table.train.labels.tolist()) == {0, 1, 2}
    assert bool(table.train.tokens.isfinite().all())


def test_the_device_comes_with_its_reason() -> None:
    assert choose_device("cpu") == ("cpu", "the configuration asks for the CPU")
    if torch.cuda.is_available():
        assert choose_device("auto").accelerator == "gpu"
    else:
        assert choose_device("auto") == ("cpu", "torch finds no CUDA device")
        with pytest.raises(ConfigError, match="finds no CUDA device; use auto or cpu"):
            choose_device("gpu")
