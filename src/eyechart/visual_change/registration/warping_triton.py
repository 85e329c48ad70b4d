"""Smoothing and sampling of batches in Triton, with the formulas of `warping`.

CUDA builds of torch include Triton. Every result depends on one image alone, and sums have a fixed
order, so that an image has the same values alone and in a batch. Sizes and numbers of maps are not
specialized, because kernels would be compiled again for each.
"""

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024
"""Number of pixels that one program smooths."""


@triton.jit
def mirrored(position, side):  # type: ignore[no-untyped-def]
    """Reflect a position beyond the border without repeating the edge, as padding does."""
    position = tl.where(position < 0, -position, position)
    return tl.where(position >= side, 2 * side - 2 - position, position)


@triton.jit
def reflected(position, side):  # type: ignore[no-untyped-def]
    """Reflect a position at the outer edges of the outermost cells, as `grid_sample` does."""
    distance = tl.abs(position + 0.5)
    turns = tl.floor(distance / side)
    rest = distance - turns * side
    is_odd = turns - 2 * tl.floor(turns * 0.5) > 0.5
    inner = tl.where(is_odd, side - rest, rest) - 0.5
    # the lower bound first, which also replaces NaN by a position inside
    return tl.minimum(tl.maximum(inner, 0.0), side - 1.0)


@triton.jit
def reflected_once(position, side):  # type: ignore[no-untyped-def]
    """Reflect a position that is less than one side beyond the edge; the division takes long."""
    distance = tl.abs(position + 0.5)
    inner = tl.where(distance >= side, side - (distance - side), distance) - 0.5
    return tl.minimum(tl.maximum(inner, 0.0), side - 1.0)


@triton.jit
def sampled(image, x, y, rows, columns, across, down):  # type: ignore[no-untyped-def]
    """Interpolate an image at points in px from its center; `across`, `down`: cells per px."""
    column = reflected(x * across + (columns - 1) * 0.5, columns)
    row = reflected(y * down + (rows - 1) * 0.5, rows)
    return interpolated(image, column, row, rows, columns)


@triton.jit
def sampled_near(image, x, y, rows, columns, across, down):  # type: ignore[no-untyped-def]
    """Interpolate as `sampled`, at points that are less than one side beyond the edge."""
    column = reflected_once(x * across + (columns - 1) * 0.5, columns)
    row = reflected_once(y * down + (rows - 1) * 0.5, rows)
    return interpolated(image, column, row, rows, columns)


@triton.jit
def interpolated(image, column, row, rows, columns):  # type: ignore[no-untyped-def]
    """Interpolate an image at positions in cells from its first one."""
    left, top = tl.floor(column), tl.floor(row)
    right_share, lower_share = column - left, row - top
    first, upper = left.to(tl.int32), top.to(tl.int32)
    # the share of a cell beyond the border is 0, so that any other cell may be read instead
    second = tl.minimum(first + 1, columns - 1)
    lower = tl.minimum(upper + 1, rows - 1)
    one = tl.load(image + upper * columns + first) * (1 - right_share)
    one += tl.load(image + upper * columns + second) * right_share
    two = tl.load(image + lower * columns + first) * (1 - right_share)
    two += tl.load(image + lower * columns + second) * right_share
    return one * (1 - lower_share) + two * lower_share


@triton.jit
def loaded_map(maps, index):  # type: ignore[no-untyped-def]
    """Load the six numbers of a map (float64), rounded to float32."""
    source = maps + index * 6
    return (
        tl.load(source).to(tl.float32),
        tl.load(source + 1).to(tl.float32),
        tl.load(source + 2).to(tl.float32),
        tl.load(source + 3).to(tl.float32),
        tl.load(source + 4).to(tl.float32),
        tl.load(source + 5).to(tl.float32),
    )


@triton.jit(do_not_specialize=["rows", "columns"])  # type: ignore[untyped-decorator]
def _smooth_lines(  # type: ignore[no-untyped-def]
    source, target, rows, columns,
    WEIGHTS: tl.constexpr, TAPS: tl.constexpr, DOWN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Convolve along lines or columns; weights are constants, which cost no loads."""
    # int64, because an offset in a large batch may exceed 2³¹
    start = tl.program_id(0).to(tl.int64) * rows * columns
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    # the last program computes the last pixel several times, so that loads need no mask
    place = tl.minimum(place, rows * columns - 1)
    row, column = place // columns, place % columns
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for tap in tl.static_range(TAPS):
        if DOWN:
            offset = mirrored(row + (tap - TAPS // 2), rows) * columns + column
        else:
            offset = row * columns + mirrored(column + (tap - TAPS // 2), columns)
        total += tl.load(source + start + offset) * WEIGHTS[tap]
    tl.store(target + start + place, total)


def smoothed_in_triton(images: Tensor, sigma: float) -> Tensor:
    """Return float32 images (B, h, w) convolved with a Gaussian; see `warping.smoothed`."""
    lines = smoothed_lines(images.contiguous(), sigma)
    return _convolved(lines, gaussian(sigma, min(images.shape[1:])), down=True)


def smoothed_lines(images: Tensor, sigma: float) -> Tensor:
    """Return contiguous images (B, h, w) convolved with a Gaussian along their lines only."""
    return _convolved(images, gaussian(sigma, min(images.shape[1:])), down=False)


def _convolved(images: Tensor, weights: tuple[float, ...], down: bool) -> Tensor:
    count, rows, columns = images.shape
    target = torch.empty_like(images)
    _smooth_lines[count, triton.cdiv(rows * columns, BLOCK)](
        images, target, rows, columns,
        WEIGHTS=weights, TAPS=len(weights), DOWN=down, BLOCK=BLOCK,
    )  # fmt: skip
    return target


@lru_cache(maxsize=64)
def gaussian(sigma: float, shortest: int) -> tuple[float, ...]:
    """Return the weights of `warping.smoothed` for images with `shortest` cells along a side."""
    reach = min(round(3 * sigma), shortest - 1)
    distance = torch.arange(-reach, reach + 1, dtype=torch.float32)
    weights = torch.exp(-0.5 * (distance / sigma) ** 2)
    return tuple((weights / weights.sum()).tolist())
