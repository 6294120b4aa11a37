"""Paths into a configuration: setting a value by its dotted name, and naming what differs between two of them."""

import copy
from collections.abc import Mapping
from typing import Any

from components.errors import ConfigError

# Knobs that begin so are paths of the whole configuration; all others are paths of the experiment.
OF_DATA = ("datasets.", "features.")


def with_settings(
    params: Mapping[str, Any], experiment: str, settings: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """A copy of the configuration `params` with the knobs of `settings` set.

    Raises ConfigError for a knob whose section does not exist. Whether its last part exists, and takes the value, the
    typed configuration knows.
    """
    changed = copy.deepcopy(dict(params))
    for knob, value in settings.items():
        path = knob.split(".") if knob.startswith(OF_DATA) else ["experiments", experiment, *knob.split(".")]
        section: Any = changed
        for depth, part in enumerate(path[:-1]):
            if not isinstance(section.get(part), dict):
                raise ConfigError(
                    f"{where}: {knob} has no place in the configuration: {'.'.join(path[:depth]) or 'it'} has "
                    f"{', '.join(sorted(section))}, and no section {part!r}"
                )
            section = section[part]
        if isinstance(section.get(path[-1]), dict):
            raise ConfigError(f"{where}: {knob} is a section, not a value; name one of {', '.join(section[path[-1]])}")
        section[path[-1]] = value
    return changed


def flattened(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every value of a nested configuration by its dotted name; a list is a value, an empty section is none."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        flat |= flattened(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return flat


def differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[str, ...]:
    """The names whose values differ, or that only one of the two has, in sorted order."""
    missing = object()
    return tuple(sorted(name for name in {*first, *second} if first.get(name, missing) != second.get(name, missing)))
