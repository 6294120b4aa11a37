"""What a catalogue entry says to the readers of images."""

from typing import Annotated

from pydantic import Field

from components.config import Strict, validated
from components.datasets.core.catalogue import Entry

Side = Annotated[int, Field(ge=1, le=4096)]


class ImageOptions(Strict):
    """Class names by label, the common shape (H, W, C), and how the publisher calls things."""

    classes: tuple[str, ...] = Field(min_length=2)
    shape: tuple[Side, Side, Annotated[int, Field(ge=1, le=4)]]
    # parquet: names of the columns
    image_column: str = "img"
    label_column: str = "label"
    class_column: str | None = None
    # CIFAR-100's binary form has a coarse label before the fine one, and only the latter is used
    leading_label_bytes: int = Field(default=0, ge=0, le=1)


def image_options(entry: Entry) -> ImageOptions:
    """The entry's options. Raises ConfigError."""
    return validated(ImageOptions, entry.options, f"options of {entry.name} in data/catalogue.yaml")
