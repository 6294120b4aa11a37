"""What a catalogue entry says to the readers of text."""

from pydantic import Field, model_validator

from components.config import Strict, validated
from components.datasets.core.catalogue import Entry


class RowFilter(Strict):
    """Only rows whose column has this value."""

    column: str
    value: str


class TextOptions(Strict):
    """Names of columns and classes. Without `classes` the label is a number to be predicted."""

    classes: tuple[str, ...] | None = Field(default=None, min_length=2)
    text: str = "text"
    second: str | None = None
    label: str = "label"
    # column of the publisher's identifier, unique in its split; without one, rows are numbered
    id: str | None = None
    # columns that are there and are not read
    ignored: tuple[str, ...] = ()
    # how classes are written in the label column, in the order of `classes`; by default 0, 1, 2, ...
    written: tuple[str, ...] | None = None
    only: RowFilter | None = None
    # GLUE: the task's short name
    task: str | None = None

    @model_validator(mode="after")
    def _each_class_is_written_in_its_own_way(self) -> "TextOptions":
        if self.written is not None and len(set(self.written)) != len(self.classes or ()):
            raise ValueError("`written` needs one different word for each of `classes`")
        return self

    def label_of(self, written: str) -> int | float | None:
        """The label that is written so; None where it is none of the classes, or no finite number."""
        if self.classes is None:
            try:
                value = float(written)
            except ValueError:
                return None
            return value if abs(value) < float("inf") else None
        words = self.written or tuple(str(index) for index in range(len(self.classes)))
        return words.index(written) if written in words else None

    @property
    def labels_told(self) -> str:
        if self.classes is None:
            return "a finite number"
        words = self.written or tuple(str(index) for index in range(len(self.classes)))
        return f"one of {', '.join(words[:25])}"


def text_options(entry: Entry) -> TextOptions:
    """The entry's options. Raises ConfigError."""
    return validated(TextOptions, entry.options, f"options of {entry.name} in data/catalogue.yaml")
