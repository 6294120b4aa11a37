"""A small table of real rows for the trainer, out of the shipped sample."""

from dataclasses import replace
from pathlib import Path

import torch

from components.config import ReadsConfig, TaskConfig, TrainConfig, TrainingConfig
from components.training.data.batches import TokenBatch, TrainingData
from components.training.data.tables import Split, load_table

FEATURES = ("inclination_deg", "eccentricity", "mean_motion_rev_day")
SAMPLE = Path(__file__).parents[2] / "data" / "samples" / "orbital" / "satcat_2016_sample.csv"


def train_config(**changes: object) -> TrainConfig:
    """A run that takes a second: three features, six prototypes, some epochs."""
    training = {"epochs": 4, "batch_size": 32, "learning_rate": 0.05, "schedule": "cosine", "accelerator": "cpu"}
    model = {
        "dim": 4,
        "hidden": 8,
        "num_prototypes": 6,
        "loss_weight": 0.05,
        "anchor_weight": 0.5,
        "temperature_start": 2.0,
        "temperature_end": 0.5,
    }
    for values in (training, model):
        values.update({key: value for key, value in changes.items() if key in values})
    return TrainConfig(
        method="ddcl-readout",
        source="ddcl",
        dataset="orbital-sample",
        reads=ReadsConfig(form="table", folder="prepared/orbital-sample", gate="gate_data/orbital-sample"),
        seed=int(changes.get("seed", 7)),  # type: ignore[call-overload]
        task=TaskConfig(target="kind", classes=("PAYLOAD", "ROCKET BODY", "DEBRIS"), features=FEATURES, balanced=True),
        model=model,
        training=TrainingConfig(**training),  # type: ignore[arg-type]
    )


def sample_table(tmp_path: Path, config: TrainConfig, rows: int = 300) -> TrainingData[TokenBatch]:
    """Some rows of the shipped sample, every fifth for validation, every other fifth for test."""
    import pandas as pd

    frame = pd.read_csv(SAMPLE).iloc[:: 6000 // rows]
    frame["split"] = [("test", "validation", "train", "train", "train")[index % 5] for index in range(len(frame))]
    frame.to_csv(tmp_path / "table.csv", index=False)
    return load_table(tmp_path / "table.csv", config.task)


def with_poison(table: TrainingData[TokenBatch], row: int) -> TrainingData[TokenBatch]:
    """The table with one training row whose features are NaN."""
    train = table.train
    assert isinstance(train, Split)
    tokens = train.tokens.clone()
    tokens[row] = torch.nan
    return replace(table, train=Split(tokens, train.labels))
