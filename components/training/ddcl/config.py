"""What `model` may say in an experiment of method `ddcl-readout`."""

from typing import Literal

from pydantic import Field

from components.config import Strict


class ReadoutConfig(Strict):
    """Sizes, loss weight and temperature schedule of a prototype-readout classifier."""

    dim: int = Field(ge=2)
    hidden: int = Field(ge=1)
    num_prototypes: int = Field(ge=2)
    # weight of the quantisation loss L_q beside the cross-entropy; the paper does not give it
    loss_weight: float = Field(ge=0)
    # weight of reading the scaled features back from the codes, which ties them to the input; it does not keep
    # prototypes apart where loss_weight is large (docs/lab-log.md has the figures)
    anchor_weight: float = Field(default=0.0, ge=0)
    # exponential from start to end over all steps
    temperature_start: float = Field(gt=0)
    temperature_end: float = Field(gt=0)
    # where the prototypes start: spread over encoded training rows, on any of them, or anywhere
    initialisation: Literal["k-means++", "tokens", "normal"] = "k-means++"
    # standard deviation of the noise added to the first prototypes
    init_noise: float = Field(default=0.01, ge=0)
