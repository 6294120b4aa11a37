"""What `model` may say in an experiment of method `ddcl-readout`."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from components.config import Strict

Count = Annotated[int, Field(ge=2)]
Positive = Annotated[float, Field(gt=0)]
# readouts with prototypes, whose temperature, initialisation and health are followed
PROTOTYPE_READOUTS = ("ddcl", "hierarchy")


class ReadoutConfig(Strict):
    """Encoder, readout, loss weights and temperature schedule of a classifier that sees sequences by a readout."""

    # width of the rows; None: one per feature of the task, where the rows are those of a table
    num_features: int | None = Field(default=None, ge=1)
    # what the readout gets to see of a sequence: all tokens, or their mean or the first as one
    view: Literal["tokens", "mean", "first"] = "tokens"
    # frozen: the features as they are; else a network that learns, on the slow time scale
    encoder: Literal["frozen", "perceptron", "transformer"] = "perceptron"
    dim: Count
    hidden: int = Field(ge=1)
    # ddcl, hierarchy, or one of their rivals in `components.methods.baselines`
    readout: Literal["ddcl", "hierarchy", "mean", "cls", "attention", "slots", "perceiver", "hard-vq"] = "ddcl"
    # prototypes, queries, slots, latents or codes; of a hierarchy a list, one number a level, from the tokens upwards
    num_prototypes: Count | tuple[Count, ...]
    # without labels: the quantisation loss alone, and clusters named by the majority of their training rows
    supervised: bool = True
    # weight of the quantisation loss L_q beside the cross-entropy; the paper does not give it
    loss_weight: float = Field(ge=0)
    # of a hierarchy: the weight of each level's loss in the quantisation loss; all 1 where none is given
    level_weights: tuple[Annotated[float, Field(ge=0)], ...] | None = None
    # weight of reading the scaled features back from the codes, which ties them to the input; it does not keep
    # prototypes apart where loss_weight is large (docs/lab-log.md has the figures)
    anchor_weight: float = Field(default=0.0, ge=0)
    # the temperature over all steps, one of `components.methods.ddcl.SCHEDULES`, from start to end
    temperature_schedule: Literal["exponential", "linear", "cosine"] = "exponential"
    temperature_start: Positive
    temperature_end: Positive
    # variance: temperatures count in units of the largest variance of the encoded tokens as training starts, where
    # a collapsed bank is unstable below 4 (2 for detached assignments)
    temperature_unit: Literal["absolute", "variance"] = "absolute"
    # where the prototypes start: spread over encoded training rows, on any of them, or anywhere
    initialisation: Literal["k-means++", "tokens", "normal"] = "k-means++"
    # standard deviation of the noise added to the first prototypes
    init_noise: float = Field(default=0.01, ge=0)
    # once an epoch: curvature, trend of the separation and rates of the prototypes, and what they foretell
    monitor: bool = True

    @model_validator(mode="after")
    def _sizes_fit_the_readout(self) -> "ReadoutConfig":
        levels = isinstance(self.num_prototypes, tuple)
        if levels != (self.readout == "hierarchy"):
            raise ValueError(
                f"num_prototypes is {self.num_prototypes!r} and the readout {self.readout!r}; a hierarchy has a list "
                "of two or more numbers, any other readout one number"
            )
        if isinstance(self.num_prototypes, tuple) and len(self.num_prototypes) < 2:
            raise ValueError("a hierarchy has two levels or more; of one level it is the readout ddcl")
        weights = self.level_weights
        if weights is not None and (
            not isinstance(self.num_prototypes, tuple) or len(weights) != len(self.num_prototypes)
        ):
            raise ValueError("level_weights has one weight for each level of a hierarchy")
        return self

    @model_validator(mode="after")
    def _there_is_something_to_learn(self) -> "ReadoutConfig":
        if not self.supervised and self.readout not in PROTOTYPE_READOUTS:
            raise ValueError(f"readout {self.readout!r} learns from labels alone; unsupervised are: ddcl, hierarchy")
        if not self.supervised and self.loss_weight == 0:
            raise ValueError("without labels loss_weight must be above 0, or nothing is learnt")
        if self.anchor_weight and self.readout not in PROTOTYPE_READOUTS:
            raise ValueError(f"anchor_weight reads features back from codes, and readout {self.readout!r} has none")
        return self

    @property
    def prototype_counts(self) -> tuple[int, ...]:
        """Of each level, from the tokens upwards."""
        return self.num_prototypes if isinstance(self.num_prototypes, tuple) else (self.num_prototypes,)
