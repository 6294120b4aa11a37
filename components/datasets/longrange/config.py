"""What the configuration may say of a set of long sequences."""

from typing import Literal

from pydantic import Field, model_validator

from components.config import Fraction, Strict
from components.datasets.core.options import DriftOptions, PartOptions

Task = Literal["listops", "pathfinder", "bytes", "pixels", "retrieval"]

# These are made from the seed: how many rows there are is for the configuration to say.
GENERATED: tuple[Task, ...] = ("listops", "pathfinder")
# The tasks that each section of the configuration belongs to.
SECTIONS: dict[str, tuple[Task, ...]] = {
    "listops": ("listops",),
    "pathfinder": ("pathfinder",),
    "texts": ("bytes", "retrieval"),
}


class ListOpsOptions(Strict):
    """Nested lists of operations; the defaults are those of the published task.

    A length counts tokens, closing brackets included, and lies strictly between the two bounds. A list may stand in
    another down to depth max_depth - 1; deeper there are digits only.
    """

    min_length: int = Field(default=500, ge=0)
    max_length: int = Field(default=2000, le=65_536)
    max_depth: int = Field(default=10, ge=2, le=40)
    max_args: int = Field(default=10, ge=2, le=40)

    @model_validator(mode="after")
    def _some_length_is_allowed(self) -> "ListOpsOptions":
        if self.max_length < max(self.min_length, 3) + 2:
            raise ValueError(
                f"no list has more than {self.min_length} and fewer than {self.max_length} tokens; "
                "allowed is max_length of at least 5 and of 2 more than min_length"
            )
        return self


class PathfinderOptions(Strict):
    """Two dashed curves, distractors and two dots; the defaults are those of the published 32 by 32 task.

    Lengths of curves count dashes; all other lengths are in pixels.
    """

    size: int = Field(default=32, ge=16, le=256)
    contour_length: int = Field(default=14, ge=2, le=40)
    distractor_length: int = Field(default=4, ge=1, le=40)
    distractors: int = Field(default=5, ge=0, le=40)
    dash_length: float = Field(default=2.0, gt=0, le=16)
    dash_thickness: float = Field(default=0.5, gt=0, le=8)
    # kept free around each dash; the gap between two dashes of a curve is at most twice this
    margin: float = Field(default=1.0, gt=0, le=16)
    # kept free along the edge of the image
    padding: float = Field(default=1.0, ge=0, le=32)
    # between the first dashes of the two curves
    seed_distance: float = Field(default=7.0, gt=0)
    # how little a curve turns: a turn by the angle a has weight cos(continuity * a) ** 2
    continuity: float = Field(default=1.0, ge=0.5, le=4)
    marker_radius: float = Field(default=1.5, gt=0, le=16)
    # brightness before an image is scaled to its brightest point; the dots have 1
    contour_contrast: float = Field(default=1.5, gt=0, le=4)
    distractor_contrast: float = Field(default=2.0, gt=0, le=4)

    @model_validator(mode="after")
    def _curves_can_be_drawn(self) -> "PathfinderOptions":
        if 4 * self.seed_distance >= self.size:
            raise ValueError(
                f"seed_distance {self.seed_distance:g} leaves no place to begin in an image of {self.size} pixels; "
                "allowed is less than a quarter of the size"
            )
        if self.dash_length > 2 * self.clearance:
            raise ValueError(
                f"dash_length {self.dash_length:g} is more than twice what lies between dashes ({self.clearance:g}); "
                "allowed is at most 2 * (2 * margin + dash_thickness)"
            )
        return self

    @property
    def clearance(self) -> float:
        """Least distance between the middle lines of two dashes that do not follow each other."""
        return 2 * self.margin + self.dash_thickness

    @property
    def dashes(self) -> int:
        """The most dashes that an image has."""
        return 2 * self.contour_length + self.distractors * self.distractor_length


class TextsOptions(Strict):
    """Texts as bytes; the default is that of the published tasks."""

    # bytes after which a text is cut; null keeps all of it
    max_length: int | None = Field(default=4000, ge=1, le=65_536)


class PrepareOptions(PartOptions):
    """How the sequences come about. A section that is left out has the published settings of its task."""

    task: Task
    listops: ListOpsOptions | None = None
    pathfinder: PathfinderOptions | None = None
    texts: TextsOptions | None = None

    @model_validator(mode="after")
    def _the_sections_fit_the_task(self) -> "PrepareOptions":
        for section, tasks in SECTIONS.items():
            if getattr(self, section) is not None and self.task not in tasks:
                raise ValueError(f"section {section} belongs to {' and '.join(tasks)}, here the task is {self.task}")
        return self

    @model_validator(mode="after")
    def _generators_are_told_how_many(self) -> "PrepareOptions":
        if self.task in GENERATED and None in self.rows.model_dump().values():
            raise ValueError(f"task {self.task} needs rows.train, rows.validation and rows.test")
        return self

    @property
    def max_text_length(self) -> int | None:
        return (self.texts or TextsOptions()).max_length


class GateOptions(Strict):
    """What the gate asks beyond form. Shares are of all rows."""

    min_rows: int = Field(ge=1)
    # tokens of a row
    min_length: int = Field(default=1, ge=1)
    max_length: int = Field(ge=1)
    # largest difference between a class's share in a split and its share in the whole set
    max_share_drift: Fraction = 0.1
    max_duplicates_within: float = Field(default=0.0, ge=0, lt=1)
    max_duplicates_across: float = Field(default=0.0, ge=0, lt=1)
    # pairs whose two sequences are the same
    max_equal_pairs: float = Field(default=0.0, ge=0, lt=1)
    # so many rows, spread over the set, are worked out again by another way than the one that made them
    sample: int = Field(default=500, ge=1)
    drift: DriftOptions = DriftOptions()
