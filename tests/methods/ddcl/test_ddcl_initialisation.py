"""First prototypes: what each way draws, with which frequencies, and what it refuses."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.methods.ddcl import INITIALISATIONS, DDCLAttention, kmeans_plus_plus, random_tokens, standard_normal


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows_of(tensor: torch.Tensor) -> set[tuple[float, ...]]:
    return {tuple(row) for row in tensor.tolist()}


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 30), st.sampled_from([1e-3, 1.0, 1e3]), st.booleans())
def test_prototypes_are_distinct_valid_tokens(seed: int, count: int, scale: float, masked: bool) -> None:
    tokens = (torch.randn(4, 20, 3, generator=seeded(seed)) * scale + scale).repeat(1, 2, 1)
    mask = torch.arange(40).expand(4, 40) % 2 == 0 if masked else torch.ones(4, 40, dtype=torch.bool)
    found = kmeans_plus_plus(torch.where(mask[..., None], tokens, math.nan), count, seeded(seed), mask)
    assert found.dtype == tokens.dtype
    assert len(rows_of(found)) == count
    assert rows_of(found) <= rows_of(tokens[mask])
    again = kmeans_plus_plus(tokens.flip(1), count, seeded(seed), mask.flip(1))
    assert torch.equal(found, again), "the order of tokens must not matter"


def test_all_distinct_tokens_are_taken_when_just_enough_came() -> None:
    tokens = torch.tensor([[0.0], [0.0], [1e-30], [1.0], [1e30]], dtype=torch.float64)
    found = kmeans_plus_plus(tokens, 4, seeded())
    assert sorted(found.flatten().tolist()) == [0.0, 1e-30, 1.0, 1e30]


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200], ids=lambda value: f"{value:g}")
def test_far_clusters_are_all_found_at_any_scale(scale: float) -> None:
    """Squares of the outer scales have no float64."""
    centres = scale * torch.eye(6, dtype=torch.float64)
    noise = 1e-3 * scale * torch.randn(300, 6, generator=seeded(), dtype=torch.float64)
    tokens = centres.repeat_interleave(50, dim=0) + noise
    for seed in range(20):
        found = kmeans_plus_plus(tokens, 6, seeded(seed)).argmax(dim=-1)
        assert sorted(found.tolist()) == list(range(6))


def test_frequencies_are_those_of_squared_distances() -> None:
    """Tokens 0, 0, 1, 3: the first is uniform, the second goes with the squared distance from it."""
    tokens = torch.tensor([[0.0], [0.0], [1.0], [3.0]])
    draws, generator = 3000, seeded(5)
    counted: dict[tuple[float, float], int] = {}
    for _ in range(draws):
        pair = tuple(kmeans_plus_plus(tokens, 2, generator).flatten().tolist())
        counted[pair] = counted.get(pair, 0) + 1
    wanted = {
        (0.0, 1.0): 1 / 2 * 1 / 10,
        (0.0, 3.0): 1 / 2 * 9 / 10,
        (1.0, 0.0): 1 / 4 * 2 / 6,
        (1.0, 3.0): 1 / 4 * 4 / 6,
        (3.0, 0.0): 1 / 4 * 18 / 22,
        (3.0, 1.0): 1 / 4 * 4 / 22,
    }
    assert set(counted) == set(wanted)
    for pair, share in wanted.items():
        assert abs(counted[pair] / draws - share) < 4.5 * math.sqrt(share * (1 - share) / draws), pair


def test_noise_has_its_size_and_is_drawn_from_the_generator() -> None:
    tokens = torch.randn(500, 8, generator=seeded(), dtype=torch.float64)
    plain = kmeans_plus_plus(tokens, 300, seeded(1))
    noisy = kmeans_plus_plus(tokens, 300, seeded(1), noise_std=0.01)
    assert float((noisy - plain).std()) == pytest.approx(0.01, rel=0.05)
    assert torch.equal(noisy, kmeans_plus_plus(tokens, 300, seeded(1), noise_std=0.01))


def test_the_layer_takes_its_prototypes_in_place() -> None:
    layer = DDCLAttention(3, 4)
    before = layer.prototypes
    tokens = torch.randn(2, 9, 3, generator=seeded())
    layer.initialise(tokens, seeded(2))
    assert layer.prototypes is before
    assert layer.prototypes.requires_grad
    assert torch.equal(layer.prototypes, kmeans_plus_plus(tokens, 4, seeded(2)))


def test_too_few_distinct_tokens_are_refused_with_counts() -> None:
    tokens = torch.tensor([[1.0, 2.0], [1.0, 2.0], [0.0, -0.0], [0.0, 0.0]])
    with pytest.raises(
        ValueError, match=r"2 distinct tokens among 4 valid ones cannot give 3 prototypes; .* at most 2"
    ):
        kmeans_plus_plus(tokens, 3, seeded())
    with pytest.raises(ValueError, match="0 distinct tokens among 0 valid ones"):
        kmeans_plus_plus(tokens, 1, seeded(), torch.zeros(4, dtype=torch.bool))


def test_other_refusals() -> None:
    tokens = torch.tensor([[1.0], [math.nan], [3.0]])
    with pytest.raises(ValueError, match="1 of 3 valid tokens are not finite"):
        kmeans_plus_plus(tokens, 2, seeded())
    assert len(kmeans_plus_plus(tokens, 2, seeded(), torch.isfinite(tokens[:, 0]))) == 2
    for noise in (-0.1, math.nan, True):
        with pytest.raises(ValueError, match="noise_std is"):
            kmeans_plus_plus(tokens, 2, seeded(), noise_std=noise)
    with pytest.raises(ValueError, match="num_prototypes is 0"):
        kmeans_plus_plus(tokens, 0, seeded())


def test_random_tokens_are_drawn_alike_wherever_they_lie() -> None:
    """Tokens 0, 0, 1, 3: each distinct one comes first in a third of the draws, however far it is or often it came."""
    tokens = torch.tensor([[0.0], [0.0], [1.0], [3.0]])
    draws, generator = 3000, seeded(5)
    first = [float(random_tokens(tokens, 2, generator)[0]) for _ in range(draws)]
    for value in (0.0, 1.0, 3.0):
        assert abs(first.count(value) / draws - 1 / 3) < 4.5 * math.sqrt(2 / 9 / draws), value
    assert rows_of(random_tokens(tokens, 3, seeded())) == {(0.0,), (1.0,), (3.0,)}


def test_the_normal_control_does_not_see_the_tokens() -> None:
    tokens = 1e3 + torch.randn(600, 8, generator=seeded())
    found = standard_normal(tokens, 500, seeded(1))
    assert torch.equal(found, standard_normal(tokens - 1e3, 500, seeded(1)))
    assert abs(float(found.mean())) < 4.5 / math.sqrt(500 * 8)
    assert float(found.std()) == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("name", sorted(INITIALISATIONS))
def test_every_way_is_reproducible_refuses_alike_and_serves_the_layer(name: str) -> None:
    tokens = torch.randn(40, 3, generator=seeded())
    layer, twin = DDCLAttention(3, 5), DDCLAttention(3, 5)
    layer.initialise(tokens, seeded(2), noise_std=0.1, method=name)
    twin.initialise(tokens, seeded(2), noise_std=0.1, method=name)
    assert torch.equal(layer.prototypes, twin.prototypes)
    twin.initialise(tokens, seeded(3), noise_std=0.1, method=name)
    assert not torch.equal(layer.prototypes, twin.prototypes)
    with pytest.raises(ValueError, match="2 distinct tokens among 40 valid ones"):
        layer.initialise(tokens[:2].repeat(20, 1), seeded(), method=name)
    with pytest.raises(ValueError, match="of 40 valid tokens are not finite"):
        layer.initialise(torch.where(tokens > 1, math.nan, tokens), seeded(), method=name)


def test_the_ways_differ_and_another_is_refused() -> None:
    tokens = torch.randn(40, 3, generator=seeded())
    found = [way(tokens, 5, seeded(2)) for way in INITIALISATIONS.values()]
    assert len({tuple(prototypes.flatten().tolist()) for prototypes in found}) == len(INITIALISATIONS)
    with pytest.raises(ValueError, match=r"method is 'zeros'; choose one of k-means\+\+, normal, tokens"):
        DDCLAttention(3, 5).initialise(tokens, seeded(), method="zeros")
