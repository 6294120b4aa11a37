"""The one rule that names an orbit's regime. Its clauses are asked in this order, and the first that holds decides:

    HEO    eccentricity > 0.25
    GEO    0.95 < mean motion < 1.05 rev/day and eccentricity < 0.1
    LEO    mean altitude (semi-major axis less the equatorial radius) < 2,000 km
    MEO    mean altitude < 35,586 km (200 km below the geostationary height)
    OTHER  the rest: graveyard orbits and what lies beyond

The published catalogues use several rules that differ at the edges; this one is ours, and the regime is a function of
mean motion and eccentricity alone. A model that is given both can only learn the rule.
"""

from components.datasets.orbital.mechanics import EARTH_RADIUS_KM

REGIMES = ("LEO", "MEO", "GEO", "HEO", "OTHER")

HEO_ECCENTRICITY = 0.25
GEO_MEAN_MOTION = (0.95, 1.05)
GEO_ECCENTRICITY = 0.1
LEO_ALTITUDE_KM = 2000.0
MEO_ALTITUDE_KM = 35586.0


def regime_of(eccentricity: float, mean_motion_rev_day: float, semi_major_axis_km: float) -> str:
    """The regime of an orbit, one of `REGIMES`. All bounds are exclusive."""
    if eccentricity > HEO_ECCENTRICITY:
        return "HEO"
    if GEO_MEAN_MOTION[0] < mean_motion_rev_day < GEO_MEAN_MOTION[1] and eccentricity < GEO_ECCENTRICITY:
        return "GEO"
    # the bounds are added up and the axis is taken as it is kept: a difference would round at the bound itself
    if semi_major_axis_km < EARTH_RADIUS_KM + LEO_ALTITUDE_KM:
        return "LEO"
    return "MEO" if semi_major_axis_km < EARTH_RADIUS_KM + MEO_ALTITUDE_KM else "OTHER"
