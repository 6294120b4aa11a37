"""The forms of data that training reads. A new one is a function and a line in `FORMS`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from components.arrays import SPLITS
from components.config import TaskConfig, TrainConfig
from components.errors import ConfigError, DataError
from components.files import read_json
from components.training.data.batches import TrainingData
from components.training.data.features import FeatureRows
from components.training.data.images import ImageRows
from components.training.data.rows import FolderRows
from components.training.data.sequences import SequenceRows
from components.training.data.streams import StreamBlocks
from components.training.data.tables import load_table


def read_data(config: TrainConfig, folder: Path) -> TrainingData[Any]:
    """The splits of `folder` in the form that the experiment reads.

    Raises ConfigError for a form that does not exist, or classes that are not those of the folder; DataError for a
    folder that is not prepared, or a split without rows.
    """
    return open_data(config.reads.form, folder, config.task)


def open_data(form: str, folder: Path, task: TaskConfig, **more: Any) -> TrainingData[Any]:
    """The splits of `folder`. `more` goes to the form (`length` of language blocks). Raises as `read_data` does."""
    if form not in FORMS:
        raise ConfigError(f"there is no form of data {form!r}; the forms are: {', '.join(sorted(FORMS))}")
    return FORMS[form](folder, task, **more)


def _table(folder: Path, task: TaskConfig) -> TrainingData[Any]:
    return load_table(folder / "table.csv", task)


def _labelled(rows: Callable[[Path, str], FolderRows[Any]]) -> Callable[[Path, TaskConfig], TrainingData[Any]]:
    """A form of rows with a label each, whose classes the folder's summary names in the order of their codes."""

    def read(folder: Path, task: TaskConfig) -> TrainingData[Any]:
        train, validation, test = (rows(folder, split) for split in SPLITS)
        _require_classes(folder, task)
        return TrainingData(train, validation, test)

    return read


def _stream(folder: Path, task: TaskConfig, length: int) -> TrainingData[Any]:
    train, validation, test = (StreamBlocks(folder, split, length) for split in SPLITS)
    return TrainingData(train, validation, test)


def _require_classes(folder: Path, task: TaskConfig) -> None:
    try:
        known = read_json(folder / "summary.json")["classes"]
    except FileNotFoundError:
        raise DataError(f"summary.json is not in {folder}; prepare the data set again") from None
    if known is not None and list(task.classes) != list(known):
        raise ConfigError(
            f"task.classes are {', '.join(task.classes)}; those of {folder.name} are, in the order of their codes: "
            f"{', '.join(map(str, known))}; write these"
        )


FORMS: Mapping[str, Callable[..., TrainingData[Any]]] = {
    "table": _table,
    "features": _labelled(FeatureRows),
    "images": _labelled(ImageRows),
    "sequences": _labelled(SequenceRows),
    "stream": _stream,
}
