"""Resample images with one matrix per image and axis: resizing, block averages, box filters.

Matrices and products are in float64 and results are rounded to the grid of `arithmetic.snap`, so
that devices and batch sizes agree.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from eyechart.corruptions.declaration import Values
from eyechart.corruptions.kernels.arithmetic import snap

LARGEST_AT_ONCE = 1 << 21
"""Images with more pixels are resampled plane by plane, smaller images in whole batches."""

LONGEST_KEPT = 1024
"""Matrices for longer sides are not cached, because they would fill the memory."""


def along_both(images: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """Return down · image · acrossᵀ per channel; matrices are (B or 1, size, size) float64."""
    if images[0, 0].numel() <= LARGEST_AT_ONCE:
        out = torch.matmul(images.to(torch.float64), across[:, None].mT)
        return snap(torch.matmul(down[:, None], out))
    result = torch.empty_like(images)
    # plane by plane, because a large image in float64 takes much memory
    for index, channels in enumerate(images):
        own_down, own_across = (
            matrices[index if len(matrices) > 1 else 0] for matrices in (down, across)
        )
        for plane, target in zip(channels, result[index], strict=True):
            wide = torch.matmul(plane.to(torch.float64), own_across.mT)
            target.copy_(snap(torch.matmul(own_down, wide)))
    return result


def bilinear_matrix(
    first: Values, source: Values, target: Values, rows: int, columns: int, device: torch.device
) -> Tensor:
    """Return (B, rows, columns) matrices that resize `source` pixels to `target` pixels.

    `first`: index of the first source pixel.

    Like Pillow's BILINEAR, the filter is a triangle that widens when the image shrinks, cut off and
    normalized at the edges. Rows from index `target` on are zero.
    """
    start, length, wanted = (
        torch.from_numpy(array).to(device).reshape(-1, 1, 1) for array in (first, source, target)
    )
    row = torch.arange(rows, device=device, dtype=torch.float64).reshape(-1, 1)
    column = torch.arange(columns, device=device, dtype=torch.float64) - start
    scale = length / wanted
    # clamped: where an image is enlarged, the triangle keeps a radius of one source pixel
    distance = (column + 0.5 - (row + 0.5) * scale).abs_().div_(scale.clamp(min=1))
    weights = (1 - distance).clamp_(min=0)
    weights *= (column >= 0) & (column < length) & (row < wanted)
    # rows from `target` on have no weights: 0 / 1e-9 keeps them zero
    return weights / weights.sum(dim=2, keepdim=True).clamp_(min=1e-9)


def thumbnail_matrix(factor: Values, size: int, device: torch.device) -> Tensor:
    """Return (B, size, size) matrices that shrink to int(size / factor) pixels, then enlarge."""
    # the small addition makes 224 / (224 / 200) exactly 200
    small = np.maximum(np.floor(size / factor + 1e-9), 1)
    # one shape for the batch; rows beyond the size of a smaller image are zero
    most = int(small.max())
    nothing, full = np.zeros_like(small), np.full_like(small, size)
    shrink = bilinear_matrix(nothing, full, small, most, size, device)
    grow = bilinear_matrix(nothing, small, full, size, most, device)
    return torch.matmul(grow, shrink)


def block_matrix(block: Values, size: int, device: torch.device) -> Tensor:
    """Return (B, size, size) matrices that average over blocks of `block` pixels.

    The last block is shorter if it does not fit.
    """
    length = torch.from_numpy(block).to(device).reshape(-1, 1, 1)
    number = torch.floor(torch.arange(size, device=device, dtype=torch.float64) / length)
    same = (number == number.mT).to(torch.float64)
    return same / same.sum(dim=2, keepdim=True)


@lru_cache(maxsize=64)
def _box_power(side: int, size: int, times: int) -> Tensor:
    return _new_box_power(side, size, times)


def _new_box_power(side: int, size: int, times: int) -> Tensor:
    index = np.arange(size)
    band = np.abs(index[:, None] - index) <= side // 2
    return torch.from_numpy(np.linalg.matrix_power(band / side, times))


def box_matrix(side: Values, size: int, times: int, device: torch.device) -> Tensor:
    """Return matrices that apply a box filter of `side` (odd) pixels `times` times.

    Values outside the image are 0. The shape of the matrices is (1, size, size) if all images have
    the same side, otherwise (B, size, size).
    """
    sides = [int(one) for one in side]
    if len(set(sides)) == 1:
        sides = sides[:1]
    power = _box_power if size <= LONGEST_KEPT else _new_box_power
    return torch.stack([power(one, size, times) for one in sides]).to(device)
