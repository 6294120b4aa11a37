"""Two time scales and temperature schedules, and the layer inside a training process."""

import copy
import itertools
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import components
from components.methods.ddcl import (
    SCHEDULES,
    ConstantTemperature,
    DDCLAttention,
    ExponentialTemperature,
    parameter_groups,
    temperature_schedule,
)

ROOT = Path(components.__file__).parents[1]


class Stack(nn.Module):
    """An encoder between two layers, as a hierarchy would have it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = DDCLAttention(4, 3)
        self.encoder = nn.Linear(4, 4)
        self.second = DDCLAttention(4, 2)


def test_prototypes_learn_fast_and_the_rest_slowly() -> None:
    module = Stack()
    fast, slow = parameter_groups(module, learning_rate=0.1, timescale_ratio=0.05)
    assert [group["name"] for group in (fast, slow)] == ["prototypes", "rest"]
    assert {id(p) for p in fast["params"]} == {id(module.first.prototypes), id(module.second.prototypes)}
    assert {id(p) for p in slow["params"]} == {id(p) for p in module.encoder.parameters()}
    assert slow["lr"] / fast["lr"] == pytest.approx(0.05)
    # the step lengths of plain descent show that an optimiser takes the rates over.
    optimizer = torch.optim.SGD([fast, slow], lr=99.0, weight_decay=0.5)
    before = copy.deepcopy(module)
    for parameter in module.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    moved = before.first.prototypes - module.first.prototypes
    torch.testing.assert_close(moved, torch.full_like(moved, 0.1))
    moved = before.encoder.weight - module.encoder.weight
    torch.testing.assert_close(moved, 0.005 * (1 + 0.5 * before.encoder.weight))


def test_frozen_parts_are_left_out() -> None:
    module = Stack()
    module.encoder.requires_grad_(False)
    (only,) = parameter_groups(module, 0.1)
    assert only["name"] == "prototypes"
    module.requires_grad_(False)
    with pytest.raises(ValueError, match="no parameter of Stack needs a gradient"):
        parameter_groups(module, 0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((nn.Linear(2, 2), 0.1), "Linear holds no DDCLAttention"),
        ((Stack(), 0.0), "learning_rate is 0.0"),
        ((Stack(), 0.1, -1.0), "timescale_ratio is -1.0"),
        ((Stack(), 0.1, math.nan), "timescale_ratio is nan"),
    ],
)
def test_groups_refuse(arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        parameter_groups(*arguments)


def test_exponential_schedule_has_its_ends_and_a_constant_factor() -> None:
    schedule = temperature_schedule("exponential", start=2.0, end=0.5, steps=100)
    assert (schedule(0), schedule(100), schedule(10**9)) == (2.0, 0.5, 0.5)
    factors = [schedule(step + 1) / schedule(step) for step in range(100)]
    assert factors == pytest.approx([0.25 ** (1 / 100)] * 100, rel=1e-12)
    # no state: asking in any order gives the same, which is what makes resuming exact.
    assert [schedule(step) for step in (70, 3, 70)] == [schedule(70), schedule(3), schedule(70)]


def test_schedules_stay_between_their_ends_at_extremes() -> None:
    schedule = ExponentialTemperature(3e38, 2e-38, 7)
    values = [schedule(step) for step in range(9)]
    assert values == sorted(values, reverse=True)
    assert values[0] == 3e38
    assert values[-1] == 2e-38


def test_constant_schedule_and_registry() -> None:
    assert temperature_schedule("constant", temperature=0.7)(12345) == 0.7
    assert SCHEDULES["constant"] is ConstantTemperature


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("cubic", {}, "temperature schedule is 'cubic'; choose one of constant, cosine, exponential, linear"),
        ("constant", {"start": 1.0}, "'constant' was given start"),
        ("exponential", {"start": 1.0, "end": 0.0, "steps": 5}, "temperature is 0.0"),
        ("exponential", {"start": 1.0, "end": 0.5, "steps": 0}, "steps is 0"),
    ],
)
def test_schedules_refuse(name, given, message) -> None:
    with pytest.raises(ValueError, match=message):
        temperature_schedule(name, **given)


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_negative_steps_are_refused(name) -> None:
    settings = {"temperature": 1.0} if name == "constant" else {"start": 1.0, "end": 0.5, "steps": 3}
    with pytest.raises(ValueError, match="step is -1"):
        temperature_schedule(name, **settings)(-1)


@pytest.mark.parametrize("name", ["exponential", "linear", "cosine"])
@given(start=st.floats(1e-3, 1e3), end=st.floats(1e-3, 1e3), steps=st.integers(1, 300), beyond=st.integers(0, 10**9))
def test_annealing_goes_from_one_end_to_the_other_without_turning_back(name, start, end, steps, beyond) -> None:
    schedule = temperature_schedule(name, start=start, end=end, steps=steps)
    values = [schedule(step) for step in range(steps + 1)]
    assert (values[0], values[-1], schedule(steps + beyond)) == (start, end, end)
    tolerance = 1e-12 * max(start, end)
    falls = end <= start
    for earlier, later in itertools.pairwise(values):
        assert later <= earlier + tolerance if falls else later >= earlier - tolerance


def test_laws_of_annealing_by_hand() -> None:
    ends = {"start": 2.0, "end": 0.5, "steps": 4}
    assert temperature_schedule("linear", **ends)(1) == pytest.approx(1.625)
    assert temperature_schedule("cosine", **ends)(1) == pytest.approx(0.5 + 1.5 * (1 + math.sqrt(0.5)) / 2)
    assert temperature_schedule("exponential", **ends)(1) == pytest.approx(2.0 * 0.25**0.25)


def test_the_package_imports_nothing_heavier_than_torch() -> None:
    heavy = {"lightning", "mlflow", "prefect", "dvc", "onnx", "onnxruntime", "pandas", "sklearn", "great_expectations"}
    code = f"import sys, components.methods.ddcl; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


TWO_PROCESSES = """
import sys, torch
from torch.nn.parallel import DistributedDataParallel
from components.methods.ddcl import DDCLAttention

rank = int(sys.argv[1])
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
layer = DDCLAttention(3, 4, 0.7, generator=torch.Generator().manual_seed(0))
model = DistributedDataParallel(layer)
tokens = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(1))
alone = DDCLAttention(3, 4, 0.7, generator=torch.Generator().manual_seed(0))
alone(tokens).loss.backward()
# the second process has nothing valid: it must take part all the same, with a gradient of 0.
mask = torch.full((2, 5), rank == 0)
model(tokens, mask).loss.backward()
torch.testing.assert_close(layer.prototypes.grad, alone.prototypes.grad / 2)
torch.distributed.destroy_process_group()
print("agreed")
"""


def test_two_processes_one_of_them_without_tokens(tmp_path) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", TWO_PROCESSES, str(rank), str(tmp_path / "meeting")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        answers = [process.communicate(timeout=120) for process in started]
    finally:
        for process in started:
            process.kill()
    assert [answer[0].strip() for answer in answers] == ["agreed", "agreed"], answers
