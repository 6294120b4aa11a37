"""Profiles and drift: closed forms, what chance alone gives, and what must be refused."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.datasets.core.options import DriftOptions
from components.errors import DataError
from components.files import write_json
from components.quality.core.drift import SMOOTHING, Drift, expected_index, stability_index
from components.quality.core.expectations import run_suites
from components.quality.core.profile import (
    BINS,
    WORDS,
    accepted_profile,
    counts_in,
    profile_of,
    write_no_profile,
    write_profile,
)

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300)


@settings(deadline=None)
@given(NUMBERS)
def test_every_value_is_in_one_bin(values: list[float]) -> None:
    feature = profile_of({"x": np.asarray(values)}).features["x"]
    assert sum(feature.counts) == len(values)
    assert len(feature.counts) == len(feature.edges or ()) + 1 <= BINS
    edges = [-math.inf, *(feature.edges or ()), math.inf]
    by_hand = [sum(low < value <= high for value in values) for low, high in pairwise(edges)]
    assert list(feature.counts) == by_hand


def test_words_beyond_the_most_frequent_are_counted_together() -> None:
    words = [f"word {i:03d}" for i in range(WORDS + 30) for _ in range(1 + (i < WORDS))]
    feature = profile_of({"w": words}).features["w"]
    assert len(feature.words or ()) == WORDS
    assert feature.counts[-1] == 30
    assert counts_in(feature, ["word 000", "unheard of", "word 079"]) == (1, *[0] * (WORDS - 1), 2)


def test_a_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    profile = profile_of({"x": np.arange(100.0), "w": ["a", "b"] * 50})
    write_profile(tmp_path / "p.json", profile)
    assert accepted_profile(tmp_path / "p.json") == profile
    write_no_profile(tmp_path / "p.json")
    assert accepted_profile(tmp_path / "p.json") is None


@pytest.mark.parametrize(
    "content",
    [
        {},
        [],
        {"format": "quintet-profile/1", "rows": 3, "features": {}},
        {"format": "quintet-profile/1", "rows": 3, "features": {"x": {"edges": [2, 1], "counts": [1, 1, 1]}}},
        {"format": "quintet-profile/1", "rows": 3, "features": {"x": {"edges": [1], "counts": [1, 1, 1]}}},
        {"format": "quintet-profile/1", "rows": 3, "features": {"x": {"edges": [1], "counts": [0, 0]}}},
        {"format": "quintet-profile/1", "rows": 3, "features": {"x": {"edges": [1], "words": ["a"], "counts": [1, 1]}}},
    ],
)
def test_what_is_no_profile_is_refused(tmp_path: Path, content: object) -> None:
    write_json(tmp_path / "some-set.json", content)
    with pytest.raises(DataError, match=r"is no profile .*`quintet data accept some-set` writes it anew") as caught:
        accepted_profile(tmp_path / "some-set.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("observed", "told"),
    [
        ({}, "nothing was observed"),
        ({"x": np.zeros(0)}, "has no value"),
        ({"x": np.asarray([1.0, np.nan])}, "not finite"),
    ],
)
def test_there_is_no_profile_of_nothing(observed: dict[str, np.ndarray], told: str) -> None:
    with pytest.raises((DataError, ValueError), match=told):
        profile_of(observed)


def test_the_index_in_closed_form() -> None:
    assert stability_index((7, 3), (7, 3)) == 0
    # shares by hand, with half a count more in each bin
    p, q = (30 + SMOOTHING) / 41, (10 + SMOOTHING) / 41
    expected = (p - q) * math.log(p / q) + (q - p) * math.log(q / p)
    assert stability_index((30, 10), (10, 30)) == pytest.approx(expected)
    assert stability_index((30, 10), (10, 30)) == pytest.approx(stability_index((10, 30), (30, 10)))
    assert math.isfinite(stability_index((40, 0), (0, 40)))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=2, max_size=12))
def test_the_index_is_never_negative(counts: list[tuple[int, int]]) -> None:
    new, accepted = zip(*counts, strict=True)
    assert stability_index(new, accepted) >= 0


@pytest.mark.parametrize(("n", "m"), [(100, 100), (300, 5000), (2000, 50)])
def test_what_chance_alone_gives_is_taken_off(n: int, m: int) -> None:
    generator = np.random.default_rng(8)
    shares = np.asarray([0.3, 0.3, 0.2, 0.1, 0.1])
    gaps = []
    for _ in range(400):
        new, accepted = generator.multinomial(n, shares), generator.multinomial(m, shares)
        gaps.append(stability_index(new.tolist(), accepted.tolist()) - expected_index(new.tolist(), accepted.tolist()))
    # four standard errors of the mean, and the second order of the expansion
    assert abs(np.mean(gaps)) < 4 * np.std(gaps) / 20 + 0.15 * expected_index((1,) * 5, (1,) * 5) * (1 / n + 1 / m)


def drift_checks(reference: dict | None, observed: dict, **options: object) -> dict[str, tuple[bool, str]]:  # type: ignore[type-arg]
    profile = profile_of(reference) if reference is not None else None
    suite = Drift(profile, DriftOptions.model_validate(options)).suite(observed)
    return {check.name: (check.passed, check.detail) for check in run_suites("it", (suite,))}


def test_the_same_population_passes_and_another_is_refused() -> None:
    generator = np.random.default_rng(1)
    accepted = {"x": generator.normal(size=4000), "w": ["a", "b", "b"] * 400}
    assert all(passed for passed, _ in drift_checks(accepted, accepted).values())
    fresh = {"x": generator.normal(size=900), "w": ["a", "b", "b"] * 99}
    assert all(passed for passed, _ in drift_checks(accepted, fresh).values())
    shifted = drift_checks(accepted, {**fresh, "x": fresh["x"] + 1})
    assert shifted["drift/index"] == (False, "feature x")
    assert drift_checks(accepted, {**fresh, "w": ["a"] * 300})["drift/index"] == (False, "feature w")
    # a threshold is a threshold
    assert drift_checks(accepted, {**fresh, "x": fresh["x"] + 1}, max_index=50)["drift/index"][0]


def test_features_that_come_or_go_are_refused() -> None:
    accepted = {"x": np.arange(50.0), "y": np.arange(50.0)}
    gone = drift_checks(accepted, {"x": np.arange(50.0)})
    assert gone["drift/features"] == (False, "feature y")
    come = drift_checks(accepted, {**accepted, "z": np.arange(50.0)})
    assert come["drift/features"] == (False, "feature z")
    empty = drift_checks(accepted, {**accepted, "y": np.zeros(0)})
    assert not empty["drift/features"][0]


def test_without_an_accepted_version_the_configuration_decides() -> None:
    assert drift_checks(None, {"x": np.arange(5.0)}) == {"drift/reference": (False, "feature all")}
    assert drift_checks(None, {"x": np.arange(5.0)}, require_reference=False)["drift/reference"][0]
