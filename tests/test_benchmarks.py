"""The measuring rule of the benchmarks, with a clock of their own: nothing here depends on how fast a machine is."""

import platform
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from benchmarks import __main__ as program
from benchmarks import attention, quantiser, registry
from benchmarks.contest import SHORTEST_READING, WARM_UPS, Contest, Contestant, measure, table
from benchmarks.machine import description
from benchmarks.readout import _contestant
from benchmarks.readouts import READOUTS, ExplicitReadout, Kind
from components.errors import ParityError, UsageError


class Clock:
    """Time passes only by `work`, which also keeps who worked."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []

    def __call__(self) -> float:
        return self.now

    def work(self, name: str, seconds: Callable[[int], float]) -> Callable[[], None]:
        calls = 0

        def step() -> None:
            nonlocal calls
            self.log.append(name)
            self.now += seconds(calls)
            calls += 1

        return step


def contest(clock: Clock, **changes: str) -> Contest:
    """Ours takes 10 ms a call, the peer 30 ms."""
    return Contest(
        "a contest",
        ("error",),
        (
            Contestant("ours", clock.work("ours", lambda _: 0.010), {"error": "1e-7"}),
            Contestant("peer", clock.work("peer", lambda _: 0.030), {"error": "2e-7"}, changes.get("fault", "")),
        ),
    )


def test_the_ratio_is_of_the_peer_to_ours_in_the_same_round() -> None:
    clock = Clock()
    timings = measure(contest(clock), 5, clock)
    assert timings["ours"].ratios == pytest.approx([1.0] * 5)
    assert timings["peer"].ratios == pytest.approx([3.0] * 5)
    assert timings["peer"].seconds == pytest.approx([0.030] * 5)


def test_rounds_are_interleaved_after_warm_ups_and_turn_about() -> None:
    clock = Clock()
    measure(contest(clock), 4, clock)
    warm, timed = clock.log[: 2 * WARM_UPS], clock.log[2 * WARM_UPS :]
    assert warm == ["ours"] * WARM_UPS + ["peer"] * WARM_UPS
    assert timed == ["ours", "peer", "peer", "ours"] * 2


def test_a_moment_in_which_the_machine_is_slow_changes_no_median() -> None:
    """Both sides take ten times as long in two of five rounds."""
    clock = Clock()
    slow = (WARM_UPS + 1, WARM_UPS + 3)
    both = [
        Contestant(name, clock.work(name, lambda call, base=base: base * (10 if call in slow else 1)), {})
        for name, base in (("ours", 0.010), ("peer", 0.020))
    ]
    timings = measure(Contest("slow moments", (), tuple(both)), 5, clock)
    assert timings["peer"].quartiles[1] == pytest.approx(2.0)


def test_a_short_call_is_repeated_until_the_clock_can_tell() -> None:
    clock = Clock()
    quick = Contestant("ours", clock.work("ours", lambda _: 1e-5), {})
    timings = measure(Contest("quick", (), (quick,)), 2, clock)
    assert len(clock.log) == WARM_UPS + 2 * round(SHORTEST_READING / 1e-5)
    assert timings["ours"].seconds == pytest.approx([1e-5] * 2)


def test_a_wrong_answer_is_not_timed() -> None:
    clock = Clock()
    with pytest.raises(ParityError, match="a contest is not reported, since peer: it is off by 3"):
        measure(contest(clock, fault="it is off by 3"), 3, clock)
    assert clock.log == []


def test_one_round_shows_no_spread() -> None:
    clock = Clock()
    with pytest.raises(ValueError, match="give 2 or more"):
        measure(contest(clock), 1, clock)


def test_the_table_has_time_spread_and_accuracy_of_both_sides() -> None:
    clock = Clock()
    made = contest(clock)
    lines = table(made, measure(made, 3, clock))
    assert lines == [
        "| | time / ours | quartiles | ms | error |",
        "|---|---|---|---|---|",
        "| ours | 1.00 | 1.00 to 1.00 | 10 | 1e-7 |",
        "| peer | 3.00 | 3.00 to 3.00 | 30 | 2e-7 |",
    ]


def test_a_readout_whose_arithmetic_is_off_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Off(ExplicitReadout):
        def read(self, tokens: torch.Tensor) -> object:  # type: ignore[override]
            output = super().read(tokens)
            return output._replace(diversity=output.diversity * 1.01)

    monkeypatch.setitem(READOUTS, "off", Kind(Off, largest_error=1e-3))  # type: ignore[arg-type]
    tokens = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    right = "explicit broadcasting in float32"
    assert _contestant(right, tokens, 3, 2.0, (0.9, 0.9, 0.9)).fault == ""
    assert "relative error is 1.0e-02, allowed is 1e-03" in _contestant("off", tokens, 3, 2.0, (0.9, 0.9, 0.9)).fault
    assert "it learns nothing" in _contestant(right, tokens, 3, 2.0, (0.9, 0.1, 0.9)).fault


def test_the_machine_is_told_by_kind_and_not_by_name() -> None:
    text = description()
    assert re.search(r"^\d+ cores of \w+, ", text)
    assert f"torch {torch.__version__.partition('+')[0]}" in text
    assert platform.node() not in text
    assert str(Path.home()) not in text


def test_every_benchmark_of_the_registry_can_be_found() -> None:
    for name in registry.BENCHMARKS:
        assert callable(registry.contests(name).__next__)
    with pytest.raises(UsageError, match="no benchmark 'speed'; there are: readout, attention, quantiser, codebook, "):
        registry.contests("speed")


@pytest.mark.parametrize("power", [1.0, 1.5])
def test_the_exponent_is_that_by_which_time_grows(power: float, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()

    class Layer:
        def __init__(self, precision: str, length: int):
            # one call in three is slowed down by something else
            self.step = clock.work(precision, lambda call: 1e-6 * length**power * (5 if call % 3 == 1 else 1))

        def __call__(self) -> None:
            self.step()

    monkeypatch.setattr(attention, "Layer", Layer)
    assert attention.exponent("single", clock) == pytest.approx(power)


def test_a_layer_whose_losses_are_off_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "LENGTH", 600)
    monkeypatch.setattr(attention, "LENGTHS", (512, 600))
    for contest_of_layer in attention.contests():
        assert [one.fault for one in contest_of_layer.contestants] == ["", "", ""]
        for one in contest_of_layer.contestants:
            one.step()
    monkeypatch.setattr(attention.reference, "loss", lambda *_: torch.tensor(1.0))
    assert "its relative error is" in next(attention.contests()).yardstick.fault


def test_quantisers_start_alike_and_a_wrong_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantiser, "SHAPES", ((300, 4, 8),))
    (made,) = quantiser.contests()
    assert len({one.accuracy["distortion"] for one in made.contestants}) == 1
    assert not any(one.fault for one in made.contestants)
    for one in made.contestants:
        one.step()
    monkeypatch.setattr(quantiser.reference, "loss", lambda *_: torch.tensor(1.0))
    (made,) = quantiser.contests()
    assert "its loss is off by" in made.yardstick.fault


@pytest.mark.parametrize("fault", ["", "it is off by 3"])
def test_results_are_written_when_all_is_right_and_not_otherwise(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    monkeypatch.setattr(program, "RESULTS", tmp_path / "results.md")
    monkeypatch.setattr(registry, "BENCHMARKS", {"one": registry.Benchmark("none", "What?", "Mind this.")})
    monkeypatch.setattr(registry, "contests", lambda _: iter([contest(clock, fault=fault)]))
    code = program.main(["--rounds", "2"])
    printed = capsys.readouterr()
    assert code == (1 if fault else 0)
    assert (tmp_path / "results.md").exists() is not bool(fault)
    if fault:
        assert printed.err.startswith("error: a contest is not reported")
        assert "| peer |" not in printed.out
    else:
        assert (tmp_path / "results.md").read_text() in printed.out
        # some of them alone are shown and change no file
        (tmp_path / "results.md").unlink()
        assert program.main(["one", "--rounds", "2"]) == 0
        assert not (tmp_path / "results.md").exists()


@pytest.mark.parametrize(
    ("arguments", "said"), [(["speed"], "no benchmark 'speed'"), (["readout", "--rounds", "1"], "--rounds is 1")]
)
def test_wrong_usage(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(arguments) == 2
    assert said in capsys.readouterr().err
