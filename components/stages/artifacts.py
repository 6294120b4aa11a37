"""Where stages find each other's files, and how those files are read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.config import TrainConfig, validated
from components.files import digest_of, read_json
from components.stages.execution import Context
from components.tracking.records import RunRecord, new_record


def prepared_table(context: Context, dataset: str) -> Path:
    return context.input(f"data/prepared/{dataset}/table.csv")


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


def dataset_reference(context: Context, dataset: str, role: str) -> dict[str, str]:
    """A data set as a run record names it: by the digest of its files."""
    summary = read_json(context.input(f"data/prepared/{dataset}/summary.json"))
    manifest = read_json(context.input(f"data/prepared/{dataset}/manifest.json"))
    return {"name": summary.get("entry", dataset), "digest": digest_of(manifest["outputs"]), "context": role}


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
