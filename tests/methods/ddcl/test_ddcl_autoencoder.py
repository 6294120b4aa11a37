"""The VQ autoencoder: shapes, what goes through the codebook, and that it learns real images, soft and hard."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from components.datasets.images.idx import read_array
from components.methods.baselines.hard_quantiser import HardVectorQuantizer
from components.methods.ddcl import SoftVectorQuantizer, codebook_usage, stable_temperature
from components.methods.ddcl.autoencoder import VQAutoencoder
from components.methods.interfaces.quantiser import VectorQuantizer

SAMPLE = Path(__file__).parents[3] / "data" / "samples" / "images" / "fashion-mnist-sample-t10k-images-idx3-ubyte.gz"
DIM, CODES = 6, 32
KINDS = ("soft", "gradient", "ema")


def quantiser(kind: str, seed: int = 0) -> VectorQuantizer:
    generator = torch.Generator().manual_seed(seed)
    if kind == "soft":
        return SoftVectorQuantizer(DIM, CODES, generator=generator)
    return HardVectorQuantizer(DIM, CODES, update=kind, generator=generator)


def autoencoder(kind: str = "soft", channels: int = 1, downsamplings: int = 2, seed: int = 0) -> VQAutoencoder:
    torch.manual_seed(seed)
    return VQAutoencoder(channels, quantiser(kind, seed), width=8, dim=DIM, downsamplings=downsamplings)


@pytest.fixture(scope="module")
def images() -> Tensor:
    """The first 300 of the shipped pictures of clothes, from 0 to 1."""
    return torch.tensor(read_array(SAMPLE, 3)[:300]).unsqueeze(1) / 255


class Training:
    """The same epochs for every quantiser: from the same weights, codes on the same latents, in the same order."""

    def __init__(self, kind: str, images: Tensor, seed: int = 0):
        self.model, self.images = autoencoder(kind, seed=seed), images
        self.trivial = float((images - images.mean(dim=0)).square().mean())
        with torch.no_grad():
            latents = self.model.encode(images[:100])
        codebook = self.model.quantiser
        codebook.initialise(latents, torch.Generator().manual_seed(seed), method="tokens")
        if isinstance(codebook, SoftVectorQuantizer):
            codebook.set_temperature(stable_temperature(latents) * 0.5)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=3e-3)

    def epoch(self, number: int) -> float:
        """The share of the codes that some latent of the epoch went to."""
        counts = torch.zeros(CODES, dtype=torch.int64)
        self.model.train()
        order = torch.randperm(len(self.images), generator=torch.Generator().manual_seed(number))
        for rows in order.split(30):
            output = self.model(self.images[rows])
            counts += torch.bincount(output.indices.flatten(), minlength=CODES)
            pixels = (output.images - self.images[rows]).square().mean()
            self.optimizer.zero_grad()
            (pixels / self.trivial + 0.02 * output.quantised.loss).backward()
            self.optimizer.step()
        return codebook_usage(counts).utilisation

    @torch.no_grad()
    def state(self) -> tuple[float, float]:
        """As the model now stands, of all images: share of the codes in use, and of the variance that is left."""
        output = self.model.eval()(self.images)
        counts = torch.bincount(output.indices.flatten(), minlength=CODES)
        left = (output.images - self.images).square().mean() / self.trivial
        return codebook_usage(counts).utilisation, float(left)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("channels", "sides", "downsamplings"), [(1, (28, 28), 2), (3, (32, 32), 2), (3, (8, 12), 1), (1, (16, 16), 4)]
)
def test_images_come_back_in_their_shape(kind: str, channels: int, sides: tuple[int, int], downsamplings: int) -> None:
    model = autoencoder(kind, channels, downsamplings)
    output = model(torch.rand(2, channels, *sides))
    assert output.images.shape == (2, channels, *sides)
    assert output.indices.shape == (2, *(side // 2**downsamplings for side in sides))
    assert 0 <= float(output.images.detach().min()) <= float(output.images.detach().max()) <= 1
    nothing = model(torch.zeros(0, channels, *sides))
    assert nothing.images.shape == (0, channels, *sides)
    assert float(nothing.quantised.loss.detach()) == 0


def test_only_codes_reach_the_decoder(images: Tensor) -> None:
    """Where codewords are all there is, decoding their indices gives the same images, place by place."""
    for kind in KINDS:
        model = Training(kind, images[:40]).model.eval()
        if isinstance(model.quantiser, SoftVectorQuantizer):
            model.quantiser.set_temperature(1e-12)
        output = model(images[:40])
        assert len(output.indices.unique()) > CODES // 2
        torch.testing.assert_close(model.decode(output.indices), output.images, rtol=1e-5, atol=1e-6)
        assert not torch.allclose(model.decode(output.indices.flip(1)), output.images, rtol=1e-3, atol=1e-4)
    soft = Training("soft", images[:40]).model.eval()
    # one codeword for all leaves one image for all
    with torch.no_grad():
        soft.quantiser.prototypes.copy_(soft.quantiser.prototypes[:1].expand(CODES, -1))
    output = soft(images[:4])
    torch.testing.assert_close(output.images, output.images[:1].expand(4, -1, -1, -1))


def test_latents_are_in_the_order_of_their_places(images: Tensor) -> None:
    model = autoencoder()
    changed = images[:1].clone()
    changed[..., :4, 24:] = 1 - changed[..., :4, 24:]
    moved = (model.encode(changed) - model.encode(images[:1])).detach().abs().amax(dim=-1).reshape(7, 7)
    # the corner moves most, and the far corner sees nothing of it
    assert int(moved.argmax()) in (5, 6, 12, 13)
    assert float(moved[-1, 0]) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_pixels_error_reaches_every_weight_and_the_codebook_where_it_is_soft(kind: str, images: Tensor) -> None:
    model = autoencoder(kind)
    output = model(images[:8])
    (output.images - images[:8]).square().mean().backward()
    for name, weight in model.named_parameters():
        if kind == "gradient" and name == "quantiser.words":
            # straight through: only the codebook's own loss moves the codewords
            assert weight.grad is None
        else:
            assert float(weight.grad.abs().sum()) > 0, name


@pytest.mark.parametrize("kind", KINDS)
def test_straight_through_the_encoder_gets_the_decoders_gradient(kind: str, images: Tensor) -> None:
    """For the hard ones it is, to the last bit, that of the codes; a soft codebook passes its own derivative on."""
    model = autoencoder(kind).eval()
    latents = model.encode(images[:2]).detach().requires_grad_()
    codes = model.quantiser(latents).codes
    error = (model.decode_codes(codes, (7, 7)) - images[:2]).square().mean()
    of_latents, of_codes = torch.autograd.grad(error, (latents, codes))
    assert torch.equal(of_latents, of_codes) == (kind != "soft")


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_model_to_the_last_bit(kind: str, images: Tensor) -> None:
    first, second = Training(kind, images[:120]), Training(kind, images[:120])
    for training in (first, second):
        training.epoch(0)
    for one, other in zip(first.model.state_dict().values(), second.model.state_dict().values(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("shape", [(2, 3, 28, 28), (2, 1, 30, 28), (2, 1, 28, 27), (1, 28, 28), (2, 1, 0, 28)])
@pytest.mark.usefixtures("unchecked_shapes")
def test_images_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="height and width multiples of 4"):
        autoencoder()(torch.zeros(shape))


@pytest.mark.usefixtures("unchecked_shapes")
def test_bytes_and_indices_without_a_codeword_are_refused() -> None:
    with pytest.raises(ValueError, match=r"images are torch\.uint8; they must be floating, from 0 to 1"):
        autoencoder()(torch.zeros(2, 1, 28, 28, dtype=torch.uint8))
    with pytest.raises(ValueError, match=f"indices range from 0 to {CODES}; allowed is 0 to {CODES - 1}"):
        autoencoder().decode(torch.tensor([[[0, CODES]]]))


def test_sizes_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="width is 0"):
        VQAutoencoder(1, quantiser("soft"), width=0, dim=DIM)
    with pytest.raises(ValueError, match="dim is 5 and the quantiser is 6 wide"):
        VQAutoencoder(1, quantiser("soft"), width=4, dim=5)


@pytest.mark.parametrize("kind", KINDS)
def test_real_images_are_learnt_better_than_by_their_mean(kind: str, images: Tensor) -> None:
    training = Training(kind, images)
    before = training.state()[1]
    for number in range(10):
        training.epoch(number)
    used, left = training.state()
    print(f"{kind}: share of the variance left {left:.3f}, before {before:.3f}; codes in use {used:.3f}")
    assert before > 1
    # 1 is the mean image
    assert left < 0.75


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_in_the_first_epoch_a_soft_codebook_is_used_more_widely(seed: int, images: Tensor) -> None:
    """What arXiv 2604.03850 reports. Codes put on latents all start in use, so what the epoch ends with tells more."""
    during, after = {}, {}
    for kind in KINDS:
        training = Training(kind, images, seed)
        during[kind] = training.epoch(0)
        after[kind] = training.state()[0]
    print(f"use in the first epoch {during}, at its end {after}")
    assert during["soft"] == 1 >= max(during.values())
    assert after["soft"] > max(after["gradient"], after["ema"])
