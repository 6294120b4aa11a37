"""A convolutional autoencoder whose latents go through a codebook, soft or hard."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from components.methods.ddcl.numerics import checked_count
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
    last layer is a sigmoid: a clamp would pass no gradient to pixels that are out of range.

    arXiv 2604.03850 says nothing of encoder and decoder. These are the VQ-VAE's (arXiv 1711.00937, section 4.1), where
    `width` is 256 and `downsamplings` 2; the convolutions beside the codebook, 1x1 before and 3x3 after it, are ours.

    Raises ValueError for sizes below 1, a quantiser of another width, and images that are not floating, have other
    channels, or a height or width of 0 or one that `downsamplings` halvings do not divide.
    """

    def __init__(self, channels: int, quantiser: VectorQuantizer, *, width: int, dim: int, downsamplings: int = 2):
        super().__init__()
        for name, count in (("channels", channels), ("width", width), ("dim", dim), ("downsamplings", downsamplings)):
            checked_count(name, count)
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
        """The latents of every place, row by row, before they are quantised. Raises as the class says."""
        factor = 2**self.downsamplings
        if images.ndim != 4 or images.shape[1] != self.channels or any(n == 0 or n % factor for n in images.shape[2:]):
            raise ValueError(
                f"images have shape {tuple(images.shape)}; this autoencoder reads (batch, {self.channels}, height, "
                f"width) with height and width multiples of {factor}: pad or crop them, or use fewer downsamplings"
            )
        if not images.is_floating_point():
            raise ValueError(
                f"images are {images.dtype}; they must be floating, from 0 to 1: bytes become images / 255"
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
        """Images there and back; see the class."""
        grid = tuple(size // 2**self.downsamplings for size in images.shape[2:])
        quantised = self.quantiser(self.encode(images))
        rebuilt = self.decode_codes(quantised.codes, (grid[0], grid[1]))
        return AutoencoderOutput(rebuilt, quantised.indices.reshape(-1, *grid), quantised)
