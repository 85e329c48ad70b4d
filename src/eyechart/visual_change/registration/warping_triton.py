"""Smoothing and sampling of batches in Triton, with the formulas of `warping`.

CUDA builds of torch include Triton. Every result depends on one image alone, and sums have a fixed
order, so that an image has the same values alone and in a batch. Sizes and numbers of maps are not
specialized, because kernels would be compiled again for each.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from eyechart.visual_change.registration.warping import CUT_OFF

BLOCK, WARPS = 1024, 32
"""Number of pixels that one program smooths at once, and its warps."""


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


@triton.jit
def _average(source, rows, columns, place, small_rows, small_columns):  # type: ignore[no-untyped-def]
    """Average an image over cells that are about 2 px wide, rounded outwards to whole pixels."""
    row, column = place // small_columns, place % small_columns
    top, left = row * rows // small_rows, column * columns // small_columns
    bottom = ((row + 1) * rows + small_rows - 1) // small_rows
    right = ((column + 1) * columns + small_columns - 1) // small_columns
    total = tl.zeros(place.shape, dtype=tl.float32)
    for down in tl.static_range(3):
        for across in tl.static_range(3):
            is_inside = (top + down < bottom) & (left + across < right)
            pixel = source + (top + down) * columns + left + across
            total += tl.load(pixel, mask=is_inside, other=0.0)
    return total / ((bottom - top) * (right - left)).to(tl.float32)


@triton.jit  # type: ignore[untyped-decorator]
def _convolve_lines(  # type: ignore[no-untyped-def]
    source, target, rows, columns, WEIGHTS: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr
):
    """Convolve an image along its lines. Weights are constants, which cost no loads."""
    pixels = rows * columns
    for begin in range(0, pixels, BLOCK):
        # the last pixel is computed several times, so that loads need no mask
        place = tl.minimum(begin + tl.arange(0, BLOCK), pixels - 1)
        row, column = place // columns, place % columns
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for tap in tl.static_range(TAPS):
            offset = row * columns + mirrored(column + (tap - TAPS // 2), columns)
            total += tl.load(source + offset) * WEIGHTS[tap]
        tl.store(target + place, total)


@triton.jit  # type: ignore[untyped-decorator]
def _convolve_columns(  # type: ignore[no-untyped-def]
    source, target, rows, columns, WEIGHTS: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr
):
    """Convolve an image along its columns."""
    pixels = rows * columns
    for begin in range(0, pixels, BLOCK):
        place = tl.minimum(begin + tl.arange(0, BLOCK), pixels - 1)
        row, column = place // columns, place % columns
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for tap in tl.static_range(TAPS):
            offset = mirrored(row + (tap - TAPS // 2), rows) * columns + column
            total += tl.load(source + offset) * WEIGHTS[tap]
        tl.store(target + place, total)


@triton.jit(do_not_specialize=["rows", "columns"])  # type: ignore[untyped-decorator]
def _smooth(  # type: ignore[no-untyped-def]
    images, lines, target, rows, columns,
    WEIGHTS: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Convolve an image along lines and columns.

    `lines`: room for the images, smoothed along lines.
    """
    # int64, because an offset in a large batch may exceed 2³¹
    start = tl.program_id(0).to(tl.int64) * rows * columns
    _convolve_lines(images + start, lines + start, rows, columns, WEIGHTS, TAPS, BLOCK)
    # each thread reads what others have written
    tl.debug_barrier()
    _convolve_columns(lines + start, target + start, rows, columns, WEIGHTS, TAPS, BLOCK)


@triton.jit(do_not_specialize=["rows", "columns"])  # type: ignore[untyped-decorator]
def _smooth_levels(  # type: ignore[no-untyped-def]
    images, lines, smaller, target, rows, columns,
    N_LEVELS: tl.constexpr, WEIGHTS: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Convolve an image, and copies of it that are each half as large as the one before.

    `target`: room for all smoothed copies, all images of a level one after the other.
    `smaller`: room for all copies that are not smoothed, in the same order without the first.
    """
    index, count = tl.program_id(0).to(tl.int64), tl.num_programs(0).to(tl.int64)
    source, between = images + index * rows * columns, lines + index * rows * columns
    for level in tl.static_range(N_LEVELS):
        _convolve_lines(source, between, rows, columns, WEIGHTS, TAPS, BLOCK)
        small_rows, small_columns = (rows + 1) // 2, (columns + 1) // 2
        n_cells = small_rows * small_columns
        small = smaller + index * n_cells
        if level < N_LEVELS - 1:
            for begin in range(0, n_cells, BLOCK):
                place = tl.minimum(begin + tl.arange(0, BLOCK), n_cells - 1)
                mean = _average(source, rows, columns, place, small_rows, small_columns)
                tl.store(small + place, mean)
        # each thread reads what others have written, before and after the columns
        tl.debug_barrier()
        out = target + index * rows * columns
        _convolve_columns(between, out, rows, columns, WEIGHTS, TAPS, BLOCK)
        tl.debug_barrier()
        target += count * rows * columns
        smaller += count * n_cells
        source, rows, columns = small, small_rows, small_columns


def smoothed_in_triton(images: Tensor, sigma: float) -> Tensor:
    """Return float32 images (B, h, w) convolved with a Gaussian; see `warping.smoothed`."""
    count, rows, columns = images.shape
    images = images.contiguous()
    lines, target = torch.empty_like(images), torch.empty_like(images)
    weights = gaussian(sigma, min(rows, columns))
    _smooth[count,](
        images, lines, target, rows, columns,
        WEIGHTS=weights, TAPS=len(weights), BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip
    return target


def levels_in_triton(
    images: Tensor, sizes: Sequence[tuple[int, int]], sigma: float
) -> list[Tensor]:
    """Return float32 images (B, h, w) and reduced copies, smoothed; see `estimate.levels_of`.

    `sizes`: rows and columns of each, half of those before, rounded up, and at least 3.
    """
    count, images = len(images), images.contiguous()
    cells = [count * rows * columns for rows, columns in sizes]
    # 3 cells have the same weights as more
    weights = gaussian(sigma, min(sizes[-1]))
    smaller = images.new_empty(sum(cells) - cells[0])
    target = images.new_empty(sum(cells))
    _smooth_levels[count,](
        images, torch.empty_like(images), smaller, target, *sizes[0],
        N_LEVELS=len(sizes), WEIGHTS=weights, TAPS=len(weights), BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip
    levels = torch.split(target, cells)
    return [level.view(count, *size) for level, size in zip(levels, sizes, strict=True)]


@lru_cache(maxsize=64)
def gaussian(sigma: float, shortest: int) -> tuple[float, ...]:
    """Return the weights of `warping.smoothed` for images with `shortest` cells along a side."""
    reach = min(round(CUT_OFF * sigma), shortest - 1)
    distance = torch.arange(-reach, reach + 1, dtype=torch.float32)
    weights = torch.exp(-0.5 * (distance / sigma) ** 2)
    return tuple((weights / weights.sum()).tolist())
