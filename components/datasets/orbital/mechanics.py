"""Constants of the Earth and the two-body relations between the columns of the orbital table.

Lengths in km, times in minutes, mean motion in revolutions a day, angles in degrees. Altitudes are above the
equatorial radius, as the satellite catalogue gives them. The relations are Kepler's third law, n^2 a^3 = GM, and the
ellipse's r_perigee = a (1 - e), r_apogee = a (1 + e) (Vallado, Fundamentals of Astrodynamics, section 1.3).
"""

import math

# WGS 84: gravitational parameter with the atmosphere, and equatorial radius.
GM_KM3_PER_S2 = 398600.4418
EARTH_RADIUS_KM = 6378.137
MINUTES_PER_DAY = 1440.0
SECONDS_PER_MINUTE = 60.0

# A catalogue rounds altitudes to 1 km and periods to 0.01 min: 1e-4 relative in the semi-major axis at the worst.
# What it gives for one object comes from one element set, so a larger disagreement is a wrong number.
KEPLER_TOLERANCE = 3e-3


def semi_major_axis_from_altitudes(perigee_km: float, apogee_km: float) -> float:
    return EARTH_RADIUS_KM + 0.5 * (perigee_km + apogee_km)


def eccentricity_from_altitudes(perigee_km: float, apogee_km: float) -> float:
    return (apogee_km - perigee_km) / (2.0 * semi_major_axis_from_altitudes(perigee_km, apogee_km))


def altitudes(semi_major_axis_km: float, eccentricity: float) -> tuple[float, float]:
    """Perigee and apogee above the equatorial radius, km."""
    return (
        semi_major_axis_km * (1.0 - eccentricity) - EARTH_RADIUS_KM,
        semi_major_axis_km * (1.0 + eccentricity) - EARTH_RADIUS_KM,
    )


def mean_motion_from_period(period_min: float) -> float:
    return MINUTES_PER_DAY / period_min


def period_from_mean_motion(mean_motion_rev_day: float) -> float:
    return MINUTES_PER_DAY / mean_motion_rev_day


def semi_major_axis_from_period(period_min: float) -> float:
    """Kepler's third law. An element set's mean motion is put in as it stands: the difference between Kozai's mean
    motion, which element sets carry, and Brouwer's is of the order of J2 (1e-3) and no regime's bound turns on it."""
    rate = 2.0 * math.pi / (period_min * SECONDS_PER_MINUTE)
    return float((GM_KM3_PER_S2 / rate**2) ** (1.0 / 3.0))


def kepler_disagreement(period_min: float, perigee_km: float, apogee_km: float) -> float:
    """Relative difference between the semi-major axis that the period gives and the one that the altitudes give."""
    return semi_major_axis_from_period(period_min) / semi_major_axis_from_altitudes(perigee_km, apogee_km) - 1.0
