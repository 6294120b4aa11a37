"""What the configuration may say of a set of texts."""

from typing import Literal

from pydantic import Field

from components.config import Fraction, Strict
from components.datasets.core.options import DriftOptions, PartOptions
from components.datasets.text.messages import Removable


class PrepareOptions(PartOptions):
    """How rows are split, and what is taken off. Case, accents and Unicode forms stay as they are."""

    # whether results are reported on the publisher's development rows, as is usual for GLUE, whose test labels are
    # withheld; the rows to choose a model by are then held out from train
    validation_as_test: bool = False
    # of Usenet messages
    remove: tuple[Removable, ...] = ()
    # rows of one message, or of one thread, stay in one split; it means something where the reader tells of them
    group_by: Literal["message", "thread"] = "message"
    # longer texts are cut there; how many were is in the summary
    max_characters: int | None = Field(default=None, ge=1)


class GateOptions(Strict):
    """What the gate asks beyond form. Shares are of all rows."""

    min_rows: int = Field(ge=1)
    max_share_drift: Fraction = 0.1
    max_duplicates_within: float = Field(default=0.0, ge=0, lt=1)
    max_duplicates_across: float = Field(default=0.0, ge=0, lt=1)
    # rows whose group, if they have one, is also in another split
    max_groups_across: float = Field(default=0.0, ge=0, lt=1)
    # rows with a replacement character or a control character of latin-1, signs of a wrong decoding
    max_undecoded: float = Field(default=0.001, ge=0, lt=1)
    # pairs whose two texts are the same
    max_equal_pairs: float = Field(default=0.01, ge=0, lt=1)
    # no text may be longer
    max_characters: int = Field(default=200_000, ge=1)
    drift: DriftOptions = DriftOptions()
