"""A prepared table in memory: each row a sequence of one token, each split apart."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from components.arrays import SPLITS
from components.config import TaskConfig
from components.errors import DataError
from components.training.data.batches import Rows, TokenBatch, TrainingData


@dataclass(frozen=True)
class Split(Rows[TokenBatch]):
    """tokens (N, 1, F) float32 in physical units; labels (N,) int64, indices into the task's classes."""

    tokens: Tensor
    labels: Tensor

    @property
    def matrix(self) -> Tensor:
        """The tokens as a plain matrix (N, F)."""
        return self.tokens.flatten(1)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitems__(self, rows: list[int]) -> TokenBatch:
        index = torch.tensor(rows)
        tokens = self.tokens[index]
        return TokenBatch(tokens, torch.ones(tokens.shape[:2], dtype=torch.bool), self.labels[index], index)

    def all_labels(self) -> Tensor:
        return self.labels


def load_table(path: Path, task: TaskConfig) -> TrainingData[TokenBatch]:
    """Read `table.csv` for `task`. Raises DataError when a column or a whole split is absent.

    Rows whose target is none of the task's classes are left out, and counted.
    """
    frame = pd.read_csv(path, keep_default_na=False)
    absent = sorted({task.target, "split", *task.features} - set(frame.columns))
    if absent:
        raise DataError(f"{path.name} has no column {absent[0]!r}; it has: {', '.join(frame.columns)}; mend the task")
    kept = frame[frame[task.target].isin(task.classes)]
    splits = {name: _split(kept[kept["split"] == name], task) for name in SPLITS}
    empty = [name for name, split in splits.items() if len(split) == 0]
    if empty:
        raise DataError(f"{path.name} has no row of split {empty[0]!r} with {task.target} in {list(task.classes)}")
    return TrainingData(**splits, left_out=len(frame) - len(kept))


def _split(frame: pd.DataFrame, task: TaskConfig) -> Split:
    index = {name: position for position, name in enumerate(task.classes)}
    features = torch.tensor(frame[list(task.features)].to_numpy(dtype="float32"))
    labels = torch.tensor([index[value] for value in frame[task.target]], dtype=torch.int64)
    return Split(features.unsqueeze(1), labels)
