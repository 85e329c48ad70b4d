"""Mirrored and shifted pictures, and random numbers that depend on the step alone."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from eyechart.core.randomness import hash64


def generator(*parts: str | int) -> torch.Generator:
    """Return a generator on the CPU whose numbers depend on `parts` alone."""
    return torch.Generator().manual_seed(hash64("training", *parts) >> 1)


def mirror(pictures: Tensor, is_mirrored: Tensor) -> Tensor:
    """Return the pictures, those in `is_mirrored` (bool, one each) mirrored left to right."""
    return torch.where(is_mirrored.reshape(-1, 1, 1, 1), pictures.flip(3), pictures)


def shift(pictures: Tensor, offsets: Tensor, frame: int) -> Tensor:
    """Return pictures cut out of themselves within a black frame.

    `offsets`: (B, 2), down and across, 0 … 2 · frame; `frame` itself leaves a picture in place.
    """
    if frame == 0:
        return pictures
    count, channels, height, width = pictures.shape
    wide = pad(pictures, (frame, frame, frame, frame))
    device = pictures.device
    rows = offsets[:, 0, None] + torch.arange(height, device=device)
    columns = offsets[:, 1, None] + torch.arange(width, device=device)
    return wide[
        torch.arange(count, device=device)[:, None, None, None],
        torch.arange(channels, device=device)[None, :, None, None],
        rows[:, None, :, None],
        columns[:, None, None, :],
    ]


def mixing_weights(strength: float, count: int, *parts: str | int) -> Tensor:
    """Return the shares of the first images in mixup, (count,) of Beta(strength, strength)."""
    drawn = np.random.default_rng(hash64("mixup", *parts)).beta(strength, strength, count)
    return torch.from_numpy(drawn.astype(np.float32))
