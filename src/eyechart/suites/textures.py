"""Frost textures: made from published statistics, or read from a folder of photographs.

Each made texture is a Gaussian random field with the power spectrum measured on one of ImageNet-C's
frost photographs, bent to its grey-level percentiles and tinted with its colours.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.randomness import ImageRandom, hash64
from eyechart.images.files import find_pictures, read_picture

SPLIT = 0.06
"""Cycles per pixel at which the slope of the power spectrum changes."""
PATCH, SLOW = 60.0, 300.0
"""Sizes in pixels of the patches of equal roughness, and of the slow changes of brightness."""
ROUGHNESS = 1.35
"""Standard deviation of the logarithm of the local contrast."""
PERCENTILES = (0.0, 1.0, 25.0, 50.0, 75.0, 99.0, 100.0)


@dataclass(frozen=True)
class FrostStatistics:
    """What was measured on one frost photograph.

    Grey levels; percentiles 1, 25, 50, 75, 99; slopes of the power spectrum below and above SPLIT.
    `flat_below` (cycles per pixel) and `slow_share` (of the variance) fit its correlation length
    and how much its brightness differs from place to place.
    """

    size: tuple[int, int]
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    grey: tuple[float, float, float, float, float]
    slopes: tuple[float, float]
    flat_below: float
    slow_share: float


FROST = (
    FrostStatistics(
        (600, 900), (78, 149, 166), (27, 17, 15), (95, 116, 128, 141, 177), (-2.7, -1.2),
        0.012, 0.05,
    ),
    # two of the published photographs are the same, so this one is drawn twice as often
    *[
        FrostStatistics(
            (315, 560), (201, 205, 215), (21, 22, 23), (140, 193, 208, 220, 244), (-1.4, -2.2),
            0.005, 0.05,
        )
    ] * 2,
    FrostStatistics(
        (350, 527), (138, 153, 165), (29, 29, 30), (81, 132, 150, 167, 231), (-1.05, -1.6),
        0.005, 0.05,
    ),
    FrostStatistics(
        (495, 660), (112, 123, 135), (44, 43, 42), (43, 89, 117, 149, 237), (-1.4, -1.9), 0.005, 0.2
    ),
)  # fmt: skip


def frost_textures(folder: str | None = None) -> tuple[Tensor, ...]:
    """Return the frost textures as uint8 tensors (3, H, W): made, or the pictures of `folder`."""
    return _made() if folder is None else _read(folder)


@lru_cache(maxsize=1)
def _made() -> tuple[Tensor, ...]:
    return tuple(make_frost(statistics, number) for number, statistics in enumerate(FROST))


@lru_cache(maxsize=4)
def _read(folder: str) -> tuple[Tensor, ...]:
    pictures = [read_picture(each.path).convert("RGB") for each in find_pictures([Path(folder)])]
    return tuple(torch.from_numpy(np.array(each)).permute(2, 0, 1) for each in pictures)


def make_frost(statistics: FrostStatistics, number: int) -> Tensor:
    """Return one texture, uint8 (3, H, W), the same on every machine."""
    field = _field(statistics, number)
    ranks = np.empty(field.size)
    ranks[np.argsort(field, axis=None, kind="stable")] = (np.arange(field.size) + 0.5) / field.size
    grey = np.interp(ranks * 100, PERCENTILES, _ends(statistics.grey))
    shade = ((grey - grey.mean()) / grey.std()).reshape(statistics.size)
    colours = [
        np.clip(np.floor(mean + deviation * shade + 0.5), 0, 255)
        for mean, deviation in zip(statistics.mean, statistics.deviation, strict=True)
    ]
    return torch.from_numpy(np.stack(colours).astype(np.uint8))


def _field(statistics: FrostStatistics, number: int) -> NDArray[np.float64]:
    """A random field with a power spectrum of two slopes, rough in some places, calm in others.

    Photographs of frost are not rough everywhere: crystals lie between smooth ice. A slowly
    varying factor on the detail gives that, and with it the photographs' mean gradient.
    """
    height, width = statistics.size
    random = ImageRandom(
        torch.tensor([number]), [hash64("frost texture", number)], torch.device("cpu")
    )
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width))

    def shaped(stream: str, gain: NDArray[np.float64]) -> NDArray[np.float64]:
        white = random.normal(stream, (height, width))[0].numpy().astype(np.float64)
        field = np.fft.irfft2(np.fft.rfft2(white) * gain, s=(height, width))
        return np.asarray((field - field.mean()) / field.std())

    bounded = np.maximum(frequency, statistics.flat_below)
    slope = np.where(frequency < SPLIT, *statistics.slopes)
    detail = shaped("detail", (bounded / SPLIT) ** (slope / 2))
    patches = shaped("patches", np.exp(-((frequency * PATCH) ** 2)))
    slow = shaped("slow", np.exp(-((frequency * SLOW) ** 2)))
    rough = detail * np.exp(ROUGHNESS * patches)
    share = statistics.slow_share
    return np.asarray(np.sqrt(1 - share) * rough / rough.std() + np.sqrt(share) * slow)


def _ends(grey: tuple[float, ...]) -> list[float]:
    """The five percentiles with a darkest and a brightest value beyond them."""
    low = max(0.0, grey[0] - (grey[1] - grey[0]) / 2)
    high = min(255.0, grey[-1] + (grey[-1] - grey[-2]) / 4)
    return [low, *grey, high]
