"""DDCL-Attention: K shared prototypes read a bag of tokens at a cost linear in its length."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from components.methods.ddcl.fused import Setting, quantise
from components.methods.ddcl.initialisation import INITIALISATIONS
from components.methods.ddcl.numerics import (
    Number,
    check_bag,
    checked_count,
    checked_precision,
    checked_temperature,
    every_token,
    island_dtype,
    outside_autocast,
    result_dtype,
)


class DDCLOutput(NamedTuple):
    """What the layer returns. The three scalars are means over valid tokens, and loss == reconstruction + diversity.

    Each of the three is calculated by itself, so the identity is a check of the arithmetic and not a definition.
    """

    codes: Float[Tensor, "batch tokens dim"]
    """mu_n = sum_k q_nk p_k, one per token; 0 for a masked token."""
    assignments: Float[Tensor, "batch tokens prototypes"]
    """q_nk, at least 0 and summing to 1 over the prototypes; all 0 for a masked token."""
    loss: Float[Tensor, ""]
    """L_q = mean_n sum_k q_nk ||z_n - p_k||^2, in squared units of the tokens."""
    reconstruction: Float[Tensor, ""]
    """L_OLS = mean_n ||z_n - mu_n||^2."""
    diversity: Float[Tensor, ""]
    """V = mean_n sum_k q_nk ||p_k - mu_n||^2 = mean_n 1/2 sum_ij q_ni q_nj ||p_i - p_j||^2 >= 0."""


class DDCLAttention(nn.Module):
    """Prototype readout with soft competition (Cirrincione and Kumar, arXiv 2604.03850; equations in reference.py).

    `(tokens (B, T, D), mask (B, T) of bool or None) -> DDCLOutput`; the mask is True where a token is valid.
    Differentiable twice in tokens and prototypes, with the gradient flowing through the assignments.

    - The cost is O(B T K D) multiply-adds, and no (T, K, D) tensor is formed in either direction.
    - Half-precision tokens, and any tokens under autocast, are read in float32 or wider; outputs are float32, or
      float64 when tokens or prototypes are. `precision="double"` (the default) calculates inside in float64,
      `precision="single"` in float32: see numerics.py for what that costs in accuracy.
    - No valid token at all, be it by the mask or by an empty tensor: the three scalars are 0 and so are the gradients.
    - A valid token or a prototype that is not finite is *not* looked for in a step, since that would wait for the
      device: the three scalars come out NaN, which a training loop must refuse before it steps. `check_finite` says
      where it is. A non-finite token touches its own code only; a masked one touches nothing.
    - Several processes: the means are over the tokens of this process, and there is no collective in here.

    Mapping to the paper: `prototypes` is P transposed, (K, D); `temperature` is its T (tau here), and q is proportional
    to exp(-D/tau). The paper leaves the initialisation open: N(0, 1) is the default here, and `initialise` takes the
    prototypes from data.

    Parameters
    ----------
    dim: width D of a token. num_prototypes: K. temperature: initial tau, kept as a float64 buffer that goes with the
    state; change it by `set_temperature`. precision: see above. generator: source of the initial prototypes, the global
    one if None.

    Raises ValueError for a size below 1, a temperature that is not positive and finite, an unknown precision.
    """

    prototypes: nn.Parameter
    temperature: Tensor

    def __init__(
        self,
        dim: int,
        num_prototypes: int,
        temperature: Number = 1.0,
        *,
        precision: str = "double",
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.dim = checked_count("dim", dim)
        self.num_prototypes = checked_count("num_prototypes", num_prototypes)
        self.precision = checked_precision(precision)
        self.prototypes = nn.Parameter(torch.empty(num_prototypes, dim, device=device, dtype=dtype))
        with torch.no_grad():
            self.prototypes.normal_(generator=generator)
        # float64 whatever the weights are: a schedule resumed from a checkpoint then gives the same numbers.
        initial = torch.tensor(checked_temperature(temperature), dtype=torch.float64, device=device)
        self.register_buffer("temperature", initial)

    def set_temperature(self, value: Number) -> None:
        """Take `value` as the temperature from now on. Raises ValueError unless it is positive and finite."""
        self.temperature.fill_(checked_temperature(value))

    def forward(
        self, tokens: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> DDCLOutput:
        """Read `tokens`; see the class.

        Raises ValueError for another rank, width or type of tokens or mask.
        """
        self.check_shapes(tokens, mask)
        setting = Setting(
            wide=island_dtype(self.precision, tokens, self.prototypes), answer=result_dtype(tokens, self.prototypes)
        )
        with outside_autocast(tokens.device):
            found = quantise(
                tokens.flatten(0, 1),
                self.prototypes,
                None if mask is None else mask.flatten(),
                self.temperature,
                setting,
            )
        return DDCLOutput(
            codes=found.codes.reshape(tokens.shape),
            assignments=found.assignments.reshape(*tokens.shape[:2], self.num_prototypes),
            loss=found.loss,
            reconstruction=found.reconstruction,
            diversity=found.diversity,
        )

    def check_shapes(self, tokens: Tensor, mask: Tensor | None = None) -> None:
        """Raise ValueError unless `tokens` is floating and (B, T, D), and `mask`, if given, bool and (B, T)."""
        if tokens.ndim != 3 or tokens.shape[-1] != self.dim:
            raise ValueError(
                f"tokens have shape {tuple(tokens.shape)}; this layer reads (batch, tokens, {self.dim}): "
                "give one token per object as tokens[:, None, :]"
            )
        check_bag(tokens, mask)

    @torch.no_grad()
    def check_finite(
        self, tokens: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> None:
        """Raise ValueError, which says how many and where, when a valid token or a prototype is not finite.

        It waits for the device: call it on data once, or when a loss came out NaN, and not in each step.
        """
        self.check_shapes(tokens, mask)
        broken_prototypes = (~torch.isfinite(self.prototypes).all(dim=-1)).nonzero().flatten().tolist()
        if broken_prototypes:
            raise ValueError(
                f"{len(broken_prototypes)} of {self.num_prototypes} prototypes are not finite (first: "
                f"{broken_prototypes[0]}); load an earlier checkpoint, or call initialise with finite tokens"
            )
        valid = every_token(tokens) if mask is None else mask
        broken = (~torch.isfinite(tokens).all(dim=-1) & valid).nonzero().tolist()
        if broken:
            raise ValueError(
                f"{len(broken)} of {int(valid.sum())} valid tokens are not finite (first: batch {broken[0][0]}, "
                f"token {broken[0][1]}); mend them at their source, or mark them invalid in the mask"
            )

    @torch.no_grad()
    def initialise(
        self,
        tokens: Float[Tensor, "*batch dim"],
        generator: torch.Generator,
        mask: Bool[Tensor, "*batch"] | None = None,
        noise_std: Number = 0.0,
        method: str = "k-means++",
    ) -> None:
        """Place the prototypes by one of `INITIALISATIONS`; see `kmeans_plus_plus` for arguments and errors."""
        if method not in INITIALISATIONS:
            raise ValueError(f"method is {method!r}; choose one of {', '.join(sorted(INITIALISATIONS))}")
        self.prototypes.copy_(INITIALISATIONS[method](tokens, self.num_prototypes, generator, mask, noise_std))

    def extra_repr(self) -> str:
        return f"dim={self.dim}, num_prototypes={self.num_prototypes}, precision={self.precision!r}"
