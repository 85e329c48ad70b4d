"""Mirror and shift training images; random numbers depend only on the training step."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from eyechart.core.randomness import hash64


def generator(*parts: str | int) -> torch.Generator:
    """Return a random number generator on the CPU, seeded from `parts` alone."""
    return torch.Generator().manual_seed(hash64("training", *parts) >> 1)


def mirror(images: Tensor, is_mirrored: Tensor) -> Tensor:
    """Return the images, flipped left to right where `is_mirrored` (bool, one per image) is set."""
    return torch.where(is_mirrored.reshape(-1, 1, 1, 1), images.flip(3), images)


def shift(images: Tensor, offsets: Tensor, frame: int) -> Tensor:
    """Return crops of images that are padded with a black frame.

    `offsets`: (B, 2), vertical and horizontal, in 0 … 2 · frame; an offset of `frame` keeps the
    position.
    """
    if frame == 0:
        return images
    count, channels, height, width = images.shape
    wide = pad(images, (frame, frame, frame, frame))
    device = images.device
    rows = offsets[:, 0, None] + torch.arange(height, device=device)
    columns = offsets[:, 1, None] + torch.arange(width, device=device)
    # Indices that broadcast to (B, C, H, W), so that every image has its own offset.
    return wide[
        torch.arange(count, device=device)[:, None, None, None],
        torch.arange(channels, device=device)[None, :, None, None],
        rows[:, None, :, None],
        columns[:, None, None, :],
    ]


def mixing_weights(strength: float, count: int, *parts: str | int) -> Tensor:
    """Return mixup weights of the first images of `count` pairs, from Beta(strength, strength)."""
    # torch has no Beta distribution that takes a generator.
    # Seeded by the step as well, so that a resumed training mixes with the same weights.
    drawn = np.random.default_rng(hash64("mixup", *parts)).beta(strength, strength, count)
    return torch.from_numpy(drawn.astype(np.float32))
