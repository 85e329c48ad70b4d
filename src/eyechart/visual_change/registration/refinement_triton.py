"""Gauss–Newton steps of `refinement` in Triton.

A step moves the clean image, sums the products of the normal equations over blocks of pixels, adds
the sums of all blocks in a fixed order, solves the equations in float64, and changes the map. On
small images one kernel does all steps, because the host would need longer to launch two kernels for
each.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from eyechart.visual_change.registration.agreement_triton import (
    PADDED,
    SUMS,
    entries_of,
    solve,
    store_products,
)
from eyechart.visual_change.registration.refinement import (
    BEYOND,
    EDGE_SLOPE,
    FILL_GAINS,
    MARGIN_CELLS,
    MARGIN_PX,
    MAX_FILL_VARIANCE,
    MIN_FILLED,
    centers_of,
)
from eyechart.visual_change.registration.warping_triton import loaded_map, sampled_near

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

# kernels read constants of a module only in this form
_MARGIN_CELLS, _MARGIN_PX = tl.constexpr(MARGIN_CELLS), tl.constexpr(MARGIN_PX)
_BEYOND, _EDGE_SLOPE = tl.constexpr(BEYOND), tl.constexpr(EDGE_SLOPE)
_MIN_FILLED, _MAX_FILL_VARIANCE = tl.constexpr(MIN_FILLED), tl.constexpr(MAX_FILL_VARIANCE)
_LOWEST_GAIN, _HIGHEST_GAIN = tl.constexpr(FILL_GAINS[0]), tl.constexpr(FILL_GAINS[1])
_SUMS, _PADDED = tl.constexpr(SUMS), tl.constexpr(PADDED)


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
    store_products(
        out + block * _SUMS, (ahead - behind) * 0.5, (below - above) * 0.5,
        ahead + behind + below + above - 4 * shown, shown, seen, weight,
        x / half, y / half,
    )  # fmt: skip


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
    solve(
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
        solve(
            first, totals + index * _PADDED, entries, maps + index * 6, maps + index * 6,
            blocks, cell, half, AT_ONCE,
        )  # fmt: skip
        tl.debug_barrier()


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
    entries = entries_of(maps.device)
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
