"""What the configuration may say of a set of images."""

from typing import Annotated

from pydantic import Field, model_validator

from components.config import Fraction, Strict
from components.datasets.core.options import DriftOptions, PartOptions

Level = Annotated[float, Field(ge=0, le=1)]


class PrepareOptions(PartOptions):
    """How the images are split; nothing is done to the pixels."""


class Statistics(Strict):
    """Published mean and standard deviation of each channel over the pixels of the train split, in units of 255."""

    mean: tuple[Level, ...] = Field(min_length=1)
    std: tuple[Level, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_of_each_for_a_channel(self) -> "Statistics":
        if len(self.mean) != len(self.std):
            raise ValueError(f"mean has {len(self.mean)} channels and std {len(self.std)}; allowed is the same number")
        return self


class GateOptions(Strict):
    """What the gate asks beyond form."""

    min_rows: int = Field(ge=1)
    # largest difference between a class's share in a split and its share in the whole set
    max_share_drift: Fraction = 0.05
    # the least distance between the darkest and the brightest pixel of the set: bytes that were scaled have less
    min_span: int = Field(default=128, ge=1, le=255)
    # compared with the whole set but the test split, within what the number of images lets expect
    published: Statistics | None = None
    # share of images that come again in their split, and of those that are also in a later split
    max_duplicates_within: float = Field(default=0.0, ge=0, lt=1)
    max_duplicates_across: float = Field(default=0.0, ge=0, lt=1)
    # share of images with one value in all pixels
    max_blank: float = Field(default=0.0, ge=0, lt=1)
    drift: DriftOptions = DriftOptions()
