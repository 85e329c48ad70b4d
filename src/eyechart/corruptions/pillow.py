"""Pillow's resizing on whole grey levels: Pillow itself on the CPU, the same sums elsewhere."""

from functools import lru_cache

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from eyechart.corruptions.opencv import pixels_of, planes_of

FIXED = 1 << 22
"""Pillow keeps its 8-bit resizing weights as multiples of 2⁻²²."""

FILTERS = {"box": Image.Resampling.BOX, "bilinear": Image.Resampling.BILINEAR}
SUPPORT = {"box": 0.5, "bilinear": 1.0}


def pillow_resize(levels: Tensor, size: tuple[int, int], method: str) -> Tensor:
    """Return the uint8 images (B, C, H, W) resized to (height, width)."""
    if levels.device.type != "cpu":
        return resize_in_torch(levels, size, method)
    out = torch.empty(*levels.shape[:2], *size, dtype=torch.uint8)
    for source, target in zip(levels.numpy(), out.numpy(), strict=True):
        picture = Image.fromarray(pixels_of(source)).resize(size[::-1], FILTERS[method])
        for plane, result in zip(planes_of(np.asarray(picture)), target, strict=True):
            result[:] = plane
    return out


def enlarge_blocks(levels: Tensor, size: tuple[int, int]) -> Tensor:
    """Return the images enlarged to (height, width) without smoothing, as Pillow's BOX does."""
    for dim, after in ((3, size[1]), (2, size[0])):
        before = levels.shape[dim]
        source = ((np.arange(after) * 2 + 1) * before) // (2 * after)
        if levels.device.type == "cpu":
            levels = torch.from_numpy(levels.numpy().take(source, axis=dim))
        else:
            levels = levels.index_select(dim, torch.from_numpy(source).to(levels.device))
    return levels


def resize_in_torch(levels: Tensor, size: tuple[int, int], method: str) -> Tensor:
    """`pillow_resize` by matrix products in float64, exact because weights are whole multiples."""
    out = levels.to(torch.float64)
    if size[1] != levels.shape[3]:
        across = resize_matrix(levels.shape[3], size[1], method).to(levels.device)
        out = _round(torch.matmul(out, across.T))
    if size[0] != levels.shape[2]:
        down = resize_matrix(levels.shape[2], size[0], method).to(levels.device)
        out = _round(torch.matmul(down, out))
    return out.to(torch.uint8)


def _round(values: Tensor) -> Tensor:
    return torch.floor(values / FIXED + 0.5).clamp_(0, 255)


@lru_cache(maxsize=256)
def resize_matrix(before: int, after: int, method: str) -> Tensor:
    """Return float64 (after, before): Pillow's weights in units of 2⁻²²."""
    scale = before / after
    stretch = max(scale, 1.0)
    support = SUPPORT[method] * stretch
    matrix = np.zeros((after, before))
    for place in range(after):
        centre = (place + 0.5) * scale
        first = max(0, int(centre - support + 0.5))
        last = min(before, int(centre + support + 0.5))
        distance = (np.arange(first, last) - centre + 0.5) / stretch
        if method == "box":
            weights = ((distance > -0.5) & (distance <= 0.5)).astype(np.float64)
        else:
            weights = np.clip(1 - np.abs(distance), 0, None)
        matrix[place, first:last] = np.floor(weights / weights.sum() * FIXED + 0.5)
    return torch.from_numpy(matrix)
