"""What the configuration may say of a stream of tokens."""

from typing import Literal

from pydantic import Field, model_validator

from components.config import Fraction, Strict
from components.datasets.core.options import DriftOptions, RowLimits

# Tokens of each split, as published; null where nothing was.
Counts = RowLimits


class PrepareOptions(Strict):
    """How text becomes tokens, and how documents are split where the publisher made no train, validation and test.

    Then whole documents are dealt out in their order: the first to train, the last to test.
    """

    unit: Literal["word", "byte"] = "word"
    validation: Fraction = 0.1
    test: Fraction = 0.1
    # the most frequent words of train are kept, the others are <unk>; null keeps all
    max_vocabulary: int | None = Field(default=None, ge=2)
    # each split is cut after so many tokens; null takes all
    tokens: RowLimits = RowLimits()

    @model_validator(mode="after")
    def _text_is_left_to_train_on(self) -> "PrepareOptions":
        if self.validation + self.test >= 1:
            raise ValueError(f"validation {self.validation:g} and test {self.test:g} leave nothing to train on")
        return self


class GateOptions(Strict):
    """What the gate asks beyond form. Rows are tokens."""

    min_rows: int = Field(ge=1)
    # share of unknown tokens in any split
    max_unknown: float = Field(default=0.2, ge=0, lt=1)
    # share of the vocabulary that train does not use
    max_unused: float = Field(default=0.01, ge=0, lt=1)
    # share of the most frequent token in any split
    max_most_frequent: float = Field(default=0.2, gt=0, lt=1)
    # share of the long lines of validation and test that also stand in train
    max_lines_across: float = Field(default=0.01, ge=0, lt=1)
    # tokens with <eos>, as the publisher or the field counts them
    expected_tokens: Counts = Counts()
    # different tokens with <unk> and <eos>, as published; null where nothing was
    expected_vocabulary: int | None = Field(default=None, ge=3)
    drift: DriftOptions = DriftOptions()
