"""Sections of the configuration that every kind of data shares."""

from typing import Literal

from pydantic import Field, model_validator

from components.config import Fraction, Seed, Strict


class DriftOptions(Strict):
    """How far the prepared data may be from the last accepted version of it."""

    # population stability index of any one feature: 0.1 is called a small shift in the field, 0.25 a large one
    max_index: float = Field(default=0.2, gt=0)
    # whether a set of which no version was accepted yet is refused
    require_reference: bool = True


class RowLimits(Strict):
    """The most rows of each split; null takes all."""

    train: int | None = Field(default=None, ge=1)
    validation: int | None = Field(default=None, ge=1)
    test: int | None = Field(default=None, ge=1)


class PartOptions(Strict):
    """How rows come into train, validation and test.

    A split that the publisher made is kept; one that they did not make is held out from train, whole groups of equal or
    related rows together, each class with its share.
    """

    seed: Seed
    validation: Fraction = 0.1
    test: Fraction = 0.1
    rows: RowLimits = RowLimits()
    # within: later copies in one split; across: rows that also stand in a later split are taken out of the earlier one.
    # Copies are counted in the summary whether they are dropped or not.
    drop_duplicates: tuple[Literal["within", "across"], ...] = ()

    @model_validator(mode="after")
    def _rows_are_left_to_train_on(self) -> "PartOptions":
        if self.validation + self.test >= 1:
            raise ValueError(f"validation {self.validation:g} and test {self.test:g} leave no rows to train on")
        return self
