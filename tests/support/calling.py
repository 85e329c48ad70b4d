"""What the tests of single corruptions share: photographs at any size, and direct calls."""

from functools import cache

import numpy as np
import torch
from PIL import Image
from skimage import data
from torch import Tensor

from eyechart.core.randomness import ImageRandom, hash64
from eyechart.corruptions.library import CORRUPTIONS

CPU = torch.device("cpu")
PHOTOS = ("astronaut", "chelsea", "coffee", "rocket")


@cache
def _photos(height: int, width: int) -> Tensor:
    images = [
        Image.fromarray(getattr(data, name)()).resize((width, height), Image.Resampling.BILINEAR)
        for name in PHOTOS
    ]
    levels = np.stack([np.asarray(image) for image in images])
    return torch.from_numpy(levels).permute(0, 3, 1, 2).contiguous()


def photo_levels(height: int = 64, width: int = 64, batch: int = 2, channels: int = 3) -> Tensor:
    """Return photographs as uint8 (B, C, H, W), a fresh copy; gray ones are the green channel."""
    levels = _photos(height, width)[:batch]
    return (levels if channels == 3 else levels[:, 1:2]).clone()


def photo(height: int = 64, width: int = 64, batch: int = 2, channels: int = 3) -> Tensor:
    """Return photographs as float32 in 0…1."""
    return photo_levels(height, width, batch, channels).to(torch.float32) / 255


def randomness(batch: int, seed: int = 0) -> ImageRandom:
    return ImageRandom(torch.arange(7, 7 + batch), [hash64(seed)] * batch, CPU)


def values(batch: int, **given: float | list[float]) -> dict[str, np.ndarray]:
    """Return each parameter with one float64 per image."""
    return {
        name: np.broadcast_to(np.asarray(value, dtype=np.float64), (batch,)).copy()
        for name, value in given.items()
    }


def apply(name: str, images: Tensor, *, seed: int = 0, **given: float | list[float]) -> Tensor:
    """Call a corruption function itself: nothing is clipped, stored in 8 bits or drawn."""
    batch = len(images)
    return CORRUPTIONS[name](images, randomness(batch, seed), values(batch, **given), {})
