"""Choose a scale: compose `conf/` into `params.yaml`, exactly as `dvc exp run -S scale=NAME` does."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from components.errors import ConfigError, UsageError
from components.files import write_text
from pipelines.environment import state_folder

CONFIG_NAME = "config"


def available_scales(root: Path) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (root / "conf" / "scale").glob("*.yaml")))


def compose(root: Path, scale: str | None, overrides: Sequence[str] = ()) -> bool:
    """Write `params.yaml` for `scale` and Hydra `overrides`; True when its content changed.

    Without a scale and overrides nothing is composed: what `params.yaml` says stands, and is checked. Overrides without
    a scale apply to the scale that `conf/config.yaml` names by default. Raises UsageError for a scale or key that does
    not exist, ConfigError for a value that no stage would take; `params.yaml` is then as it was.
    """
    target = root / "params.yaml"
    if scale is None and not overrides:
        check_configuration(root, target.read_text(encoding="utf-8"), target.name)
        return False
    if scale is not None:
        _require_scale(root, scale)
    content = _composed(root, [f"scale={scale}"] if scale else [], overrides)
    check_configuration(root, content, "the composed configuration")
    if target.is_file() and target.read_text(encoding="utf-8") == content:
        return False
    write_text(target, content)
    return True


def composed(root: Path, scale: str) -> dict[str, Any]:
    """What `params.yaml` would say for `scale`, without writing it. Raises UsageError when there is no such scale."""
    _require_scale(root, scale)
    return dict(yaml.safe_load(_composed(root, [f"scale={scale}"], ())))


def _require_scale(root: Path, scale: str) -> None:
    known = available_scales(root)
    if scale not in known:
        raise UsageError(f"there is no scale {scale!r} in conf/scale/; there are: {', '.join(known) or 'none'}")


def check_configuration(root: Path, text: str, source: str) -> None:
    """Refuse what a stage would refuse, before any stage starts. Raises ConfigError in one line.

    A configuration without experiments belongs to another graph, whose stages know what they take.
    """
    from components.config import Config, validated
    from components.datasets.core.catalogue import load_catalogue
    from components.datasets.registry import check_datasets
    from components.training.registry import check_methods

    content = yaml.safe_load(text)
    if isinstance(content, dict) and "experiments" in content:
        config = validated(Config, content, source)
        check_datasets(config, load_catalogue(root))
        check_methods(config)


def _composed(root: Path, choice: Sequence[str], overrides: Sequence[str]) -> str:
    from dvc.utils.hydra import compose_and_dump
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    # beside the target and not over it: a composition that fails leaves the active configuration alone
    state_folder(root).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=state_folder(root)) as folder:
        output = Path(folder) / "params.yaml"
        try:
            compose_and_dump(
                output_file=str(output),
                config_dir=str(root / "conf"),
                config_module=None,
                config_name=CONFIG_NAME,
                plugins_path=str(root / "hydra_plugins"),
                overrides=[*choice, *overrides],
            )
        except (HydraException, OmegaConfBaseException) as error:
            reason = " ".join(str(error).split())
            if overrides:
                raise UsageError(f"conf/ cannot be composed with {' '.join(overrides)}: {reason}") from None
            raise ConfigError(f"conf/ cannot be composed: {reason}") from None
        return output.read_text(encoding="utf-8")
