"""Frost textures: generated from published statistics, or read from a folder of images.

Each generated texture is a random field that has the same contrast in every octave of detail as one
of ImageNet-C's frost images, mapped to its gray-level percentiles and tinted with its colors. The
images themselves have no clear license and are not included.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.randomness import ImageRandom, hash64
from eyechart.images.image_files import find_image_files, read_image

WIDTHS = (0.0, 0.7, 1.4, 2.8, 5.6, 11.2, 22.4)
"""Standard deviations in px of the Gaussians that separate the octaves of detail."""
SLOW = 90.0
"""Standard deviation in px of the Gaussian for slow brightness changes across the texture."""
CALM, SPREAD, FALL = 6.0, 250.0, -1.6
"""Minimum and maximum size in px of patches with equal contrast, and their spectrum's exponent."""
PERCENTILES = (0.0, 1.0, 25.0, 50.0, 75.0, 99.0, 100.0)


@dataclass(frozen=True)
class FrostStatistics:
    """The statistics of one frost image, and the parameters of a texture that matches it.

    Attributes:
        size: height and width in px.
        mean: mean of red, green and blue in gray levels.
        deviation: standard deviation of red, green and blue in gray levels.
        gray: percentiles 1, 25, 50, 75 and 99 of the gray levels.
        octaves: strength of the detail between adjacent WIDTHS, from fine to coarse, relative to
            slow changes with strength 1.
        unevenness: standard deviation of the logarithm of the local contrast. `unevenness` and
            `octaves` were fitted together, so that the contrast of every octave, its unevenness and
            the visual change Δv of frosted images match the original.
    """

    size: tuple[int, int]
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    gray: tuple[float, float, float, float, float]
    octaves: tuple[float, ...]
    unevenness: float


FROST = (
    FrostStatistics(
        (600, 900), (78, 149, 166), (27, 17, 15), (95, 116, 128, 141, 177),
        (0.226, 0.68, 0.346, 0.19, 0.25, 0.4), 0.28,
    ),
    # two of the published images are identical, so this one is drawn twice as often
    *[
        FrostStatistics(
            (315, 560), (201, 205, 215), (21, 22, 23), (140, 193, 208, 220, 244),
            (0.264, 0.985, 0.694, 0.826, 0.485, 0.709), 0.29,
        )
    ] * 2,
    FrostStatistics(
        (350, 527), (138, 153, 165), (29, 29, 30), (81, 132, 150, 167, 231),
        (0.523, 1.9, 1.137, 1.048, 0.581, 0.831), 0.5,
    ),
    FrostStatistics(
        (495, 660), (112, 123, 135), (44, 43, 42), (43, 89, 117, 149, 237),
        (0.542, 0.78, 0.869, 0.832, 0.692, 1.091), 0.45,
    ),
)  # fmt: skip


def frost_textures(folder: str | None = None) -> tuple[Tensor, ...]:
    """Return the frost textures, uint8 (3, H, W): generated, or the images in `folder`."""
    return _made() if folder is None else _read(folder)


@lru_cache(maxsize=1)
def _made() -> tuple[Tensor, ...]:
    return tuple(make_frost(statistics, number) for number, statistics in enumerate(FROST))


@lru_cache(maxsize=4)
def _read(folder: str) -> tuple[Tensor, ...]:
    images = [read_image(file.path).convert("RGB") for file in find_image_files([Path(folder)])]
    return tuple(torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in images)


def make_frost(statistics: FrostStatistics, number: int) -> Tensor:
    """Return one texture, uint8 (3, H, W), which is the same on every machine."""
    field = _field(statistics, number)
    # histogram matching by rank: the field's values are mapped to the original's percentiles
    ranks = np.empty(field.size)
    # stable, so that equal values get the same ranks on every machine
    ranks[np.argsort(field, axis=None, kind="stable")] = (np.arange(field.size) + 0.5) / field.size
    gray = np.interp(ranks * 100, PERCENTILES, _ends(statistics.gray))
    shade = ((gray - gray.mean()) / gray.std()).reshape(statistics.size)
    colors = [
        np.clip(np.floor(mean + deviation * shade + 0.5), 0, 255)
        for mean, deviation in zip(statistics.mean, statistics.deviation, strict=True)
    ]
    return torch.from_numpy(np.stack(colors).astype(np.uint8))


def _field(statistics: FrostStatistics, number: int) -> NDArray[np.float64]:
    """Return a random field: slow changes plus detail whose strength varies locally.

    Real frost is not rough everywhere; there is smooth ice between crystals.
    """
    height, width = statistics.size
    random = ImageRandom(
        torch.tensor([number]), [hash64("frost texture", number)], torch.device("cpu")
    )
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width))

    def blur(sigma: float) -> NDArray[np.float64]:
        # the Fourier transform of a Gaussian; frequencies are in cycles per px
        return np.asarray(np.exp(-2 * (np.pi * sigma * frequency) ** 2))

    def shaped(stream: str, gain: NDArray[np.float64]) -> NDArray[np.float64]:
        white = random.normal(stream, (height, width))[0].numpy().astype(np.float64)
        field = np.fft.irfft2(np.fft.rfft2(white) * gain, s=(height, width))
        return np.asarray(field - field.mean())

    gain = np.zeros_like(frequency)
    # WIDTHS has one number more than there are octaves between them
    for strength, fine, coarse in zip(statistics.octaves, WIDTHS, WIDTHS[1:], strict=False):
        # white noise has less power in coarser octaves; `coarse` compensates for this
        gain += strength * coarse * (blur(fine) - blur(coarse))
    detail = shaped("detail", gain)
    slow = shaped("slow", blur(SLOW))
    patches = shaped("patches", np.maximum(frequency, 1 / SPREAD) ** FALL * blur(CALM))
    # log-normal local contrast
    uneven = np.exp(statistics.unevenness * patches / patches.std())
    return np.asarray(detail * uneven + slow / slow.std())


def _ends(gray: tuple[float, ...]) -> list[float]:
    """Return the five percentiles, preceded by a darkest and followed by a brightest value."""
    # the extremes were not measured; they are extrapolated from the nearest percentiles
    low = max(0.0, gray[0] - (gray[1] - gray[0]) / 2)
    high = min(255.0, gray[-1] + (gray[-1] - gray[-2]) / 4)
    return [low, *gray, high]
