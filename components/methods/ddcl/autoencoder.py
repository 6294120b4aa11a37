"""A convolutional autoencoder whose latents go through a codebook, soft or hard."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from components.methods.interfaces.quantiser import QuantisedTokens, VectorQuantizer


class AutoencoderOutput(NamedTuple):
    """`images` (B, C, H, W) from 0 to 1; `indices` (B, H', W'), the nearest codeword of each place; `quantised`, all
    that the quantiser says of the latents as tokens (B, H' W', D).
    """

    images: Float[Tensor, "batch channels height width"]
    indices: Int[Tensor, "batch rows columns"]
    quantised: QuantisedTokens


class ResidualBlock(nn.Module):
    """x + conv1x1(relu(conv3x3(relu(x)))): the residual block of the VQ-VAE (arXiv 1711.00937, section 4.1)."""

    def __init__(self, width: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReLU(), nn.Conv2d(width, width, 3, padding=1, bias=False), nn.ReLU(), nn.Conv2d(width, width, 1)
        )

    def forward(self, values: Float[Tensor, "batch width rows columns"]) -> Float[Tensor, "batch width rows columns"]:
        answer: Tensor = values + self.layers(values)
        return answer


class VQAutoencoder(nn.Module):
    """Encode images to a grid of latents, put each through `quantiser`, and decode what comes back.

    images (B, C, H, W) from 0 to 1 -> AutoencoderOutput. Each of `downsamplings` strided convolutions halves height and
    width, two residual blocks follow, and a 1x1 convolution gives latents of width `dim`; the decoder mirrors that. Its
    last layer is a sigmoid: a clamp would pass no gradient to pixels that are out of range. The paper says nothing of
    encoder and decoder; these are the VQ-VAE's, narrower.

    Raises ValueError for sizes below 1, a quantiser of another width, and images of other channels or of a height or
    width that `downsamplings` halvings do not divide.
    """

    def __init__(self, channels: int, quantiser: VectorQuantizer, *, width: int, dim: int, downsamplings: int = 2):
        super().__init__()
        for name, count in (("channels", channels), ("width", width), ("dim", dim), ("downsamplings", downsamplings)):
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} is {count!r}; it must be an integer of at least 1")
        if quantiser.dim != dim:
            raise ValueError(f"dim is {dim} and the quantiser is {quantiser.dim} wide; both must agree")
        self.channels, self.downsamplings = channels, downsamplings
        down: list[nn.Module] = []
        up: list[nn.Module] = []
        for level in range(downsamplings):
            down += [nn.Conv2d(channels if level == 0 else width, width, 4, stride=2, padding=1), nn.ReLU()]
            last = level == downsamplings - 1
            up += [nn.ReLU(), nn.ConvTranspose2d(width, channels if last else width, 4, stride=2, padding=1)]
        self.encoder = nn.Sequential(*down, ResidualBlock(width), ResidualBlock(width), nn.Conv2d(width, dim, 1))
        self.quantiser = quantiser
        self.decoder = nn.Sequential(
            nn.Conv2d(dim, width, 3, padding=1), ResidualBlock(width), ResidualBlock(width), *up, nn.Sigmoid()
        )

    def encode(self, images: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch places dim"]:
        """The latents of every place, row by row, before they are quantised."""
        factor = 2**self.downsamplings
        if images.ndim != 4 or images.shape[1] != self.channels or images.shape[2] % factor or images.shape[3] % factor:
            raise ValueError(
                f"images have shape {tuple(images.shape)}; this autoencoder reads (batch, {self.channels}, height, "
                f"width) with height and width multiples of {factor}: pad or crop them, or use fewer downsamplings"
            )
        latents: Tensor = self.encoder(images)
        return latents.flatten(2).mT

    def decode(self, indices: Int[Tensor, "batch rows columns"]) -> Float[Tensor, "batch channels height width"]:
        """Images from codewords alone. Raises ValueError for an index that has none."""
        return self.decode_codes(self.quantiser.lookup(indices.flatten(1)), indices.shape[1:])

    def decode_codes(
        self, codes: Float[Tensor, "batch places dim"], grid: tuple[int, int] | torch.Size
    ) -> Float[Tensor, "batch channels height width"]:
        """Images from codes (B, H' W', D) on a `grid` of (H', W') places."""
        decoded: Tensor = self.decoder(codes.mT.reshape(*codes.mT.shape[:2], *grid))
        return decoded

    def forward(self, images: Float[Tensor, "batch channels height width"]) -> AutoencoderOutput:
        grid = tuple(size // 2**self.downsamplings for size in images.shape[2:])
        quantised = self.quantiser(self.encode(images))
        rebuilt = self.decode_codes(quantised.codes, (grid[0], grid[1]))
        return AutoencoderOutput(rebuilt, quantised.indices.reshape(-1, *grid), quantised)
