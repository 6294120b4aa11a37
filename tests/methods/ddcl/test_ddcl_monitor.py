"""The monitor on real dynamics: it warns before prototypes merge, and keeps quiet where they do not."""

import math

import pytest
import torch
from torch import Tensor, nn

from benchmarks.codebook import orbital_tokens
from components.methods.ddcl import curvature as curvature_module
from components.methods.ddcl import free_energy, kmeans_plus_plus, largest_variance, prototype_separation, reference
from components.methods.ddcl.curvature import free_energy_curvature
from components.methods.ddcl.monitor import StabilityMonitor, StabilityReport


def blobs(count: int = 200, dim: int = 3, clusters: int = 4, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    centres = 3 * torch.randn(clusters, dim, generator=generator, dtype=torch.float64)
    which = torch.arange(count) % clusters
    return (centres[which] + 0.3 * torch.randn(count, dim, generator=generator, dtype=torch.float64)).unsqueeze(0)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("exactly", [True, False])
def test_curvature_is_that_of_the_reference(temperature: float, exactly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = blobs()
    bank = tokens[0, :5] + 0.1
    wanted = reference.hessian_of_free_energy(tokens[0], bank, temperature).reshape(15, 15)
    values = torch.linalg.eigvalsh(wanted)
    if not exactly:
        monkeypatch.setattr(curvature_module, "EXACT_UP_TO", 0)
    found = free_energy_curvature(tokens, bank, temperature)
    assert found.least == pytest.approx(float(values[0]), rel=1e-6, abs=1e-8)
    assert found.largest == pytest.approx(float(values[-1]), rel=1e-6, abs=1e-8)


def test_curvature_of_a_large_bank_lies_inside_the_spectrum_and_near_its_ends() -> None:
    tokens = blobs(dim=10, clusters=8)
    bank = tokens[0, :30] + 0.05
    values = torch.linalg.eigvalsh(reference.hessian_of_free_energy(tokens[0], bank, 2.0).reshape(300, 300))
    found = free_energy_curvature(tokens, bank, 2.0)
    width = float(values[-1] - values[0])
    assert 0 <= found.least - float(values[0]) < 0.05 * width
    assert 0 <= float(values[-1]) - found.largest < 0.05 * width


def test_curvature_heeds_the_mask() -> None:
    tokens = blobs()
    bank = tokens[0, :4].clone()
    mask = torch.arange(200)[None] < 120
    spoilt = torch.where(mask.unsqueeze(-1), tokens, torch.nan)
    assert free_energy_curvature(spoilt, bank, 1.0, mask) == pytest.approx(
        free_energy_curvature(tokens[:, :120], bank, 1.0)
    )


@pytest.mark.parametrize(("share", "collapses"), [(1.02, True), (0.98, False)])
def test_around_the_critical_temperature_of_descent_on_the_free_energy(share: float, collapses: bool) -> None:
    """At 1.02 of it the bank ends at one point, at 0.98 it does not; the monitor warns of the first alone."""
    tokens = blobs()
    tau = share * 2 * largest_variance(tokens)
    bank = tokens[0].mean(dim=0) + 0.3 * torch.randn(
        4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2)
    )
    monitor = StabilityMonitor(0.5, 0.1, adaptive=False)
    first = monitor.look(tokens, bank, tau)
    assert any("2 lambda_max" in reason for reason in first.reasons) == collapses
    for _ in range(3000):
        bank.requires_grad_()
        (gradient,) = torch.autograd.grad(free_energy(tokens, bank, tau), bank)
        bank = (bank - 0.5 * gradient).detach()
    # below it the bank parts, though not every pair of its prototypes
    assert (prototype_separation(bank).mean < 1e-3) == collapses
    assert monitor.look(tokens, bank, tau).verdict == "unstable"


class Toy(nn.Module):
    """The small experiment of joint training: an encoder, four prototypes, and a decoder that ties codes to inputs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
        self.decoder = nn.Linear(2, 3)
        self.double()


def train(anchor: float, ratio: float, steps: int = 600) -> list[StabilityReport]:
    from components.methods.ddcl import DDCLAttention

    toy, tokens = Toy(), blobs()
    with torch.no_grad():
        start = toy.encoder(tokens)
    layer = DDCLAttention(2, 4, 0.1, dtype=torch.float64)
    layer.initialise(start, torch.Generator().manual_seed(0))
    rate = 0.05
    monitor = StabilityMonitor(rate, ratio, adaptive=False)
    reports = []
    for step in range(steps):
        encoded = toy.encoder(tokens)
        if step % 25 == 0:
            reports.append(monitor.look(encoded.detach(), layer.prototypes, float(layer.temperature)))
        output = layer(encoded)
        loss = output.loss + anchor * (toy.decoder(output.codes) - tokens).square().mean()
        loss.backward()
        with torch.no_grad():
            for weight in toy.parameters():
                if weight.grad is not None:
                    weight.sub_(weight.grad, alpha=ratio * rate)
                    weight.grad = None
            layer.prototypes -= rate * layer.prototypes.grad
            layer.prototypes.grad = None
    return reports


def test_it_warns_before_prototypes_merge_and_not_where_they_stay_apart() -> None:
    """Without an anchor the encoder shrinks all tokens to a point; with one and a slow encoder nothing happens."""
    falling = train(anchor=0.0, ratio=1.0)
    merged = next((at for at, report in enumerate(falling) if report.verdict == "unstable"), None)
    warned = next((at for at, report in enumerate(falling) if report.severity), None)
    assert merged is not None
    assert warned is not None
    assert warned < merged, "a warning that comes with the collapse is none"
    steady = train(anchor=50.0, ratio=0.05)
    assert {report.verdict for report in steady} == {"stable"}, [report.reasons for report in steady if report.severity]


def test_real_orbits_with_spread_prototypes_are_stable_and_merged_ones_are_not() -> None:
    tokens = orbital_tokens()[None, :400]
    bank = kmeans_plus_plus(tokens, 6, torch.Generator().manual_seed(0))
    tau = 0.2 * largest_variance(tokens)
    monitor = StabilityMonitor(0.01, 0.1)
    bank = bank.double()
    for _ in range(200):
        bank.requires_grad_()
        (gradient,) = torch.autograd.grad(free_energy(tokens.double(), bank, tau), bank)
        bank = (bank - 0.3 * gradient).detach()
    report = monitor.look(tokens, bank.float(), tau)
    assert report.verdict == "stable", report.reasons
    merged = bank.float().clone()
    merged[1] = merged[0] + 1e-3
    report = monitor.look(tokens, merged, tau)
    assert report.verdict == "unstable"
    assert "two prototypes have merged" in report.reasons[0]
    hot = monitor.look(tokens, bank.float(), 5 * largest_variance(tokens))
    assert hot.verdict == "unstable"
    assert hot.relative_temperature == pytest.approx(1.25)


def test_the_trend_is_robust_and_counts_down() -> None:
    monitor = StabilityMonitor(0.01, 0.1)
    tokens = blobs()
    spread = math.sqrt(largest_variance(tokens))
    reports = []
    for step in range(8):
        apart = 0.5 * 0.9**step * spread * (5 if step == 4 else 1)
        bank = torch.tensor([[0.0, 0, 0], [apart, 0, 0], [0, 50, 0]], dtype=torch.float64)
        reports.append(monitor.look(tokens, bank, 1.0))
    assert [report.trend for report in reports[:3]] == [0.0] * 3
    assert reports[-1].trend == pytest.approx(math.log(0.9), rel=0.2)
    assert any("falls by 1" in reason for reason in reports[-1].reasons)


def test_it_goes_on_from_its_state() -> None:
    tokens = blobs()
    banks = [tokens[0, :4] * (1 - 0.1 * step) for step in range(7)]
    straight = StabilityMonitor(0.01, 0.1)
    wanted = [straight.look(tokens, bank, 1.0) for bank in banks]
    first = StabilityMonitor(0.01, 0.1)
    for bank in banks[:4]:
        first.look(tokens, bank, 1.0)
    second = StabilityMonitor(0.01, 0.1)
    second.load_state_dict(first.state_dict())
    assert [second.look(tokens, bank, 1.0) for bank in banks[4:]] == wanted[4:]


def test_ratios_and_rates_are_judged() -> None:
    tokens = blobs()
    bank = tokens[0, :4].clone()
    assert any(
        "timescale ratio 0.5" in reason for reason in StabilityMonitor(0.01, 0.5).look(tokens, bank, 1.0).reasons
    )
    steep = StabilityMonitor(50.0, 0.1, adaptive=False).look(tokens, bank, 1.0)
    assert steep.verdict == "unstable"
    assert StabilityMonitor(50.0, 0.1).look(tokens, bank, 1.0).verdict == "warning"
    with pytest.raises(ValueError, match="learning_rate is 0"):
        StabilityMonitor(0, 0.1)
    with pytest.raises(ValueError, match="the tokens do not differ"):
        StabilityMonitor(0.1, 0.1).look(torch.ones(1, 5, 3, dtype=torch.float64), bank, 1.0)
