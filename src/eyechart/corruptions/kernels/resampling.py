"""Resample images: resizing, block averages and box filters.

Matrices, one per image and axis, and their products are in float64, and results are rounded to the
grid of `arithmetic.snap`, so that devices and batch sizes agree. 8-bit images are shrunk to blocks
like by the BOX filter of Pillow, to the bit, in a third of its time.
"""

from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
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
    power = _box_power if size <= LONGEST_KEPT else _box_power.__wrapped__
    return torch.stack([power(one, size, times) for one in sides]).to(device)


FIXED = 1 << 22
"""Pillow stores its 8-bit resizing weights as multiples of 2⁻²²."""


def shrink_to_blocks(levels: Tensor, size: tuple[int, int]) -> Tensor:
    """Return the uint8 images (B, C, H, W) shrunk to (height, width) by averaging blocks."""
    if levels.device.type != "cpu":
        return shrink_in_torch(levels, size)
    batch, channels, height, width = levels.shape
    # first horizontally, then vertically, as Pillow does for square images; rows are summed faster
    # than columns
    columns = cv2.transpose(levels.reshape(-1, width).numpy())
    narrow = cv2.transpose(_shrink_rows(columns[None], size[1])[0])
    planes = _shrink_rows(narrow.reshape(-1, height, size[1]), size[0])
    return torch.from_numpy(planes.reshape(batch, channels, *size))


def _shrink_rows(planes: NDArray[Any], after: int) -> NDArray[np.uint8]:
    """Return planes (P, rows, columns) with blocks of rows averaged, `after` blocks in total."""
    first, count, weight = _blocks(planes.shape[1], after)
    longest = int(count.max())
    # 16-bit sums are faster, and suffice if the longest block of white pixels fits
    small = longest * 255 < 1 << 16
    total: NDArray[Any] = planes.take(first, axis=1).astype(np.uint16 if small else np.uint32)
    for step in range(1, longest):
        longer = np.flatnonzero(count > step)
        total[:, longer] += planes.take(first[longer] + step, axis=1)
    # all weights of a block are equal
    means = total.astype(np.uint32)
    means *= weight[:, None]
    # one half in fixed point, so that the shift rounds as in Pillow
    means += np.uint32(FIXED // 2)
    means >>= np.uint32(FIXED.bit_length() - 1)
    return means.astype(np.uint8)


@lru_cache(maxsize=256)
def _blocks(before: int, after: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """Return the first pixel, the number of pixels and the weight of each block."""
    weights = _block_means(before, after).numpy()
    first, count = (weights > 0).argmax(axis=1), (weights > 0).sum(axis=1)
    return first, count, weights.max(axis=1).astype(np.uint32)


def shrink_in_torch(levels: Tensor, size: tuple[int, int]) -> Tensor:
    """Return the result of `shrink_to_blocks`, by exact float64 products of integer matrices."""
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


def enlarge_blocks(levels: Tensor, size: tuple[int, int]) -> Tensor:
    """Return the images enlarged to (height, width) by nearest neighbor."""
    if levels.device.type == "cpu":
        return _enlarge_in_numpy(levels, size)
    for dim, after in ((3, size[1]), (2, size[0])):
        source = torch.from_numpy(_nearest(levels.shape[dim], after)).to(levels.device)
        levels = levels.index_select(dim, source)
    return levels


def _nearest(before: int, after: int) -> NDArray[np.int64]:
    """Return ⌊(i + ½) · before / after⌋ for each new pixel, in integers without rounding error."""
    return ((np.arange(after) * 2 + 1) * before) // (2 * after)


def _enlarge_in_numpy(levels: Tensor, size: tuple[int, int]) -> Tensor:
    """Return the result of `enlarge_blocks` on the CPU: copying rows is faster than columns."""
    batch, channels, height, width = levels.shape
    columns = cv2.transpose(levels.reshape(-1, width).numpy())
    wide = columns.take(_nearest(width, size[1]), axis=0)
    planes = cv2.transpose(wide).reshape(batch, channels, height, size[1])
    return torch.from_numpy(planes.take(_nearest(height, size[0]), axis=2))
