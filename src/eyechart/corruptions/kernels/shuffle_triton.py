"""Triton kernels that move pixels: swapping neighbors, and adding up enlargements."""

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.devices import to_device

BLOCK = 512


@triton.jit
def _key(halves, place, position, spread, inside):  # type: ignore[no-untyped-def]
    half = tl.load(halves + place, mask=inside, other=0).to(tl.int32)
    return position * 256 + (((half - 32768) * spread) >> 15)


@triton.jit  # type: ignore[untyped-decorator]
def _swap(  # type: ignore[no-untyped-def]
    source, target, halves, limits, channels, height, width,
    DOWN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Move each pixel to its rank among the keys of its line, in the order of a stable sort."""
    image = tl.program_id(0).to(tl.int64)
    pixels = height * width
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < pixels
    if DOWN:
        position, length, stride = place // width, height, width
    else:
        position, length, stride = place % width, width, 1
    spread = tl.load(limits + image)
    own_halves = halves + image * pixels
    key = _key(own_halves, place, position, spread, inside)
    rank = position
    # two shifts differ by at most twice the limit: pixels further away keep their order
    for step in range(1, spread // 128 + 2):
        before = inside & (position >= step)
        ahead = _key(own_halves, place - step * stride, position - step, spread, before) > key
        rank -= (before & ahead).to(tl.int32)
        after = inside & (position + step < length)
        behind = _key(own_halves, place + step * stride, position + step, spread, after) < key
        rank += (after & behind).to(tl.int32)
    moved = place + (rank - position) * stride
    for channel in range(channels):
        plane = (image * channels + channel) * pixels
        tl.store(target + plane + moved, tl.load(source + plane + place, mask=inside), mask=inside)


def swap_in_triton(images: Tensor, halves: Tensor, limits: NDArray[np.int64], down: bool) -> Tensor:
    """Return images (B, C, H, W) with the pixels of each row, or column, moved at random.

    Args:
        images: the images.
        halves: 16-bit random numbers, int64 (B, H · W).
        limits: the maximum shift of each image in 1/256 px, below 2¹⁶.
        down: whether pixels move along columns instead of rows.
    """
    images, halves = images.contiguous(), halves.contiguous()
    batch, channels, height, width = images.shape
    out = torch.empty_like(images)
    _swap[batch, triton.cdiv(height * width, BLOCK)](
        images, out, halves, to_device(torch.from_numpy(limits.astype(np.int32)), images.device),
        channels, height, width, DOWN=down, BLOCK=BLOCK,
    )  # fmt: skip
    return out


ZOOM_BLOCK = 256


@triton.jit  # type: ignore[untyped-decorator]
def _add_zooms(levels, total, rows, columns, factors, height, width, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Add every enlargement of one line of pixels to the line itself.

    Coordinates are in 1/32 px, so that all products and all sums except the last one are exact, as
    in the other implementations.
    """
    line = tl.program_id(0)
    y = line % height
    x = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = x < width
    plane = levels + (line // height) * height * width
    out = tl.load(plane + y * width + x, mask=inside, other=0.0)
    for number in range(factors):
        place_down = tl.load(rows + number * height + y)
        place_across = tl.load(columns + number * width + x, mask=inside, other=0)
        top, left = place_down >> 5, place_across >> 5
        # beyond the last row or column the weight is 0; the index only has to be valid
        bottom = tl.minimum(top + 1, height - 1)
        right = tl.minimum(left + 1, width - 1)
        down = (place_down & 31).to(tl.float32) * 0.03125
        across = (place_across & 31).to(tl.float32) * 0.03125
        upper = tl.load(plane + top * width + left, mask=inside, other=0.0) * (1 - across)
        upper += tl.load(plane + top * width + right, mask=inside, other=0.0) * across
        lower = tl.load(plane + bottom * width + left, mask=inside, other=0.0) * (1 - across)
        lower += tl.load(plane + bottom * width + right, mask=inside, other=0.0) * across
        out += upper * (1 - down) + lower * down
    tl.store(total + line * width + x, out, mask=inside)


def add_zooms_in_triton(
    levels: Tensor, rows: NDArray[np.float64], columns: NDArray[np.float64]
) -> Tensor:
    """Return the levels (B, C, H, W) plus their enlargements, sampled at (n, H) and (n, W)."""
    height, width = levels.shape[2:]
    down, across = (
        torch.from_numpy(np.round(coordinates * 32).astype(np.int32)).to(levels.device)
        for coordinates in (rows, columns)
    )
    out = torch.empty_like(levels)
    grid = (levels.shape[0] * levels.shape[1] * height, triton.cdiv(width, ZOOM_BLOCK))
    _add_zooms[grid](levels, out, down, across, len(rows), height, width, BLOCK=ZOOM_BLOCK)
    return out
