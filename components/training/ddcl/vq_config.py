"""What `model` may say in an experiment of method `ddcl-vq`."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from components.config import Strict

Positive = Annotated[float, Field(gt=0)]


class VQConfig(Strict):
    """A convolutional autoencoder whose latents go through a codebook, soft or hard."""

    # of the images: 1 grey, 3 colours
    channels: Literal[1, 3]
    # width of the convolutions, and of a latent
    width: int = Field(ge=1)
    dim: int = Field(ge=1)
    # each halves height and width
    downsamplings: int = Field(default=2, ge=1, le=5)
    num_codes: int = Field(ge=2)
    # soft: DDCL-Attention; hard: nearest code with the straight-through estimator, its codebook learnt by gradient;
    # hard-ema: the codebook follows a moving average of what falls to it
    quantiser: Literal["soft", "hard", "hard-ema"] = "soft"
    # weight of the quantiser's own loss beside the pixels' squared error
    loss_weight: float = Field(default=1.0, ge=0)
    # soft only: the temperature over all steps, in units of the largest variance of the latents as training starts,
    # or in squared units of the latents
    temperature_schedule: Literal["exponential", "linear", "cosine"] = "exponential"
    temperature_start: Positive = 0.5
    temperature_end: Positive = 0.5
    temperature_unit: Literal["absolute", "variance"] = "variance"
    # hard only
    commitment: float = Field(default=0.25, ge=0)
    decay: float = Field(default=0.99, gt=0, lt=1)
    # hard only: a code that wins less than this share of an even one's tokens is put on a token; None: never
    revive_below: float | None = Field(default=None, gt=0, lt=1)
    # where the codes start: spread over latents of training images, on any of them, or anywhere
    initialisation: Literal["k-means++", "tokens", "normal"] = "tokens"
    init_noise: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _nothing_is_set_in_vain(self) -> "VQConfig":
        hard = ("commitment", "decay", "revive_below")
        soft = ("temperature_schedule", "temperature_start", "temperature_end", "temperature_unit")
        for name in hard if self.quantiser == "soft" else soft:
            if name in self.model_fields_set and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} is set, and a {self.quantiser} quantiser does not read it; leave it out")
        return self
