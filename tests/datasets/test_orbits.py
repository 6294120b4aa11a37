"""Mechanics, regimes and kinds: closed forms, edges, published values."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.datasets.orbital import mechanics
from components.datasets.orbital.kinds import KINDS, kind_of
from components.datasets.orbital.regimes import REGIMES, regime_of
from components.datasets.orbital.table import (
    OrbitError,
    columns_from_altitudes,
    columns_from_elements,
    full_year,
    launch_of,
    orbit_columns,
)

EARTH = mechanics.EARTH_RADIUS_KM
ALTITUDES = st.floats(100.0, 100000.0)


def test_a_sidereal_day_gives_the_geostationary_radius() -> None:
    # 23 h 56 min 4.0905 s; radius 42,164.17 km by any textbook
    axis = mechanics.semi_major_axis_from_period(1436.0 + 4.0905 / 60.0)
    assert math.isclose(axis, 42164.17, abs_tol=0.02)


def test_vanguard_as_the_catalogue_gives_it() -> None:
    # SATCAT: period 132.75 min, perigee 650 km, apogee 3834 km
    assert math.isclose(mechanics.semi_major_axis_from_altitudes(650.0, 3834.0), 8620.137)
    assert math.isclose(mechanics.eccentricity_from_altitudes(650.0, 3834.0), 0.184684, abs_tol=5e-7)
    assert math.isclose(mechanics.mean_motion_from_period(132.75), 10.84745763, abs_tol=5e-9)
    assert abs(mechanics.kepler_disagreement(132.75, 650.0, 3834.0)) < 1e-4


@given(ALTITUDES, ALTITUDES)
def test_altitudes_and_axis_with_eccentricity_are_inverse(one: float, other: float) -> None:
    perigee, apogee = sorted((one, other))
    axis = mechanics.semi_major_axis_from_altitudes(perigee, apogee)
    eccentricity = mechanics.eccentricity_from_altitudes(perigee, apogee)
    assert 0.0 <= eccentricity < 1.0
    back = mechanics.altitudes(axis, eccentricity)
    assert math.isclose(back[0], perigee, rel_tol=1e-9, abs_tol=1e-6)
    assert math.isclose(back[1], apogee, rel_tol=1e-9, abs_tol=1e-6)


@given(st.floats(90.0, 50000.0))
def test_kepler_has_eight_times_the_period_at_four_times_the_axis(period: float) -> None:
    axis = mechanics.semi_major_axis_from_period(period)
    assert math.isclose(mechanics.semi_major_axis_from_period(8.0 * period), 4.0 * axis, rel_tol=1e-12)
    assert math.isclose(mechanics.period_from_mean_motion(mechanics.mean_motion_from_period(period)), period)


@pytest.mark.parametrize(
    ("eccentricity", "mean_motion", "altitude", "regime"),
    [
        (0.001, 15.5, 400.0, "LEO"),
        (0.001, 2.0, 20200.0, "MEO"),
        (0.001, 1.0027, 35786.0, "GEO"),
        (0.7, 2.0, 20200.0, "HEO"),
        (0.001, 0.9, 40000.0, "OTHER"),
        # each bound is exclusive, so a value on it belongs to the next clause that holds
        (0.25, 15.0, 500.0, "LEO"),
        (0.2500001, 15.0, 500.0, "HEO"),
        (0.0, 0.95, 37900.0, "OTHER"),
        (0.0, 0.9500001, 37900.0, "GEO"),
        (0.0, 1.05, 34500.0, "MEO"),
        (0.0, 1.0499999, 34500.0, "GEO"),
        (0.1, 1.0, 35786.0, "OTHER"),
        (0.0999999, 1.0, 35786.0, "GEO"),
        (0.0, 11.3, 1999.999, "LEO"),
        (0.0, 11.3, 2000.0, "MEO"),
        (0.1, 1.04, 35585.999, "MEO"),
        (0.1, 1.04, 35586.0, "OTHER"),
        # the order counts: an eccentric orbit with a period of one day is HEO, not GEO
        (0.3, 1.0, 35786.0, "HEO"),
    ],
)
def test_regimes_at_their_edges(eccentricity: float, mean_motion: float, altitude: float, regime: str) -> None:
    # an axis is kept to the metre, so the sum is rounded as the table rounds it
    assert regime_of(eccentricity, mean_motion, round(altitude + EARTH, 3)) == regime


@given(st.floats(0.0, 0.99), st.floats(0.0144, 18.0))
def test_every_orbit_has_a_regime(eccentricity: float, mean_motion: float) -> None:
    axis = mechanics.semi_major_axis_from_period(mechanics.period_from_mean_motion(mean_motion))
    assert regime_of(eccentricity, mean_motion, axis) in REGIMES


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("FENGYUN 1C DEB", "DEBRIS"),
        ("SL-8 R/B DEB", "DEBRIS"),
        ("ECHO 1 DEB (METAL OBJ)", "DEBRIS"),
        ("COSMOS 1249 COOLANT", "DEBRIS"),
        ("WESTFORD NEEDLES *", "DEBRIS"),
        ("SL-12 R/B(AUX MOTOR)", "ROCKET BODY"),
        ("SL-6 R/B(2)", "ROCKET BODY"),
        ("LAGEOS 1 AKM", "ROCKET BODY"),
        ("JCSAT 2 PKM (SSUS-A)", "ROCKET BODY"),
        ("DEBUT (ORIZURU)", "PAYLOAD"),
        ("Rocket Lab", "ROCKET BODY"),
        ("OBJECT A", "PAYLOAD"),
        ("TBA - TO BE ASSIGNED", "PAYLOAD"),
    ],
)
def test_kinds_by_whole_words(name: str, kind: str) -> None:
    assert kind_of(name) == kind
    assert kind in KINDS


def test_launches() -> None:
    assert launch_of("1999-025ABC", 1) == "1999-025"
    assert launch_of("99025ABC", 1) == "1999-025"
    assert launch_of("58002B  ", 5) == "1958-002"
    assert launch_of("22001   ", 5) == "2022-001"
    assert launch_of("        ", 81036) == "unknown-81036"
    assert [full_year(two) for two in (57, 99, 0, 56)] == [1957, 1999, 2000, 2056]
    for strange in ("1999-025", "99-025A", "9902A", "99025a"):
        with pytest.raises(ValueError, match="no international designator"):
            launch_of(strange, 1)


def test_columns_from_both_kinds_of_source_agree() -> None:
    by_altitudes = columns_from_altitudes(132.75, 34.25, 650.0, 3834.0)
    by_elements = columns_from_elements(34.25, float(by_altitudes["eccentricity"]), 1440.0 / 132.75)
    for name in ("period_min", "perigee_km", "apogee_km", "semi_major_axis_km"):
        assert math.isclose(float(by_altitudes[name]), float(by_elements[name]), rel_tol=2e-3), name
    assert by_altitudes["regime"] == by_elements["regime"] == "MEO"


@pytest.mark.parametrize(
    ("facts", "column", "allowed"),
    [
        ((0.0, 51.6, 400.0, 410.0), "period_min", "80 to 100000 min"),
        ((math.nan, 51.6, 400.0, 410.0), "period_min", "80 to 100000 min"),
        ((92.5, 181.0, 400.0, 410.0), "inclination_deg", "0 to 180 deg"),
        ((92.5, 51.6, -1.0, 410.0), "perigee_km", "0 to 1000000 km"),
        ((92.5, 51.6, 410.0, 400.0), "perigee_km", "no more than the apogee, 400"),
        ((92.5, 51.6, 400.0, math.inf), "apogee_km", "0 to 1500000 km"),
        ((95.0, 51.6, 400.0, 410.0), "period_min", "Kepler's third law (to 0.3% in the semi-major axis)"),
    ],
)
def test_numbers_that_are_no_orbit(facts: tuple[float, float, float, float], column: str, allowed: str) -> None:
    with pytest.raises(OrbitError) as caught:
        columns_from_altitudes(*facts)
    assert caught.value.column == column
    assert allowed in caught.value.allowed


def test_kepler_tolerance_lies_between_rounding_and_error() -> None:
    axis = mechanics.semi_major_axis_from_altitudes(400.0, 410.0)
    exact = 2.0 * math.pi * math.sqrt(axis**3 / mechanics.GM_KM3_PER_S2) / 60.0
    columns_from_altitudes(exact * 1.0029**1.5, 51.6, 400.0, 410.0)
    with pytest.raises(OrbitError, match=rf"allowed is {exact:.2f}"):
        columns_from_altitudes(exact * 1.0031**1.5, 51.6, 400.0, 410.0)


def test_the_regime_belongs_to_the_numbers_that_are_kept() -> None:
    # 0.25000001 is kept as 0.25, which is not above the bound
    kept = orbit_columns(100.0, 98.0, 500.0, 600.0, 0.25000001, 14.4, 6928.137)
    assert kept["eccentricity"] == 0.25
    assert kept["regime"] == "LEO"
