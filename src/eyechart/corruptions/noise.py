"""Noise: every value of the image changes by an independent random amount."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.devices import to_device
from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.declaration import Parameter, Values, corruption, per_image
from eyechart.corruptions.kernels.arithmetic import luma, to_levels, to_unit

SIGMA = Parameter(
    "sigma", 0, 1, "fraction of full scale", "standard deviation of the noise", clean=0
)


@corruption("gaussian_noise", "noise", SIGMA, random=True)
def gaussian_noise(images: Tensor, random: ImageRandom, *, sigma: Values) -> Tensor:
    """Add Gaussian noise to every value, independently in each channel."""
    noise = random.normal("noise", images.shape[1:])
    return noise.mul_(per_image(sigma, images)).add_(images)


@corruption(
    "shot_noise",
    "noise",
    Parameter(
        "photons",
        0.5,
        float("inf"),
        "photons at full scale",
        "mean photon count of a white pixel; fewer photons give more noise",
        clean=float("inf"),
        between="reciprocal",
    ),
    random=True,
    takes="either",
)
def shot_noise(images: Tensor, random: ImageRandom, *, photons: Values) -> Tensor:
    """Replace every value by a Poisson photon count, relative to the mean count of full white.

    Values are first rounded to the nearest of 256 gray levels.
    """
    # beyond 1e6 photons the noise is far below one gray level
    photons = photons.clip(max=1e6)
    # the Poisson tables grow with the number of photons; beyond 2,000 the normal limit is used
    is_poisson = photons <= 2000
    if not is_poisson.all():
        return _shot_noise_by_parts(images, random, photons, is_poisson)
    levels = images if images.dtype == torch.uint8 else to_levels(images).to(torch.uint8)
    counts = random.poisson("noise", levels, photons).to(torch.float32)
    return counts.div_(per_image(photons, images))


def _shot_noise_by_parts(
    images: Tensor, random: ImageRandom, photons: Values, is_poisson: NDArray[np.bool_]
) -> Tensor:
    """Return the noisy images; large photon counts use a normal approximation."""
    parts = []
    for index in range(len(photons)):
        one, image_random = images[index : index + 1], random.part(index, index + 1)
        one = to_unit(one) if one.dtype == torch.uint8 else one
        count = photons[index : index + 1]
        if is_poisson[index]:
            parts.append(shot_noise(one, image_random, photons=count))
        else:
            # a Poisson count has its mean as variance: relative to full white, image / photons
            spread = torch.sqrt(one / per_image(count, one))
            parts.append(image_random.normal("noise", one.shape[1:]).mul_(spread).add_(one))
    return torch.cat(parts)


AMOUNT = Parameter("amount", 0, 1, "fraction", "fraction of values that are replaced", clean=0)


@corruption("impulse_noise", "noise", AMOUNT, random=True, takes="either")
def impulse_noise(images: Tensor, random: ImageRandom, *, amount: Values) -> Tensor:
    """Replace a fraction of the values by black or white (half each), independently per channel."""
    chance = random.halves("noise", images[0].numel()).reshape(images.shape)
    return _black_and_white(images, chance, amount)


def _black_and_white(images: Tensor, chance: Tensor, amount: Values) -> Tensor:
    """Replace values whose 16-bit `chance` is below `amount`, half by white and half by black."""
    # compared as integers, which is exact on every device
    limits = np.round(amount * 65_536).astype(np.int64)
    white = 255 if images.dtype == torch.uint8 else 1
    if images.device.type == "cpu":
        out = torch.empty_like(images)
        # NumPy compares faster than torch, and multiplies truth values faster as bytes
        for source, target, u, limit in zip(
            images.numpy(), out.numpy(), chance.numpy(), limits.tolist(), strict=True
        ):
            np.multiply(source, (u >= limit).view(np.uint8), out=target)
            target += (u < limit // 2).view(np.uint8) * target.dtype.type(white)
        return out
    hit = to_device(torch.from_numpy(limits), images.device).reshape(-1, 1, 1, 1)
    kept = images * (chance >= hit).to(images.dtype)
    return kept.add_((chance < hit // 2).to(images.dtype).mul_(white))


@corruption("noc/salt_pepper_pixels", "noise", AMOUNT, random=True, takes="either")
def salt_pepper_pixels(images: Tensor, random: ImageRandom, *, amount: Values) -> Tensor:
    """Replace a fraction of the pixels by black or white (half each), in all channels together."""
    # the same chance for all channels of a pixel
    chance = random.halves("noise", images[0, 0].numel()).reshape(-1, 1, *images.shape[2:])
    return _black_and_white(images, chance, amount)


@corruption("speckle_noise", "noise", SIGMA, random=True)
def speckle_noise(images: Tensor, random: ImageRandom, *, sigma: Values) -> Tensor:
    """Add Gaussian noise that is proportional to the value."""
    noise = random.normal("noise", images.shape[1:])
    return noise.mul_(per_image(sigma, images)).mul_(images).add_(images)


@corruption(
    "vcr/uniform_noise",
    "noise",
    Parameter("width", 0, 1, "fraction of full scale", "noise is uniform on ±width", clean=0),
    random=True,
)
def uniform_noise(images: Tensor, random: ImageRandom, *, width: Values) -> Tensor:
    """Add uniform noise on ±width to every value, independently in each channel."""
    noise = random.uniform16("noise", images.shape[1:]).mul_(2).sub_(1)
    return noise.mul_(per_image(width, images)).add_(images)


@corruption(
    "vcr/grey_uniform_noise",
    "noise",
    Parameter("width", 0, 1, "fraction of full scale", "noise is uniform on ±width", clean=0),
    Parameter("contrast", 0, 1, "fraction", "remaining contrast about mid-gray", clean=1),
    Parameter("color", 0, 1, "fraction", "remaining color", clean=1),
    random=True,
)
def gray_uniform_noise(
    images: Tensor, random: ImageRandom, *, width: Values, contrast: Values, color: Values
) -> Tensor:
    """Reduce color and contrast, and add uniform noise on ±width, equal in all channels.

    With contrast 0.3 and no color, this is the uniform noise of Geirhos et al. (2018).
    """
    gray, share = luma(images), per_image(contrast, images)
    faded = (images - gray).mul_(per_image(color, images)).add_(gray)
    # one plane of noise for all channels
    noise = random.uniform16("noise", (1, *images.shape[2:])).mul_(2).sub_(1)
    faded.mul_(share).add_((1 - share) * 0.5)
    return faded.add_(noise.mul_(per_image(width, images)))


@corruption("noc/gaussian", "noise", SIGMA, random=True)
def noc_gaussian(images: Tensor, random: ImageRandom, *, sigma: Values) -> Tensor:
    """Add the absolute value of Gaussian noise: the image becomes grainy and lighter."""
    noise = random.normal("noise", images.shape[1:])
    return noise.abs_().mul_(per_image(sigma, images)).add_(images)
