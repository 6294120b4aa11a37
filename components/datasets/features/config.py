"""What the configuration may say of a set of features."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from components.config import Name, Strict
from components.datasets.core.catalogue import Sha256


class EncoderConfig(Strict):
    """A frozen encoder: an entry of the catalogue, or one of the Hugging Face hub by name and revision.

    From the hub the revision is the 40 digits of a commit, so that the features stay what they are; `weights_sha256`
    checks model.safetensors besides. An entry is loaded from its files alone, without the network.
    """

    entry: Name | None = None
    huggingface: Annotated[str, Field(pattern=r"^[\w.-]+(/[\w.-]+)?$")] | None = None
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None
    weights_sha256: Sha256 | None = None
    # only the first so many layers are loaded
    layers: int | None = Field(default=None, ge=1)
    # which hidden state of these is taken: 0 the embeddings, -1 the last
    layer: int = -1

    @model_validator(mode="after")
    def _one_encoder(self) -> "EncoderConfig":
        if (self.entry is None) == (self.huggingface is None):
            raise ValueError("an encoder is either an `entry` of the catalogue or a `huggingface` name")
        if (self.huggingface is None) != (self.revision is None):
            raise ValueError("`huggingface` and `revision` belong together")
        if self.entry is not None and self.weights_sha256 is not None:
            raise ValueError("`weights_sha256` is for an encoder of the hub; an entry's digests are in the catalogue")
        return self


class FeatureOptions(Strict):
    """How features are computed. All but `accelerator` changes what comes out."""

    encoder: EncoderConfig
    # longer rows are cut there, special tokens included; how many were is in the summary
    max_tokens: int = Field(ge=2, le=8192)
    # rows that are encoded at once, and kept at once: what a kill can lose
    rows_at_once: int = Field(default=64, ge=1, le=4096)
    dtype: Literal["float16", "float32"] = "float16"
    threads: int = Field(default=2, ge=1, le=64)
    accelerator: Literal["auto", "cpu", "gpu"] = "auto"


class FeatureGateOptions(Strict):
    """What the gate of features asks beyond form."""

    # share of dimensions that hardly vary
    max_constant_dimensions: float = Field(default=0.0, ge=0, lt=1)
    # length of the longest vector, in lengths of the median one
    max_norm_ratio: float = Field(default=100.0, ge=1)
    # share of rows with the very features of a row of another text; two long texts may begin alike
    max_same: float = Field(default=0.01, ge=0, lt=1)
    # rows that are computed anew, one at a time, and how far they may differ: half precision keeps three digits
    recomputed_rows: int = Field(default=4, ge=1)
    tolerance: float = Field(default=2e-2, gt=0)


class FeaturesConfig(Strict):
    """Features of one prepared data set of kind text."""

    dataset: Name
    compute: FeatureOptions
    gate: FeatureGateOptions = FeatureGateOptions()
