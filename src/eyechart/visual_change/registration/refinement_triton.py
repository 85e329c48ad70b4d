"""Gauss–Newton steps of `refinement` in Triton.

A step moves the clean image, sums the products of the normal equations over blocks of pixels, adds
the sums of all blocks in a fixed order, solves the equations in float64, and changes the map. On
small images one kernel does all steps, because the host would need longer to launch two kernels for
each.
"""

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from eyechart.visual_change.registration.refinement import (
    BEYOND,
    EDGE_SLOPE,
    FILL_GAINS,
    MARGIN_CELLS,
    MARGIN_PX,
    MAX_FILL_VARIANCE,
    MAX_STEP,
    MIN_FILLED,
    RIDGES,
    SLIGHT,
    TINY,
    centers_of,
)
from eyechart.visual_change.registration.warping_triton import loaded_map, sampled_near

SUMS = 51
"""Number of different products of two features, or of a feature and the corrupted image."""

PADDED = 64
"""Number of these sums, filled up to a power of 2."""

BLOCK, BLOCK_WARPED = 256, 512
"""Number of pixels of a large image that one program, which is one warp, sums at once, and that one
program moves.
"""

BLOCK_OF_ONE, WARPS_OF_ONE = 1024, 4
BLOCK_OF_MANY, WARPS_OF_MANY = 256, 1
"""Number of pixels of a small image that one program sums at once, and its warps: if there is one
map for each image, and if there are many hypotheses, which keep a GPU busy as they are.
"""

SMALL = 64 * 64
"""Number of pixels up to which one program does all steps of a map."""

BLOCKS_AT_ONCE = 8
"""Number of blocks whose sums each warp adds at once."""

WARPS = 4
"""Number of warps that add the sums of large images."""

MONOMIALS = {(0, 0): 0, (0, 1): 1, (0, 2): 2, (1, 1): 3, (1, 2): 4, (2, 2): 5}
"""Where the products of two of 1, x and y are in 1, x, y, x², xy, y²."""

# kernels read constants of a module only in this form
_MARGIN_CELLS, _MARGIN_PX = tl.constexpr(MARGIN_CELLS), tl.constexpr(MARGIN_PX)
_BEYOND, _EDGE_SLOPE = tl.constexpr(BEYOND), tl.constexpr(EDGE_SLOPE)
_MIN_FILLED, _MAX_FILL_VARIANCE = tl.constexpr(MIN_FILLED), tl.constexpr(MAX_FILL_VARIANCE)
_LOWEST_GAIN, _HIGHEST_GAIN = tl.constexpr(FILL_GAINS[0]), tl.constexpr(FILL_GAINS[1])
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
def _store_products(out, slope, drop, blur, shown, seen, weight, x, y):  # type: ignore[no-untyped-def]
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


@triton.jit
def _from_edge(x, y, map_, wide, high):  # type: ignore[no-untyped-def]
    """Return how far points are from the clean image's edge, in px of the corrupted one."""
    xx, xy, _, yx, yy, _ = map_
    across, down = tl.sqrt(xx * xx + xy * xy), tl.sqrt(yx * yx + yy * yy)
    return tl.minimum((wide - tl.abs(x)) / across, (high - tl.abs(y)) / down)


@triton.jit
def _is_visible(x, y, map_, wide, high, cell):  # type: ignore[no-untyped-def]
    """Return which points both images show."""
    margin = _MARGIN_CELLS * cell
    is_inside = (tl.abs(x) <= wide - margin) & (tl.abs(y) <= high - margin)
    return is_inside & (_from_edge(x, y, map_, wide, high) >= _MARGIN_PX)


@triton.jit
def _moved(x, y, map_):  # type: ignore[no-untyped-def]
    """Return where a map leads points."""
    xx, xy, x_shift, yx, yy, y_shift = map_
    return xx * x + xy * y + x_shift, yx * x + yy * y + y_shift


@triton.jit  # type: ignore[untyped-decorator]
def _sum_block(  # type: ignore[no-untyped-def]
    image, corrupted, points, map_, out, block, rows, columns, wide, high, cell, half, is_filled,
    STRIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sum the products of the normal equations over one block of pixels of a moved image.

    Only every STRIDE-th line is used. All pixels count if the image is filled.
    """
    place = block * BLOCK + tl.arange(0, BLOCK)
    row, column = place // columns * STRIDE, place % columns
    # the outermost cells have no central difference
    inner = (row > 0) & (row < rows - 1) & (column > 0) & (column < columns - 1)
    row = tl.minimum(row, rows - 1)
    x, y = tl.load(points + column), tl.load(points + rows * columns + row * columns)
    clean_x, clean_y = _moved(x, y, map_)
    is_visible = inner & _is_visible(clean_x, clean_y, map_, wide, high, cell)
    weight = tl.where(is_filled, inner, is_visible).to(tl.float32)
    seen = tl.load(corrupted + row * columns + column)
    pixel = image + row * columns + column
    shown = tl.load(pixel)
    # a masked load is 0, and these pixels have no weight
    ahead, behind = tl.load(pixel + 1, inner, 0.0), tl.load(pixel - 1, inner, 0.0)
    below, above = tl.load(pixel + columns, inner, 0.0), tl.load(pixel - columns, inner, 0.0)
    # x and y are scaled to −1 … 1, so that the normal equations are well conditioned
    _store_products(
        out + block * _SUMS, (ahead - behind) * 0.5, (below - above) * 0.5,
        ahead + behind + below + above - 4 * shown, shown, seen, weight,
        x / half, y / half,
    )  # fmt: skip


@triton.jit  # type: ignore[untyped-decorator]
def _chosen(values, index, INDEX: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the value at an index."""
    return tl.sum(tl.where(index == INDEX, values, 0.0))


@triton.jit  # type: ignore[untyped-decorator]
def _solve(  # type: ignore[no-untyped-def]
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


@triton.jit  # type: ignore[untyped-decorator]
def _warp_block(  # type: ignore[no-untyped-def]
    image, points, map_, target, begin, rows, columns, across, down, BLOCK: tl.constexpr
):
    """Move one block of pixels of a clean image; return them, where they are, and which they are.

    Points far outside the image have any value: only visible ones and their neighbors are used.
    """
    pixels = rows * columns
    place = begin + tl.arange(0, BLOCK)
    is_pixel = place < pixels
    # the last pixel is computed several times, so that loads need no mask
    place = tl.minimum(place, pixels - 1)
    row, column = place // columns, place % columns
    x, y = tl.load(points + column), tl.load(points + pixels + row * columns)
    x, y = _moved(x, y, map_)
    value = sampled_near(image, x, y, rows, columns, across, down)
    tl.store(target + place, value)
    inner = is_pixel & (row > 0) & (row < rows - 1) & (column > 0) & (column < columns - 1)
    return value, x, y, place, is_pixel, inner


@triton.jit(do_not_specialize=["n_maps", "rows", "columns"])  # type: ignore[untyped-decorator]
def _warp_large(  # type: ignore[no-untyped-def]
    clean, points, maps, images, n_maps, rows, columns, across, down, BLOCK: tl.constexpr
):
    """Move one block of pixels of a clean image.

    Maps of the same image follow each other, `n_maps` for each.
    """
    index, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    pixels = rows * columns
    _warp_block(
        clean + index // n_maps * pixels, points, loaded_map(maps, index), images + index * pixels,
        block * BLOCK, rows, columns, across, down, BLOCK,
    )  # fmt: skip


@triton.jit(do_not_specialize=["n_maps", "rows", "columns"])  # type: ignore[untyped-decorator]
def _sum_large(  # type: ignore[no-untyped-def]
    images, corrupted, points, maps, sums, n_maps, rows, columns, wide, high, cell, half,
    STRIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sum the products of the normal equations of one map over one block of pixels."""
    index, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    pixels = rows * columns
    _sum_block(
        images + index * pixels, corrupted + index // n_maps * pixels, points,
        loaded_map(maps, index), sums + index * tl.num_programs(1) * _SUMS, block,
        rows, columns, wide, high, cell, half, False, STRIDE, BLOCK,
    )  # fmt: skip


@triton.jit(do_not_specialize=["blocks"])  # type: ignore[untyped-decorator]
def _move_map(  # type: ignore[no-untyped-def]
    sums, totals, entries, maps, targets, blocks, cell, half, AT_ONCE: tl.constexpr
):
    """Solve the normal equations of one map and displace its points by the solution."""
    index = tl.program_id(0).to(tl.int64)
    _solve(
        sums + index * blocks * _SUMS, totals + index * _PADDED, entries,
        maps + index * 6, targets + index * 6, blocks, cell, half, AT_ONCE,
    )  # fmt: skip


@triton.jit  # type: ignore[untyped-decorator]
def _warp(  # type: ignore[no-untyped-def]
    image, seen, points, map_, target, rows, columns, across, down, wide, high, cell,
    FILL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Move a clean image by a map.

    Returns:
        Whether the corrupted image is filled with one color, if FILL, and the color in gray levels
        of the clean image; see `refinement._filled`.
    """
    pixels = rows * columns
    # of what both show: their number, sums, squares and products; of the fill, and of all pixels
    count, first, second, squares, products = 0.0, 0.0, 0.0, 0.0, 0.0
    n_beyond, color, color_squares, total, total_squares = 0.0, 0.0, 0.0, 0.0, 0.0
    for begin in range(0, pixels, BLOCK):
        value, x, y, place, is_pixel, inner = _warp_block(
            image, points, map_, target, begin, rows, columns, across, down, BLOCK
        )
        if FILL:
            level = tl.load(seen + place)
            visible = (inner & _is_visible(x, y, map_, wide, high, cell)).to(tl.float32)
            distance = _from_edge(x, y, map_, wide, high)
            beyond = (inner & (distance < -_BEYOND * cell)).to(tl.float32)
            count += tl.sum(visible)
            first += tl.sum(value * visible)
            second += tl.sum(level * visible)
            squares += tl.sum(value * value * visible)
            products += tl.sum(value * level * visible)
            n_beyond += tl.sum(beyond)
            color += tl.sum(level * beyond)
            color_squares += tl.sum(level * level * beyond)
            total += tl.sum(tl.where(is_pixel, level, 0.0))
            total_squares += tl.sum(tl.where(is_pixel, level * level, 0.0))
    count, area = tl.maximum(count, 1.0), tl.maximum(n_beyond, 1.0)
    first, second, color, total = first / count, second / count, color / area, total / pixels
    variance = color_squares / area - color * color
    overall = total_squares / pixels - total * total
    is_filled = (n_beyond >= _MIN_FILLED * pixels) & (variance < _MAX_FILL_VARIANCE * overall)
    spread = tl.maximum(squares - count * first * first, 1e-6)
    gain = (products - count * first * second) / spread
    gain = tl.minimum(tl.maximum(gain, _LOWEST_GAIN), _HIGHEST_GAIN)
    return is_filled, (color - second) / gain + first


@triton.jit  # type: ignore[untyped-decorator]
def _continue(  # type: ignore[no-untyped-def]
    image, points, map_, rows, columns, wide, high, cell, color, BLOCK: tl.constexpr
):
    """Continue a moved image by a color beyond its edge, in place."""
    pixels = rows * columns
    for begin in range(0, pixels, BLOCK):
        place = begin + tl.arange(0, BLOCK)
        is_pixel = place < pixels
        row, column = place // columns, place % columns
        x = tl.load(points + column)
        y = tl.load(points + pixels + row * columns, mask=is_pixel, other=0.0)
        x, y = _moved(x, y, map_)
        share = 0.5 + _EDGE_SLOPE * _from_edge(x, y, map_, wide, high) / cell
        share = tl.minimum(tl.maximum(share, 0.0), 1.0)
        value = tl.load(image + place, mask=is_pixel, other=0.0)
        tl.store(image + place, color + share * (value - color), mask=is_pixel)


@triton.jit(do_not_specialize=["n_maps", "rows", "columns", "blocks", "steps"])  # type: ignore[untyped-decorator]
def _take_steps(  # type: ignore[no-untyped-def]
    clean, corrupted, points, maps, images, sums, totals, entries,
    n_maps, rows, columns, blocks, steps, across, down, wide, high, cell, half,
    FILL: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Take all steps of one map, which is changed in place.

    `images`: room for one image per program.
    """
    index = tl.program_id(0).to(tl.int64)
    pixels = rows * columns
    start = index // n_maps * pixels
    first, image = sums + index * blocks * _SUMS, images + index * pixels
    for _ in range(steps):
        map_ = loaded_map(maps, index)
        is_filled, color = _warp(
            clean + start, corrupted + start, points, map_, image,
            rows, columns, across, down, wide, high, cell, FILL, BLOCK,
        )  # fmt: skip
        # each thread reads pixels, then sums, and then the map, that others have written
        tl.debug_barrier()
        if is_filled:
            _continue(image, points, map_, rows, columns, wide, high, cell, color, BLOCK)
            tl.debug_barrier()
        for block in range(blocks):
            _sum_block(
                image, corrupted + start, points, map_, first, block,
                rows, columns, wide, high, cell, half, is_filled, STRIDE, BLOCK,
            )  # fmt: skip
        tl.debug_barrier()
        _solve(
            first, totals + index * _PADDED, entries, maps + index * 6, maps + index * 6,
            blocks, cell, half, AT_ONCE,
        )  # fmt: skip
        tl.debug_barrier()


@lru_cache(maxsize=8)
def _entries(device: torch.device) -> Tensor:
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


def refine_in_triton(
    clean: Tensor,
    corrupted: Tensor,
    maps: Tensor,
    size: tuple[int, int],
    steps: int,
    stride: int = 1,
    has_fill: bool = False,
) -> Tensor:
    """Return better maps (B · n, 2, 3), n for each pair of images (B, h, w); see `refine`.

    Large images, which are refined last, have no fill.
    """
    clean, corrupted, maps = clean.contiguous(), corrupted.contiguous(), maps.contiguous()
    rows, columns = corrupted.shape[1:]
    points = centers_of(rows, columns, size, corrupted.device)
    is_small = rows * columns <= SMALL
    block_of_small, warps = (
        (BLOCK_OF_MANY, WARPS_OF_MANY) if has_fill else (BLOCK_OF_ONE, WARPS_OF_ONE)
    )
    block = block_of_small if is_small else BLOCK
    blocks = triton.cdiv(-(-rows // stride) * columns, block)
    sums = torch.empty((len(maps), blocks, SUMS), dtype=torch.float32, device=maps.device)
    totals = torch.empty((len(maps), PADDED), dtype=torch.float64, device=maps.device)
    entries = _entries(maps.device)
    cell, half = size[1] / columns, max(size) / 2
    n_maps = len(maps) // len(clean)
    scales = (columns / size[1], rows / size[0])
    lengths = (size[1] / 2, size[0] / 2, cell, half)
    images = clean.new_empty((len(maps), rows, columns))
    if is_small:
        maps = maps.clone()
        _take_steps[len(maps),](
            clean, corrupted, points, maps, images, sums, totals, entries,
            n_maps, rows, columns, blocks, steps, *scales, *lengths,
            FILL=has_fill, STRIDE=stride, BLOCK=block, AT_ONCE=BLOCKS_AT_ONCE, num_warps=warps,
        )  # fmt: skip
        return maps
    for _ in range(steps):
        _warp_large[len(maps), triton.cdiv(rows * columns, BLOCK_WARPED)](
            clean, points, maps, images, n_maps, rows, columns, *scales, BLOCK=BLOCK_WARPED
        )
        _sum_large[len(maps), blocks](
            images, corrupted, points, maps, sums, n_maps, rows, columns, *lengths,
            STRIDE=stride, BLOCK=block, num_warps=1,
        )  # fmt: skip
        refined = torch.empty_like(maps)
        _move_map[len(maps),](
            sums, totals, entries, maps, refined, blocks, cell, half,
            AT_ONCE=WARPS * BLOCKS_AT_ONCE, num_warps=WARPS,
        )  # fmt: skip
        maps = refined
    return maps
