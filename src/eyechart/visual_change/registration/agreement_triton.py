"""Sums over the details of two images for `agreement`, in four Triton kernels.

They move the clean image, fill in what the corrupted one does not show, smooth both along lines,
and smooth them along columns while summing products.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from eyechart.visual_change.registration.refinement import centers_of
from eyechart.visual_change.registration.warping_triton import (
    gaussian,
    loaded_map,
    mirrored,
    sampled,
    smoothed_lines,
)

BLOCK = 512
"""Number of pixels that one program processes."""

BLOCKS_AT_ONCE = 64
"""Number of blocks whose sums are added at once."""


@triton.jit
def _places(points, maps, index, place, rows, columns):  # type: ignore[no-untyped-def]
    """Return where the map leads the centers of cells."""
    x = tl.load(points + place % columns)
    y = tl.load(points + rows * columns + place // columns * columns)
    xx, xy, x_shift, yx, yy, y_shift = loaded_map(maps, index)
    return xx * x + xy * y + x_shift, yx * x + yy * y + y_shift


@triton.jit(do_not_specialize=["n_maps", "rows", "columns"])  # type: ignore[untyped-decorator]
def _warp(  # type: ignore[no-untyped-def]
    clean, corrupted, points, maps, warped, sums, n_maps, rows, columns,
    across, down, limit_x, limit_y, BLOCK: tl.constexpr,
):  # fmt: skip
    """Move the clean image, and sum what the fit of its gray levels needs over one block."""
    index = tl.program_id(0).to(tl.int64)
    pixels = rows * columns
    start = index // n_maps * pixels
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = place < pixels
    place = tl.minimum(place, pixels - 1)
    x, y = _places(points, maps, index, place, rows, columns)
    value = sampled(clean + start, x, y, rows, columns, across, down)
    tl.store(warped + index * pixels + place, value)
    is_visible = inner & (tl.abs(x) <= limit_x) & (tl.abs(y) <= limit_y)
    weight = is_visible.to(tl.float64)
    # float64, because the variance is a small difference between large sums
    one = value.to(tl.float64) * weight
    two = tl.load(corrupted + start + place).to(tl.float64) * weight
    out = sums + (index * tl.num_programs(1) + tl.program_id(1)) * 5
    tl.store(out, tl.sum(weight))
    tl.store(out + 1, tl.sum(one))
    tl.store(out + 2, tl.sum(two))
    tl.store(out + 3, tl.sum(one * one))
    tl.store(out + 4, tl.sum(one * two))


@triton.jit  # type: ignore[untyped-decorator]
def _fit(sums, blocks, AT_ONCE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return gain and both means of the fit `view.fitted`, from the sums of all blocks."""
    count = tl.zeros((AT_ONCE,), dtype=tl.float64)
    first = tl.zeros((AT_ONCE,), dtype=tl.float64)
    second = tl.zeros((AT_ONCE,), dtype=tl.float64)
    squares = tl.zeros((AT_ONCE,), dtype=tl.float64)
    products = tl.zeros((AT_ONCE,), dtype=tl.float64)
    for start in range(0, blocks, AT_ONCE):
        block = start + tl.arange(0, AT_ONCE)
        source, is_used = sums + block * 5, block < blocks
        count += tl.load(source, mask=is_used, other=0.0)
        first += tl.load(source + 1, mask=is_used, other=0.0)
        second += tl.load(source + 2, mask=is_used, other=0.0)
        squares += tl.load(source + 3, mask=is_used, other=0.0)
        products += tl.load(source + 4, mask=is_used, other=0.0)
    total = tl.sum(count)
    divisor = tl.maximum(total, 1.0)
    one, two = tl.sum(first) / divisor, tl.sum(second) / divisor
    # the same as sums of squares and products around the means
    spread = tl.sum(squares) - total * one * one
    gain = (tl.sum(products) - total * one * two) / tl.maximum(spread, 1e-6)
    return gain.to(tl.float32), one.to(tl.float32), two.to(tl.float32)


@triton.jit(do_not_specialize=["n_maps", "rows", "columns", "blocks"])  # type: ignore[untyped-decorator]
def _fill(  # type: ignore[no-untyped-def]
    corrupted, points, maps, warped, shown, sums, n_maps, rows, columns, blocks,
    limit_x, limit_y, BLOCK: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Fill what the corrupted image does not show with the fitted clean one."""
    index = tl.program_id(0).to(tl.int64)
    pixels = rows * columns
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place = tl.minimum(place, pixels - 1)
    gain, one, two = _fit(sums + index * blocks * 5, blocks, AT_ONCE)
    x, y = _places(points, maps, index, place, rows, columns)
    is_visible = (tl.abs(x) <= limit_x) & (tl.abs(y) <= limit_y)
    seen = tl.load(corrupted + index // n_maps * pixels + place)
    fill = gain * (tl.load(warped + index * pixels + place) - one) + two
    tl.store(shown + index * pixels + place, tl.where(is_visible, seen, fill))


@triton.jit(do_not_specialize=["count", "rows", "columns"])  # type: ignore[untyped-decorator]
def _sum_details(  # type: ignore[no-untyped-def]
    images, lines, points, maps, sums, count, rows, columns, limit_x, limit_y,
    WEIGHTS: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Smooth both images along columns, and sum products of what that removes over one block."""
    index = tl.program_id(0).to(tl.int64)
    pixels = rows * columns
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = place < pixels
    place = tl.minimum(place, pixels - 1)
    row, column = place // columns, place % columns
    first, second = index * pixels, (index + count) * pixels
    one = tl.load(images + first + place)
    two = tl.load(images + second + place)
    smooth_one = tl.zeros((BLOCK,), dtype=tl.float32)
    smooth_two = tl.zeros((BLOCK,), dtype=tl.float32)
    for tap in tl.static_range(TAPS):
        offset = mirrored(row + (tap - TAPS // 2), rows) * columns + column
        smooth_one += tl.load(lines + first + offset) * WEIGHTS[tap]
        smooth_two += tl.load(lines + second + offset) * WEIGHTS[tap]
    x, y = _places(points, maps, index, place, rows, columns)
    is_visible = inner & (tl.abs(x) <= limit_x) & (tl.abs(y) <= limit_y)
    one = tl.where(is_visible, one - smooth_one, 0.0)
    two = tl.where(is_visible, two - smooth_two, 0.0)
    out = sums + (index * tl.num_programs(1) + tl.program_id(1)) * 3
    tl.store(out, tl.sum(one * two).to(tl.float64))
    tl.store(out + 1, tl.sum(one * one).to(tl.float64))
    tl.store(out + 2, tl.sum(two * two).to(tl.float64))


def sums_in_triton(
    clean: Tensor, corrupted: Tensor, maps: Tensor, size: tuple[int, int], sigma: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return Σ one · two, Σ one² and Σ two² (B · n,) over the details that both images show.

    There are n maps (B · n, 2, 3) for each pair of images (B, h, w).
    """
    clean, corrupted, maps = clean.contiguous(), corrupted.contiguous(), maps.contiguous()
    count, (rows, columns) = len(maps), corrupted.shape[1:]
    points = centers_of(rows, columns, size, corrupted.device)
    cell = size[1] / columns
    # a margin of one cell, because interpolation near the edge reads beyond it
    limits = size[1] / 2 - cell, size[0] / 2 - cell
    blocks, n_maps = triton.cdiv(rows * columns, BLOCK), count // len(clean)
    fits, products = (
        torch.empty((count, blocks, sums), dtype=torch.float64, device=maps.device)
        for sums in (5, 3)
    )
    # the moved clean images, then the corrupted ones, so that one kernel smooths all of them
    images = clean.new_empty((2 * count, rows, columns))
    _warp[count, blocks](
        clean, corrupted, points, maps, images, fits, n_maps, rows, columns,
        columns / size[1], rows / size[0], *limits, BLOCK=BLOCK,
    )  # fmt: skip
    _fill[count, blocks](
        corrupted, points, maps, images, images[count:], fits, n_maps, rows, columns, blocks,
        *limits, BLOCK=BLOCK, AT_ONCE=BLOCKS_AT_ONCE,
    )  # fmt: skip
    weights = gaussian(sigma, min(rows, columns))
    _sum_details[count, blocks](
        images, smoothed_lines(images, sigma), points, maps, products, count, rows, columns,
        *limits, WEIGHTS=weights, TAPS=len(weights), BLOCK=BLOCK,
    )  # fmt: skip
    shared, own, other = products.sum(dim=1).to(torch.float32).unbind(dim=1)
    return shared, own, other
