"""Triton kernels that compare two images: for `estimate`, and for steps of `refinement_triton`.

For `estimate.compare_details`, one program moves a clean image, fills in what the corrupted one
does not show, smooths both along lines and columns, and correlates what that removes. Between these
steps it waits for all of its threads, which read what others have written: separate kernels would
take less time on a GPU than the host needs to launch them. For a Gauss–Newton step, the sums of its
normal equations are computed, and their solution.
"""

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from eyechart.visual_change.registration.estimate import PREFERENCE
from eyechart.visual_change.registration.refinement import (
    MAX_STEP,
    RIDGES,
    SLIGHT,
    TINY,
    centers_of,
)
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


SUMS = 51
"""Number of different products of two features, or of a feature and the corrupted image."""

PADDED = 64
"""Number of these sums, filled up to a power of 2."""

MONOMIALS = {(0, 0): 0, (0, 1): 1, (0, 2): 2, (1, 1): 3, (1, 2): 4, (2, 2): 5}
"""Where the products of two of 1, x and y are in 1, x, y, x², xy, y²."""

# kernels read constants of a module only in this form
_RIDGE, _BLUR_RIDGE = tl.constexpr(RIDGES[0]), tl.constexpr(RIDGES[8])
_TINY, _MAX_STEP, _SLIGHT = tl.constexpr(TINY), tl.constexpr(MAX_STEP), tl.constexpr(SLIGHT)
_SUMS, _PADDED = tl.constexpr(SUMS), tl.constexpr(PADDED)


@triton.jit
def _store_three(sums, value, x, y):  # type: ignore[no-untyped-def]
    """Store the sums of value · (1, x, y)."""
    tl.store(sums, tl.sum(value))
    tl.store(sums + 1, tl.sum(value * x))
    tl.store(sums + 2, tl.sum(value * y))


@triton.jit
def _store_six(sums, value, x, y):  # type: ignore[no-untyped-def]
    """Store the sums of value · (1, x, y, x², xy, y²)."""
    _store_three(sums, value, x, y)
    tl.store(sums + 3, tl.sum(value * x * x))
    tl.store(sums + 4, tl.sum(value * x * y))
    tl.store(sums + 5, tl.sum(value * y * y))


@triton.jit
def store_products(out, slope, drop, blur, shown, seen, weight, x, y):  # type: ignore[no-untyped-def]
    """Store the sums of the products of the normal equations over some pixels.

    `slope`, `drop`, `blur`, `shown`: derivatives of the clean image, ∇² of it, and itself.
    """
    slope, drop, blur = slope * weight, drop * weight, blur * weight
    shown, seen = shown * weight, seen * weight
    _store_six(out, slope * slope, x, y)
    _store_six(out + 6, slope * drop, x, y)
    _store_six(out + 12, drop * drop, x, y)
    _store_three(out + 18, slope * shown, x, y)
    _store_three(out + 21, drop * shown, x, y)
    _store_three(out + 24, slope, x, y)
    _store_three(out + 27, drop, x, y)
    _store_three(out + 30, slope * seen, x, y)
    _store_three(out + 33, drop * seen, x, y)
    tl.store(out + 36, tl.sum(shown * shown))
    tl.store(out + 37, tl.sum(shown))
    tl.store(out + 38, tl.sum(weight))
    tl.store(out + 39, tl.sum(shown * seen))
    tl.store(out + 40, tl.sum(seen))
    _store_three(out + 41, slope * blur, x, y)
    _store_three(out + 44, drop * blur, x, y)
    tl.store(out + 47, tl.sum(shown * blur))
    tl.store(out + 48, tl.sum(blur))
    tl.store(out + 49, tl.sum(blur * seen))
    tl.store(out + 50, tl.sum(blur * blur))


@triton.jit  # type: ignore[untyped-decorator]
def _chosen(values, index, INDEX: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the value at an index."""
    return tl.sum(tl.where(index == INDEX, values, 0.0))


@triton.jit  # type: ignore[untyped-decorator]
def solve(  # type: ignore[no-untyped-def]
    source, totals, entries, old, new, blocks, cell, half, AT_ONCE: tl.constexpr
):
    """Solve the normal equations of one map and displace its points by the solution.

    `totals`: room for PADDED sums over all blocks, in float64.
    `entries`: for each place in the 9 equations, which of the sums it is. There are 16 columns,
    because a tile has a power of 2: the unknowns except blur, their right side, and blur.
    """
    column = tl.arange(0, _PADDED)
    total = tl.zeros((AT_ONCE, _PADDED), dtype=tl.float64)
    for start in range(0, blocks, AT_ONCE):
        block = (start + tl.arange(0, AT_ONCE))[:, None]
        is_used = (block < blocks) & (column < _SUMS)[None, :]
        total += tl.load(source + block * _SUMS + column[None, :], mask=is_used, other=0.0)
    tl.store(totals + column, tl.sum(total, axis=0))
    # each thread reads sums that others have written
    tl.debug_barrier()
    row, column = tl.arange(0, 8), tl.arange(0, 16)
    entry = tl.load(entries + row[:, None] * 16 + column[None, :])
    system = tl.load(totals + entry, mask=entry >= 0, other=0.0)
    # a direction without structure is not moved along; gain and offset stay free
    is_moving = row[:, None] < 6
    ridge = tl.where(is_moving, system * _RIDGE, 0.0) + _TINY
    system += tl.where(row[:, None] == column[None, :], ridge, 0.0)
    # blur is eliminated first, because 8 rows are a power of 2
    entry = tl.load(entries + 8 * 16 + column)
    blur_line = tl.load(totals + entry, mask=entry >= 0, other=0.0)
    blur_factors = tl.load(totals + tl.load(entries + 8 * 16 + row))
    blur = tl.load(totals + (_SUMS - 1)) * (1 + _BLUR_RIDGE) + _TINY
    system -= blur_factors[:, None] * (blur_line / blur)[None, :]
    # Gauss–Jordan; the matrix is positive definite, so that no rows need to be exchanged
    for step in tl.static_range(8):
        line = tl.sum(tl.where(row[:, None] == step, system, 0.0), axis=0)
        line = line / _chosen(line, column, step)
        factors = tl.sum(tl.where(column[None, :] == step, system, 0.0), axis=1)
        reduced = system - factors[:, None] * line[None, :]
        system = tl.where(row[:, None] == step, line[None, :], reduced)
    solution = tl.sum(tl.where(column[None, :] == 8, system, 0.0), axis=1)

    # the coefficients of the gradients are gain · δ, so that δ has no meaning if gain is near 0
    gain = _chosen(solution, row, 6)
    is_valid = gain > _SLIGHT
    solution = solution / tl.where(is_valid, gain, 1.0)
    across, across_x, across_y = (
        _chosen(solution, row, 0), _chosen(solution, row, 1), _chosen(solution, row, 2)
    )  # fmt: skip
    down, down_x, down_y = (
        _chosen(solution, row, 3), _chosen(solution, row, 4), _chosen(solution, row, 5)
    )  # fmt: skip
    farthest = tl.maximum(
        tl.abs(across) + tl.abs(across_x) + tl.abs(across_y),
        tl.abs(down) + tl.abs(down_x) + tl.abs(down_y),
    )
    # longer steps leave the range of the linearization; an invalid step becomes 0
    shrink = tl.where(is_valid, _MAX_STEP / tl.maximum(farthest, _MAX_STEP), 0.0) * cell
    across, down = across * shrink, down * shrink
    shrink = shrink / half
    across_x, across_y = 1 + across_x * shrink, across_y * shrink
    down_x, down_y = down_x * shrink, 1 + down_y * shrink

    # map(x + M·x + m) = A·(I + M)·x + A·m + t
    for axis in tl.static_range(2):
        one = tl.load(old + 3 * axis)
        two = tl.load(old + 3 * axis + 1)
        shift = tl.load(old + 3 * axis + 2)
        tl.store(new + 3 * axis, one * across_x + two * down_x)
        tl.store(new + 3 * axis + 1, one * across_y + two * down_y)
        tl.store(new + 3 * axis + 2, one * across + two * down + shift)


@lru_cache(maxsize=8)
def entries_of(device: torch.device) -> Tensor:
    """Return which sum each place of the equations is, (9, 16); −1 for none."""
    table = torch.full((9, 16), -1, dtype=torch.int32)
    # the first sums of the products of slopes: of two of them, or of one and another feature
    pairs = {(0, 0): 0, (0, 1): 6, (1, 0): 6, (1, 1): 12}
    others = {6: (18, 21), 7: (24, 27), 8: (30, 33)}
    for row in range(6):
        for column in range(6):
            monomial = MONOMIALS[min(row % 3, column % 3), max(row % 3, column % 3)]
            table[row, column] = pairs[row // 3, column // 3] + monomial
        for column, first in others.items():
            table[row, column] = first[row // 3] + row % 3
            if column < 8:
                table[column, row] = table[row, column]
    table[6, 6:9] = torch.tensor([36, 37, 39])
    table[7, 6:9] = torch.tensor([37, 38, 40])
    # of blur: with the slopes, gain and offset, and the right side
    table[8, :9] = torch.arange(41, 50)
    return table.to(device)
