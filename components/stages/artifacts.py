"""Where stages find each other's files, and how those files are read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.config import TrainConfig, validated
from components.files import digest_of, read_json
from components.stages.execution import Context
from components.tracking.records import RunRecord, new_record


def read_folder(context: Context, config: TrainConfig) -> Path:
    """The folder with the rows of the experiment."""
    return context.input(f"data/{config.reads.folder}")


@dataclass(frozen=True)
class TrainedRun:
    """What the train stage left: the configuration it used, the identity of the run, the weights."""

    experiment: str
    scale: str
    config: TrainConfig
    digest: str
    weights: Path
    folder: Path


def trained_run(context: Context) -> TrainedRun:
    """The training run that this stage judges, evaluates or exports."""
    folder = context.input(f"outputs/train/{context.name}")
    resolved = read_json(folder / "config.json")
    config = validated(TrainConfig, resolved["experiment"], "config.json of the trained model")
    return TrainedRun(
        experiment=context.name,
        scale=resolved["scale"],
        config=config,
        digest=read_json(folder / "record.json")["digest"],
        weights=folder / "model.safetensors",
        folder=folder,
    )


def run_digest(context: Context) -> str:
    """Identity of a training run: configuration, data, code and versions, as the train stage sees them."""
    return digest_of(context.identity)


def dataset_reference(context: Context, config: TrainConfig, role: str) -> dict[str, str]:
    """The data of an experiment as a run record names them: by the digest of their files."""
    folder = read_folder(context, config)
    manifest = read_json(folder / "manifest.json")
    name = read_json(folder / "summary.json").get("entry", config.reads.features or config.dataset)
    return {"name": name, "digest": digest_of(manifest["outputs"]), "context": role}


def record_for(context: Context, run: TrainedRun, **fields: Any) -> RunRecord:
    """The record of a stage downstream of `run`, filed under the same run. `fields` are those of RunRecord."""
    return new_record(
        context.address,
        stage=context.stage,
        experiment=context.name,
        method=run.config.method,
        dataset=run.config.dataset,
        scale=run.scale,
        digest=run.digest,
        **fields,
    )
