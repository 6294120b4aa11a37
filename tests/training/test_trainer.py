"""The trainer: the same seed gives the same bits, a resumed run ends as an undisturbed one, a bad number stops it."""

import multiprocessing
import os
import signal
from pathlib import Path

import pytest
import torch

from components.config import TrainConfig
from components.errors import NonFiniteError
from components.training.core.checkpoints import AtomicCheckpointIO
from components.training.core.trainer import FitResult, fit
from components.training.registry import method
from tests.training.tables import sample_table, train_config, with_poison

Weights = dict[str, torch.Tensor]


def trained(config: TrainConfig, folder: Path, checkpoint: Path, listener: object = None) -> tuple[Weights, FitResult]:
    table = sample_table(folder, config)
    module = method(config.method).untrained(config, table)
    result = fit(module, table, config, checkpoint, listener)  # type: ignore[arg-type]
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}, result


def assert_same_bits(first: Weights, second: Weights) -> None:
    assert first.keys() == second.keys()
    different = [name for name in first if not torch.equal(first[name], second[name])]
    assert not different, f"these differ: {different}"


def die_in_epoch(config: TrainConfig, folder: Path, checkpoint: Path, epoch: int) -> None:
    """Train in this process until the end of `epoch` has been recorded but not yet saved, and die there."""
    steps = -(-180 // config.training.batch_size)

    def kill(step: int, metrics: dict[str, float]) -> None:
        if step == steps * (epoch + 1):
            os.kill(os.getpid(), signal.SIGKILL)

    trained(config, folder, checkpoint, kill)


def run_until_killed(config: TrainConfig, folder: Path, checkpoint: Path, epoch: int) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=die_in_epoch, args=(config, folder, checkpoint, epoch)
    )
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_run_killed_and_resumed_equals_an_undisturbed_one_bit_for_bit(tmp_path: Path, epoch: int) -> None:
    config = train_config()
    straight, whole = trained(config, tmp_path, tmp_path / "straight.ckpt")
    run_until_killed(config, tmp_path, tmp_path / "killed.ckpt", epoch)
    resumed, rest = trained(config, tmp_path, tmp_path / "killed.ckpt")
    assert rest.resumed
    assert not whole.resumed
    assert_same_bits(straight, resumed)
    assert whole.history == rest.history
    assert len(whole.history) == config.training.epochs


def test_a_finished_checkpoint_is_not_trained_further(tmp_path: Path) -> None:
    config = train_config()
    straight, whole = trained(config, tmp_path, tmp_path / "last.ckpt")
    again, result = trained(config, tmp_path, tmp_path / "last.ckpt")
    assert result.resumed
    assert_same_bits(straight, again)
    assert result.history == whole.history


def test_two_runs_of_one_seed_are_equal_and_of_two_seeds_are_not(tmp_path: Path) -> None:
    first, _ = trained(train_config(), tmp_path, tmp_path / "a.ckpt")
    # whatever the process drew before must not matter
    torch.rand(17)
    second, _ = trained(train_config(), tmp_path, tmp_path / "b.ckpt")
    other, _ = trained(train_config(seed=8), tmp_path, tmp_path / "c.ckpt")
    assert_same_bits(first, second)
    assert not torch.equal(first["network.readout.layer.prototypes"], other["network.readout.layer.prototypes"])


def test_a_number_that_is_not_finite_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path: Path) -> None:
    config = train_config()
    checkpoint = tmp_path / "last.ckpt"
    table = sample_table(tmp_path, config)
    short = config.model_copy(update={"training": config.training.model_copy(update={"epochs": 2})})
    fit(method(config.method).untrained(short, table), table, short, checkpoint)
    good = checkpoint.read_bytes()
    module = method(config.method).untrained(config, table)
    with pytest.raises(
        NonFiniteError, match=r"loss is nan at step 1[2-7] \(epoch 2, training rows .*last good checkpoint"
    ):
        fit(module, with_poison(table, 5), config, checkpoint)
    assert checkpoint.read_bytes() == good


def test_the_learning_rates_keep_their_ratio_while_they_fall(tmp_path: Path) -> None:
    config = train_config()
    table = sample_table(tmp_path, config)
    module = method(config.method).untrained(config, table)
    fit(module, table, config, tmp_path / "last.ckpt")
    optimizer = module.trainer.optimizers[0]
    fast, slow = (group["lr"] for group in optimizer.param_groups)
    initial_fast, initial_slow = (group["initial_lr"] for group in optimizer.param_groups)
    assert initial_slow == pytest.approx(config.training.timescale_ratio * initial_fast)
    assert (fast, slow) == (pytest.approx(0.0, abs=1e-12), pytest.approx(0.0, abs=1e-12))


def test_the_temperature_goes_from_start_to_end(tmp_path: Path) -> None:
    _, result = trained(train_config(), tmp_path, tmp_path / "last.ckpt")
    temperatures = [entry["metrics"]["prototypes/temperature"] for entry in result.history]
    assert temperatures == sorted(temperatures, reverse=True)
    assert temperatures[-1] == 0.5


def test_a_kill_while_saving_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "last.ckpt"
    io = AtomicCheckpointIO()
    io.save_checkpoint({"step": 1}, path)

    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(KeyboardInterrupt):
        io.save_checkpoint({"step": 2}, path)
    assert io.load_checkpoint(path) == {"step": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["last.ckpt"]
