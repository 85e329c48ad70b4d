"""Shrink 8-bit images by averaging blocks, like Pillow's BOX filter, and enlarge them again.

The CPU uses Pillow itself; other devices compute the same sums.
"""

from functools import lru_cache

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from eyechart.corruptions.kernels.opencv import pixels_of, planes_of

FIXED = 1 << 22
"""Pillow stores its 8-bit resizing weights as multiples of 2⁻²²."""


def shrink(levels: Tensor, size: tuple[int, int]) -> Tensor:
    """Return the uint8 images (B, C, H, W) shrunk to (height, width) by averaging blocks."""
    if levels.device.type != "cpu":
        return shrink_in_torch(levels, size)
    out = torch.empty(*levels.shape[:2], *size, dtype=torch.uint8)
    for source, target in zip(levels.numpy(), out.numpy(), strict=True):
        # first horizontally, then vertically, since newer versions of Pillow choose by shape
        image = Image.fromarray(pixels_of(source))
        image = image.resize((size[1], source.shape[1]), Image.Resampling.BOX)
        image = image.resize(size[::-1], Image.Resampling.BOX)
        for plane, result in zip(planes_of(np.asarray(image)), target, strict=True):
            result[:] = plane
    return out


def shrink_in_torch(levels: Tensor, size: tuple[int, int]) -> Tensor:
    """Return the result of `shrink`, computed by exact float64 products of integer matrices."""
    across = _block_means(levels.shape[3], size[1]).to(levels.device)
    out = _round(torch.matmul(levels.to(torch.float64), across.T))
    down = _block_means(levels.shape[2], size[0]).to(levels.device)
    return _round(torch.matmul(down, out)).to(torch.uint8)


def _round(values: Tensor) -> Tensor:
    return torch.floor(values / FIXED + 0.5)


@lru_cache(maxsize=256)
def _block_means(before: int, after: int) -> Tensor:
    """Return Pillow's weights in units of 2⁻²², as a float64 matrix (after, before)."""
    # the same operations as in Pillow, since rounding matters where a block's edge is halfway
    scale = before / after
    center = (np.arange(after)[:, None] + 0.5) * scale
    first, last = (center - 0.5 * scale + 0.5).astype(int), (center + 0.5 * scale + 0.5).astype(int)
    position = np.arange(before)
    distance = (position - center + 0.5) * (1 / scale)
    inside = (position >= first) & (position < last) & (distance > -0.5) & (distance <= 0.5)
    means = inside / inside.sum(axis=1, keepdims=True)
    return torch.from_numpy(np.floor(means * FIXED + 0.5))


def enlarge(levels: Tensor, size: tuple[int, int]) -> Tensor:
    """Return the images enlarged to (height, width) by nearest neighbor."""
    for dim, after in ((3, size[1]), (2, size[0])):
        before = levels.shape[dim]
        # ⌊(i + ½) · before / after⌋ in integers, without rounding error
        source = ((np.arange(after) * 2 + 1) * before) // (2 * after)
        if levels.device.type == "cpu":
            levels = torch.from_numpy(levels.numpy().take(source, axis=dim))
        else:
            levels = levels.index_select(dim, torch.from_numpy(source).to(levels.device))
    return levels
