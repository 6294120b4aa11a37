"""What a catalogue entry says to the readers of images."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from components.config import Strict, validated
from components.datasets.core.catalogue import Entry

Side = Annotated[int, Field(ge=1, le=4096)]


class ImageOptions(Strict):
    """Class names by label, the common shape (H, W, C), and how the publisher calls things."""

    classes: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=2)
    # pictures are grey (one channel) or in colour (three)
    shape: tuple[Side, Side, Literal[1, 3]]
    # pictures in archives: whether those of another size are resized, or refused
    resize: bool = False
    # parquet: names of the columns, and whether each picture has a file name that no other has
    image_column: str = "img"
    label_column: str = "label"
    class_column: str | None = None
    unique_paths: bool = False
    # CIFAR's binary form: which of the two archives it is, and which labels are used where it has two
    layout: Literal["cifar-10", "cifar-100"] = "cifar-10"
    labels: Literal["fine", "coarse"] = "fine"

    @model_validator(mode="after")
    def _no_class_stands_twice(self) -> "ImageOptions":
        twice = sorted({name for name in self.classes if self.classes.count(name) > 1})
        if twice:
            raise ValueError(f"classes names {twice[0]!r} twice")
        return self


def image_options(entry: Entry) -> ImageOptions:
    """The entry's options. Raises ConfigError."""
    return validated(ImageOptions, entry.options, f"options of {entry.name} in data/catalogue.yaml")
