"""What the configuration may say of an orbital data set."""

from pydantic import Field, model_validator

from components.config import Fraction, Seed, Strict
from components.datasets.core.options import DriftOptions


class PrepareOptions(Strict):
    """How much of an entry is taken and how it is split. `max_rows` null takes all of it.

    Whole launches are kept together, so the fractions of rows in each split are met approximately.
    """

    seed: Seed
    max_rows: int | None = Field(default=None, ge=1)
    validation: Fraction = 0.2
    test: Fraction = 0.2

    @model_validator(mode="after")
    def _rows_are_left_to_train_on(self) -> "PrepareOptions":
        if self.validation + self.test >= 1:
            raise ValueError(f"validation {self.validation:g} and test {self.test:g} leave no rows to train on")
        return self


class GateOptions(Strict):
    """What the data gate asks beyond form: enough rows, every class in every split, similar proportions."""

    min_rows: int = Field(ge=1)
    min_rows_per_class: int = Field(ge=1)
    required_regimes: tuple[str, ...]
    required_kinds: tuple[str, ...]
    # largest difference of a class's share between one split and the whole table
    max_share_drift: Fraction = 0.15
    drift: DriftOptions = DriftOptions()
