"""From a study to its runs: every arm's whole configuration checked, every run with the digest that names it.

All faults of a study are found here, before anything runs: a knob that does not exist, a value that no method takes, an
arm that differs in a knob nobody declared.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.config import MEND, Config, ReadsConfig, TrainConfig, validated
from components.datasets.core.catalogue import load_catalogue
from components.datasets.features.config import FeaturesConfig
from components.datasets.registry import check_datasets, kind_named
from components.errors import ConfigError
from components.files import digest_of
from components.studies.config import STUDIES_FILE, StudyConfig
from components.studies.inputs import Inputs
from components.studies.knobs import differing, flattened, with_settings
from components.training.registry import check_methods, method

FORMAT = "quintet-study-run/1"
# what makes a result of a training is code of the run as well
RUNNING = "components/studies/running.py"


@dataclass(frozen=True)
class Run:
    """One arm with one seed. `digest` stands for configuration, data, code, versions and device: for its outcome."""

    arm: str
    seed: int
    digest: str
    # the configuration, reduced to this run's experiment and what it reads
    params: Mapping[str, Any]
    # every value of it by its dotted name, defaults written out, the seed left out
    settings: Mapping[str, Any]

    @property
    def label(self) -> str:
        return f"{self.arm}, seed {self.seed}"


@dataclass(frozen=True)
class Plan:
    """A study and all its runs, arm by arm, in the order of the file."""

    name: str
    config: StudyConfig
    params: Mapping[str, Any]
    runs: tuple[Run, ...]

    @property
    def arms(self) -> dict[str, tuple[Run, ...]]:
        names = dict.fromkeys(run.arm for run in self.runs)
        return {name: tuple(run for run in self.runs if run.arm == name) for name in names}

    @property
    def method(self) -> str:
        return str(self.params["experiments"][self.config.experiment]["method"])


def plan_study(inputs: Inputs, name: str, study: StudyConfig, params: Mapping[str, Any]) -> Plan:
    """The runs of `study` on the composed configuration `params` of its scale. Makes the data that the arms read.

    Raises ConfigError for a fault of the study, and what preparing and gating the data raise.
    """
    where = f"study {name}"
    if study.experiment not in params.get("experiments", {}):
        raise ConfigError(
            f"{where}: scale {study.scale} has no experiment {study.experiment!r}; it has: "
            f"{', '.join(params.get('experiments', {})) or 'none'}"
        )
    configured = {
        arm: _configured(inputs.root, params, study, settings, f"{where}, arm {arm}")
        for arm, settings in study.arm_settings.items()
    }
    _refuse_undeclared(where, study, configured)
    runs = []
    for arm, arm_params in configured.items():
        device = _device(arm_params, study.experiment)
        settings = run_settings(arm_params, study.experiment)
        for seed in study.seed_list:
            seeded = with_settings(arm_params, study.experiment, {"seed": seed}, where)
            runs.append(Run(arm, seed, run_digest(inputs, seeded, study.experiment, device), seeded, settings))
    _refuse_doubles(where, runs)
    return Plan(name, study, params, tuple(runs))


def run_digest(inputs: Inputs, params: Mapping[str, Any], experiment: str, device: str) -> str:
    """Identity of a run. The names of study and arm are no part of it: two studies share what they have in common."""
    trained = inputs.context(params, f"train@{experiment}", inputs.root)
    scoring = inputs.code_of(params, f"evaluate@{experiment}")
    scoring[RUNNING] = inputs.hash_of(RUNNING)
    return digest_of({"format": FORMAT, "train": trained.identity, "scoring": scoring, "device": device})


def resolved(root: Path, params: Mapping[str, Any], experiment: str) -> dict[str, Any]:
    """`params` reduced to one experiment and its data, checked, the experiment with every default written out.

    The data stay as they are configured: so they are what the graph makes at this scale, and may be there already.
    """
    config = validated(Config, params, "the configuration of an arm")
    chosen: TrainConfig = config.experiment(experiment)
    reduced = config.model_copy(
        update={
            "datasets": {chosen.dataset: config.dataset(chosen.dataset)},
            "features": {name: config.features[name] for name in [chosen.reads.features] if name is not None},
            "experiments": {experiment: chosen},
            "exports": {},
        }
    )
    check_datasets(reduced, load_catalogue(root))
    check_methods(reduced)
    dumped = reduced.model_dump(mode="json")
    dumped["experiments"][experiment]["model"] = method(chosen.method).model_section(chosen)
    return dumped


def run_settings(params: Mapping[str, Any], experiment: str) -> dict[str, Any]:
    """What can differ between two runs: the training configuration and that of its data, flat, without the seed."""
    section = params["experiments"][experiment]
    fields = {name: value for name, value in section.items() if name in TrainConfig.model_fields and name != "seed"}
    name = section["dataset"]
    dataset = dict(params["datasets"][name])
    kind = kind_named(dataset["kind"])
    for part, options in (("prepare", kind.PrepareOptions), ("gate", kind.GateOptions)):
        filled: Any = validated(options, dataset[part], f"datasets.{name}.{part}")
        dataset[part] = filled.model_dump(mode="json")
    settings = {**flattened(fields), **flattened(dataset, f"datasets.{name}.")}
    read = ReadsConfig.model_validate(section["reads"]).features
    if read is not None:
        of_features = validated(FeaturesConfig, params["features"][read], f"features.{read}")
        settings |= flattened(of_features.model_dump(mode="json"), f"features.{read}.")
    return settings


def _configured(
    root: Path, params: Mapping[str, Any], study: StudyConfig, settings: Mapping[str, Any], where: str
) -> dict[str, Any]:
    budget = {} if study.budget.epochs is None else {"training.epochs": study.budget.epochs}
    for knob in (*study.base, *settings):
        if knob.startswith("gate."):
            raise ConfigError(f"{where}: {knob} is read behind the training, so it changes nothing in a run")
    changed = with_settings(params, study.experiment, {**study.base, **budget, **settings}, where)
    try:
        return resolved(root, changed, study.experiment)
    except ConfigError as error:
        raise ConfigError(f"{where}: {str(error).removesuffix(f'; {MEND}')}; mend it in {STUDIES_FILE}") from None


def _refuse_undeclared(where: str, study: StudyConfig, configured: Mapping[str, dict[str, Any]]) -> None:
    """Raise ConfigError when an arm differs from the reference in a knob that is not declared."""
    settings = {arm: run_settings(params, study.experiment) for arm, params in configured.items()}
    for knob in study.knobs:
        if not any(name == knob or name.startswith(f"{knob}.") for values in settings.values() for name in values):
            raise ConfigError(f"{where}: {knob} is declared as a knob, but no arm sets it and no run reads it")
    for arm, values in settings.items():
        undeclared = undeclared_knobs(settings[study.reference], values, study.knobs)
        if undeclared:
            first = undeclared[0]
            raise ConfigError(
                f"{where}: arm {arm} differs from {study.reference} in {first} ({values.get(first)!r} against "
                f"{settings[study.reference].get(first)!r}), which the study does not vary; declare it under `varies`, "
                f"or give both arms the same value"
            )


def _refuse_doubles(where: str, runs: list[Run]) -> None:
    """Raise ConfigError when two arms are the same run: their knobs set the same, or only what no run reads."""
    first: dict[str, Run] = {}
    for run in runs:
        other = first.setdefault(run.digest, run)
        if other is not run:
            raise ConfigError(
                f"{where}: arms {other.arm} and {run.arm} are the same runs: what they set apart, no run reads; leave "
                "one of them out"
            )


def undeclared_knobs(
    reference: Mapping[str, Any], settings: Mapping[str, Any], knobs: tuple[str, ...]
) -> tuple[str, ...]:
    """The names in which two settings differ that no declared knob covers.

    A knob covers itself and what lies below it; `dataset` covers the sections of both data sets.
    """
    prefixes = tuple(f"{knob}." for knob in knobs) + (("datasets.",) if "dataset" in knobs else ())
    return tuple(name for name in differing(reference, settings) if name not in knobs and not name.startswith(prefixes))


def _device(params: Mapping[str, Any], experiment: str) -> str:
    from components.training.core.device import choose_device

    return str(choose_device(params["experiments"][experiment]["training"]["accelerator"]).accelerator)
