"""The VQ autoencoder: shapes, what goes through the codebook, and that it learns real images, soft and hard."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from components.methods.baselines.hard_quantiser import HardVectorQuantizer
from components.methods.ddcl import SoftVectorQuantizer, codebook_usage, stable_temperature
from components.methods.ddcl.autoencoder import VQAutoencoder
from components.methods.interfaces.quantiser import VectorQuantizer

SAMPLE = Path(__file__).parents[3] / "data" / "samples" / "images" / "fashion-mnist-sample-t10k-images-idx3-ubyte.gz"
DIM, CODES = 6, 32


def quantiser(kind: str) -> VectorQuantizer:
    generator = torch.Generator().manual_seed(0)
    if kind == "soft":
        return SoftVectorQuantizer(DIM, CODES, generator=generator)
    return HardVectorQuantizer(DIM, CODES, update=kind, generator=generator)


def autoencoder(kind: str = "soft", channels: int = 1, downsamplings: int = 2) -> VQAutoencoder:
    torch.manual_seed(0)
    return VQAutoencoder(channels, quantiser(kind), width=8, dim=DIM, downsamplings=downsamplings)


@pytest.fixture(scope="module")
def images() -> Tensor:
    """The first 600 of the shipped pictures of clothes, from 0 to 1."""
    import gzip

    raw = gzip.decompress(SAMPLE.read_bytes())
    pixels = np.frombuffer(raw, dtype=np.uint8, offset=16).reshape(-1, 28, 28)
    return torch.tensor(pixels[:600]).unsqueeze(1) / 255


@pytest.mark.parametrize("kind", ["soft", "gradient", "ema"])
@pytest.mark.parametrize(
    ("channels", "sides", "downsamplings"), [(1, (28, 28), 2), (3, (32, 32), 2), (3, (8, 12), 1), (1, (16, 16), 4)]
)
def test_images_come_back_in_their_shape(kind: str, channels: int, sides: tuple[int, int], downsamplings: int) -> None:
    model = autoencoder(kind, channels, downsamplings)
    output = model(torch.rand(2, channels, *sides))
    assert output.images.shape == (2, channels, *sides)
    assert output.indices.shape == (2, *(side // 2**downsamplings for side in sides))
    assert 0 <= float(output.images.min()) <= float(output.images.max()) <= 1


def test_only_codes_reach_the_decoder(images: Tensor) -> None:
    """Where codewords are all there is, decoding their indices gives the same images."""
    model = autoencoder("gradient").eval()
    output = model(images[:4])
    torch.testing.assert_close(model.decode(output.indices), output.images, rtol=1e-5, atol=1e-6)
    soft = autoencoder("soft").eval()
    soft.quantiser.set_temperature(1e-6)
    output = soft(images[:4])
    torch.testing.assert_close(soft.decode(output.indices), output.images, rtol=1e-5, atol=1e-6)
    # one codeword for all leaves one image for all
    with torch.no_grad():
        soft.quantiser.prototypes.copy_(soft.quantiser.prototypes[:1].expand(CODES, -1))
    output = soft(images[:4])
    torch.testing.assert_close(output.images, output.images[:1].expand(4, -1, -1, -1))


def test_latents_are_in_the_order_of_their_places(images: Tensor) -> None:
    model = autoencoder()
    changed = images[:1].clone()
    changed[..., :4, 24:] = 1 - changed[..., :4, 24:]
    moved = (model.encode(changed) - model.encode(images[:1])).abs().amax(dim=-1).reshape(7, 7)
    # the corner moves most, and the far corner sees nothing of it
    assert int(moved.argmax()) in (5, 6, 12, 13)
    assert float(moved[-1, 0]) == 0


@pytest.mark.parametrize("shape", [(2, 3, 28, 28), (2, 1, 30, 28), (2, 1, 28, 27), (1, 28, 28)])
@pytest.mark.usefixtures("unchecked_shapes")
def test_images_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="height and width multiples of 4"):
        autoencoder()(torch.zeros(shape))


def test_sizes_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="width is 0"):
        VQAutoencoder(1, quantiser("soft"), width=0, dim=DIM)
    with pytest.raises(ValueError, match="dim is 5 and the quantiser is 6 wide"):
        VQAutoencoder(1, quantiser("soft"), width=4, dim=5)


def test_soft_and_hard_learn_real_images_and_the_soft_codebook_is_used_at_once(images: Tensor) -> None:
    """Ten short epochs from the same weights and codes; in the first epoch the soft use is at least the hard one."""
    mean = images.mean(dim=0)
    trivial = float((images - mean).square().mean())
    first_use, left = {}, {}
    for kind in ("soft", "gradient", "ema"):
        model = autoencoder(kind)
        with torch.no_grad():
            latents = model.encode(images[:100])
        scale = stable_temperature(latents)
        model.quantiser.initialise(latents, torch.Generator().manual_seed(0), method="tokens")
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for epoch in range(10):
            counts = torch.zeros(CODES, dtype=torch.int64)
            if isinstance(model.quantiser, SoftVectorQuantizer):
                model.quantiser.set_temperature(scale * 0.5)
            order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
            for rows in order.split(60):
                output = model(images[rows])
                counts += torch.bincount(output.indices.flatten(), minlength=CODES)
                loss = (output.images - images[rows]).square().mean() / trivial + 0.02 * output.quantised.loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if epoch == 0:
                first_use[kind] = codebook_usage(counts).utilisation
        with torch.no_grad():
            left[kind] = float((model.eval()(images).images - images).square().mean()) / trivial
    print("use in the first epoch", first_use, "share of the variance left", left)
    assert first_use["soft"] == 1 >= max(first_use.values())
    assert all(share < 0.6 for share in left.values())
