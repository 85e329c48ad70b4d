"""Correlation of the details of two images for `agreement`, in one Triton kernel.

One program moves a clean image, fills in what the corrupted one does not show, smooths both along
lines and columns, and correlates what that removes. Between these steps it waits for all of
its threads, which read what others have written: separate kernels would take less time on a GPU
than the host needs to launch them.
"""

import triton
import triton.language as tl
from torch import Tensor

from eyechart.visual_change.registration.agreement import PREFERENCE
from eyechart.visual_change.registration.refinement import centers_of
from eyechart.visual_change.registration.warping_triton import (
    gaussian,
    loaded_map,
    mirrored,
    sampled,
)

BLOCK, WARPS = 512, 8
BLOCK_OF_LARGE, WARPS_OF_LARGE = 2048, 32
"""Number of pixels that a program processes at once, and its warps; more for large images, of which
there are fewer at a time.
"""

LARGE = 96 * 96
"""Number of pixels from which on an image is large."""

# kernels read constants of a module only in this form
_PREFERENCE = tl.constexpr(PREFERENCE)


@triton.jit
def _places(points, maps, index, place, rows, columns):  # type: ignore[no-untyped-def]
    """Return where the map leads the centers of cells."""
    x = tl.load(points + place % columns)
    y = tl.load(points + rows * columns + place // columns * columns)
    xx, xy, x_shift, yx, yy, y_shift = loaded_map(maps, index)
    return xx * x + xy * y + x_shift, yx * x + yy * y + y_shift


@triton.jit
def _fit(count, first, second, squares, products):  # type: ignore[no-untyped-def]
    """Return gain and both means of the fit `view.fitted`, from sums over parts of the image."""
    total = tl.sum(count)
    divisor = tl.maximum(total, 1.0)
    one, two = tl.sum(first) / divisor, tl.sum(second) / divisor
    # the same as sums of squares and products around the means
    spread = tl.sum(squares) - total * one * one
    gain = (tl.sum(products) - total * one * two) / tl.maximum(spread, 1e-6)
    return gain.to(tl.float32), one.to(tl.float32), two.to(tl.float32)


@triton.jit(do_not_specialize=["n_maps", "rows", "columns"])  # type: ignore[untyped-decorator]
def _compare_details(  # type: ignore[no-untyped-def]
    clean, corrupted, points, maps, images, lines, results, n_maps, rows, columns,
    across, down, limit_x, limit_y,
    WEIGHTS: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compare the details of one pair of images.

    `images`, `lines`: room for two images per program, and for them smoothed along their lines.
    """
    index = tl.program_id(0).to(tl.int64)
    pixels = rows * columns
    start = index // n_maps * pixels
    warped, shown = images + index * 2 * pixels, images + (index * 2 + 1) * pixels
    first_lines, second_lines = lines + index * 2 * pixels, lines + (index * 2 + 1) * pixels

    # move the clean image; float64, because the variance is a small difference between large sums
    count = tl.zeros((BLOCK,), dtype=tl.float64)
    first = tl.zeros((BLOCK,), dtype=tl.float64)
    second = tl.zeros((BLOCK,), dtype=tl.float64)
    squares = tl.zeros((BLOCK,), dtype=tl.float64)
    products = tl.zeros((BLOCK,), dtype=tl.float64)
    for begin in range(0, pixels, BLOCK):
        place = begin + tl.arange(0, BLOCK)
        inner = place < pixels
        # the last pixel is computed several times, so that loads need no mask
        place = tl.minimum(place, pixels - 1)
        x, y = _places(points, maps, index, place, rows, columns)
        value = sampled(clean + start, x, y, rows, columns, across, down)
        tl.store(warped + place, value)
        is_visible = inner & (tl.abs(x) <= limit_x) & (tl.abs(y) <= limit_y)
        weight = is_visible.to(tl.float64)
        one = value.to(tl.float64) * weight
        two = tl.load(corrupted + start + place).to(tl.float64) * weight
        count += weight
        first += one
        second += two
        squares += one * one
        products += one * two
    gain, mean, target_mean = _fit(count, first, second, squares, products)
    tl.debug_barrier()

    # fill what the corrupted image does not show with the fitted clean one
    for begin in range(0, pixels, BLOCK):
        place = tl.minimum(begin + tl.arange(0, BLOCK), pixels - 1)
        x, y = _places(points, maps, index, place, rows, columns)
        is_visible = (tl.abs(x) <= limit_x) & (tl.abs(y) <= limit_y)
        seen = tl.load(corrupted + start + place)
        fill = gain * (tl.load(warped + place) - mean) + target_mean
        tl.store(shown + place, tl.where(is_visible, seen, fill))
    tl.debug_barrier()

    for begin in range(0, pixels, BLOCK):
        place = tl.minimum(begin + tl.arange(0, BLOCK), pixels - 1)
        row, column = place // columns, place % columns
        smooth_one = tl.zeros((BLOCK,), dtype=tl.float32)
        smooth_two = tl.zeros((BLOCK,), dtype=tl.float32)
        for tap in tl.static_range(TAPS):
            offset = row * columns + mirrored(column + (tap - TAPS // 2), columns)
            smooth_one += tl.load(warped + offset) * WEIGHTS[tap]
            smooth_two += tl.load(shown + offset) * WEIGHTS[tap]
        tl.store(first_lines + place, smooth_one)
        tl.store(second_lines + place, smooth_two)
    tl.debug_barrier()

    shared = tl.zeros((BLOCK,), dtype=tl.float32)
    own = tl.zeros((BLOCK,), dtype=tl.float32)
    other = tl.zeros((BLOCK,), dtype=tl.float32)
    for begin in range(0, pixels, BLOCK):
        place = begin + tl.arange(0, BLOCK)
        inner = place < pixels
        place = tl.minimum(place, pixels - 1)
        row, column = place // columns, place % columns
        smooth_one = tl.zeros((BLOCK,), dtype=tl.float32)
        smooth_two = tl.zeros((BLOCK,), dtype=tl.float32)
        for tap in tl.static_range(TAPS):
            offset = mirrored(row + (tap - TAPS // 2), rows) * columns + column
            smooth_one += tl.load(first_lines + offset) * WEIGHTS[tap]
            smooth_two += tl.load(second_lines + offset) * WEIGHTS[tap]
        x, y = _places(points, maps, index, place, rows, columns)
        is_visible = inner & (tl.abs(x) <= limit_x) & (tl.abs(y) <= limit_y)
        one = tl.where(is_visible, tl.load(warped + place) - smooth_one, 0.0)
        two = tl.where(is_visible, tl.load(shown + place) - smooth_two, 0.0)
        shared += one * two
        own += one * one
        other += two * two
    # each of a few hundred terms in float32, their sum in float64
    product = tl.sum(shared.to(tl.float64))
    square, other_square = tl.sum(own.to(tl.float64)), tl.sum(other.to(tl.float64))
    # constant images have no details at all, and 0 / 0 would be NaN
    correlation = product / tl.sqrt(tl.maximum(square * other_square, 1e-6))
    tl.store(results + index, correlation.to(tl.float32))
    factor = product / tl.maximum(square, 1e-6)
    tl.store(results + tl.num_programs(0) + index, factor.to(tl.float32))
    # if nothing is visible, the correlation is 0
    share = tl.maximum((tl.sum(count) / pixels).to(tl.float32), 1e-9)
    score = correlation.to(tl.float32) * tl.exp2(_PREFERENCE * tl.log2(share))
    tl.store(results + 2 * tl.num_programs(0) + index, score)


def compared_in_triton(
    clean: Tensor, corrupted: Tensor, maps: Tensor, size: tuple[int, int], sigma: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return correlations, factors and scores (B · n,) of the details that both images show.

    There are n maps (B · n, 2, 3) for each pair of images (B, h, w).
    """
    clean, corrupted, maps = clean.contiguous(), corrupted.contiguous(), maps.contiguous()
    count, (rows, columns) = len(maps), corrupted.shape[1:]
    cell = size[1] / columns
    weights = gaussian(sigma, min(rows, columns))
    images, lines = clean.new_empty((2, count, 2, rows, columns))
    results = clean.new_empty((3, count))
    is_large = rows * columns >= LARGE
    _compare_details[count,](
        clean, corrupted, centers_of(rows, columns, size, corrupted.device), maps,
        images, lines, results, count // len(clean), rows, columns,
        # a margin of one cell, because interpolation near the edge reads beyond it
        columns / size[1], rows / size[0], size[1] / 2 - cell, size[0] / 2 - cell,
        WEIGHTS=weights, TAPS=len(weights), BLOCK=BLOCK_OF_LARGE if is_large else BLOCK,
        num_warps=WARPS_OF_LARGE if is_large else WARPS,
    )  # fmt: skip
    return results[0], results[1], results[2]
