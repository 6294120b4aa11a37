"""The typed configuration: what `params.yaml` may say.

`conf/` is composed by Hydra into `params.yaml`; this module is the only reader of it. Unknown keys are refused, every
value has a type and a range, and seeds are never null. What belongs to one method alone (`model`), or to one kind of
data (`prepare`, `gate`), is checked by its own class, see `components.training.registry` and
`components.datasets.registry`.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from components.errors import ConfigError

Item = TypeVar("Item")
Model = TypeVar("Model", bound=BaseModel)
Scale = Literal["tiny", "quick", "cpu", "paper"]
MEND = "mend it in conf/ or by --set KEY=VALUE"
# strict: `true` and "7" are no seeds
Seed = Annotated[int, Field(ge=0, lt=2**32, strict=True)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
# The stage whose verdict lets the content of a folder below data/ pass.
GATES = {"prepared": "gate_data", "features": "gate_features"}
# One word in paths, stage addresses and MLflow names alike.
Name = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
# A folder of code.
Source = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class Strict(BaseModel):
    """Base of every section: immutable; a key it does not know, or a number that is not finite, is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DatasetConfig(Strict):
    """One data set of this scale: what kind of data, which catalogue entry, how it is prepared, what its gate asks.

    `prepare` and `gate` belong to the kind and are checked by its own classes, see `components.datasets.registry`.
    """

    kind: Name
    # the folder of components/datasets with the reader of the entry: the code that this data set depends on, besides
    # that of its kind
    source: Name
    entry: Name
    # said in the report, where a reader must know it to judge what is made of these data
    note: str = ""
    prepare: dict[str, Any] = Field(default_factory=dict)
    gate: dict[str, Any] = Field(default_factory=dict)


class ReadsConfig(Strict):
    """Where an experiment's rows come from: a folder below data/, passed by the gate in a folder below outputs/.

    `form` is one of `components.training.data.forms`: how the folder is read.
    """

    form: Name
    folder: Annotated[str, Field(pattern=r"^(prepared|features)/[a-z0-9]+(-[a-z0-9]+)*$")]
    gate: Annotated[str, Field(pattern=r"^gate_(data|features)/[a-z0-9]+(-[a-z0-9]+)*$")]

    @model_validator(mode="after")
    def _gate_is_that_of_the_folder(self) -> "ReadsConfig":
        store, _, name = self.folder.partition("/")
        if self.gate != f"{GATES[store]}/{name}":
            raise ValueError(f"the gate of {self.folder} is {GATES[store]}/{name}, not {self.gate}")
        return self

    @property
    def features(self) -> str | None:
        """The name of the features that are read; None where a prepared data set is read itself."""
        store, _, name = self.folder.partition("/")
        return name if store == "features" else None


class TaskConfig(Strict):
    """What is predicted from what."""

    # a column of a table; rows of other forms have one label each, whatever it is called
    target: str = "label"
    classes: tuple[str, ...] = Field(min_length=2)
    # columns of a table, in physical units; rows of other forms come as they are
    features: tuple[str, ...] = ()
    # features taken in logarithm before standardising, by the model and the baselines alike
    log_features: tuple[str, ...] = ()
    # whether each class weighs the same in the loss, of the model and of the baselines alike, however rare it is
    balanced: bool = False
    # said in the report beside the numbers, where a reader must know it to judge them
    note: str = ""
    # said in the model card: what a model of this task must not be used for
    limits: str = ""

    @model_validator(mode="after")
    def _no_name_stands_twice(self) -> "TaskConfig":
        for section in ("classes", "features", "log_features"):
            names = getattr(self, section)
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{section} names {twice[0]!r} twice")
        return self

    @model_validator(mode="after")
    def _logarithms_are_of_features(self) -> "TaskConfig":
        strangers = sorted(set(self.log_features) - set(self.features))
        if strangers:
            raise ValueError(f"log_features names {strangers[0]!r}, which is not among the features")
        return self


class TrainingConfig(Strict):
    """Optimisation and bookkeeping, the same for every method."""

    epochs: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    # rate of the fast variables (prototypes); everything else learns at timescale_ratio times this
    learning_rate: float = Field(gt=0)
    timescale_ratio: float = Field(default=0.1, gt=0)
    # cosine: both rates fall to zero along a half cosine over all steps, so their ratio stays what it is
    schedule: Literal["constant", "cosine"] = "constant"
    weight_decay: float = Field(default=0.0, ge=0)
    gradient_clip: float | None = Field(default=None, gt=0)
    threads: int = Field(default=1, ge=1)
    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    checkpoint_every_epochs: int = Field(default=1, ge=1)


class ModelGateConfig(Strict):
    """What a trained model must show before it is evaluated or exported."""

    # a classifier's validation accuracy must exceed that of always answering the most frequent class by this much
    min_margin_over_majority: float | None = Field(default=None, ge=0)
    # an autoencoder must explain this share of the variance of validation images; that of the mean image explains none
    min_explained: Fraction | None = None
    min_utilisation: Fraction | Literal[1] = 0.5
    min_perplexity: float = Field(default=1.5, ge=1)
    min_separation: float = Field(gt=0)
    max_identity_residual: float = Field(default=1e-5, gt=0)

    @model_validator(mode="after")
    def _one_trivial_rival(self) -> "ModelGateConfig":
        if (self.min_margin_over_majority is None) == (self.min_explained is None):
            raise ValueError(
                "a model is measured against one trivial rival: give min_margin_over_majority for a classifier, or "
                "min_explained for an autoencoder"
            )
        return self


class ExportConfig(Strict):
    """The ONNX form of an experiment's model and how close to the trained one it must be."""

    # those of the experiment: the code and the rows that the export depends on
    source: Source
    reads: ReadsConfig
    opset: int = Field(default=20, ge=18, le=26)
    absolute_tolerance: float = Field(default=1e-4, gt=0)
    relative_tolerance: float = Field(default=1e-4, gt=0)
    max_batch: int = Field(default=1024, ge=32)
    max_tokens: int = Field(default=64, ge=2)


class TrainConfig(Strict):
    """All that one training run depends on, but for data and code."""

    method: Name
    # the family's folder under components/methods and components/training: the code that this experiment depends on
    source: Source
    dataset: Name
    reads: ReadsConfig
    seed: Seed
    task: TaskConfig
    model: dict[str, Any]
    training: TrainingConfig


class ExperimentConfig(TrainConfig):
    """One training run and the gate that judges it."""

    gate: ModelGateConfig


class Config(Strict):
    """The whole of `params.yaml`."""

    scale: Scale
    datasets: dict[Name, DatasetConfig] = Field(min_length=1)
    # token features by frozen encoders, checked by `components.datasets.features.config`
    features: dict[Name, dict[str, Any]] = Field(default_factory=dict)
    experiments: dict[Name, ExperimentConfig] = Field(min_length=1)
    # which of the experiments are deployed, and how
    exports: dict[Name, ExportConfig] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _every_experiment_has_its_dataset(self) -> "Config":
        for name, experiment in self.experiments.items():
            if experiment.dataset not in self.datasets:
                raise ValueError(
                    f"experiment {name!r} reads dataset {experiment.dataset!r}, "
                    f"but this scale has {sorted(self.datasets)}"
                )
            read = experiment.reads.features
            if read is None and experiment.reads.folder != f"prepared/{experiment.dataset}":
                raise ValueError(
                    f"experiment {name!r} is of dataset {experiment.dataset!r} and reads {experiment.reads.folder!r}; "
                    f"write prepared/{experiment.dataset}, or features of it"
                )
            if read is not None and self.features.get(read, {}).get("dataset") != experiment.dataset:
                raise ValueError(
                    f"experiment {name!r} reads features {read!r}, and this scale has no such features of "
                    f"{experiment.dataset!r}; it has: {', '.join(sorted(self.features)) or 'none'}"
                )
        return self

    @model_validator(mode="after")
    def _exports_are_of_experiments(self) -> "Config":
        for name, export in self.exports.items():
            experiment = self.experiments.get(name)
            if experiment is None:
                raise ValueError(f"exports name {name!r}, which is not among the experiments")
            if (export.source, export.reads) != (experiment.source, experiment.reads):
                raise ValueError(f"exports.{name} has another source, or reads other rows, than its experiment")
        return self

    def dataset(self, name: str) -> DatasetConfig:
        return _entry(self.datasets, name, "dataset")

    def experiment(self, name: str) -> ExperimentConfig:
        return _entry(self.experiments, name, "experiment")


def _entry(section: dict[str, Item], name: str, kind: str) -> Item:
    if name not in section:
        raise ConfigError(f"there is no {kind} {name!r} in params.yaml; it has: {', '.join(sorted(section))}")
    return section[name]


def load_config(path: Path) -> Config:
    """Read and check `params.yaml`. Raises ConfigError with each fault's place, value and rule."""
    return validated(Config, read_yaml(path, "`quintet run --scale quick` writes it from conf/"), path.name)


def read_yaml(path: Path, how_it_comes: str) -> Any:
    """The content of a YAML file. Raises ConfigError in one line; for an absent file it ends with `how_it_comes`."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeys)  # noqa: S506
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; {how_it_comes}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from None


class _UniqueKeys(yaml.SafeLoader):
    """Reads YAML, and refuses a key that stands twice: of two sections of one name the first would be lost unseen."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if key.value != "<<"]
        twice = next((key for key, _ in node.value if keys.count(key.value) > 1), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(
                problem=f"{twice.value!r} stands twice", problem_mark=twice.start_mark
            )
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def validated(kind: type[Model], content: Any, source: str, mend: str = MEND) -> Model:
    """`content` as a `kind`, or a ConfigError in one line, which ends with how to mend it."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc'])) or 'the whole'}: {fault['msg']} (got {_short(fault['input'])})"
            for fault in error.errors()
        ]
        raise ConfigError(f"{source} is refused: {'; '.join(faults)}; {mend}") from None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
