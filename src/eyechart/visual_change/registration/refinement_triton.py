"""Gauss–Newton steps of `refinement` in Triton.

A step sums the products of the normal equations over blocks of pixels, adds the sums of all blocks
in a fixed order, solves the equations in float64, and moves the map. On small images one kernel
does all steps, because the host would need longer to launch two kernels for each.
"""

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from eyechart.visual_change.registration.refinement import (
    MAX_STEP,
    RIDGE,
    SLIGHT,
    TINY,
    centers_of,
)
from eyechart.visual_change.registration.warping_triton import loaded_map, sampled_near

SUMS = 41
"""Number of different products of two features, or of a feature and the corrupted image."""

PADDED = 64
"""Number of these sums, filled up to a power of 2."""

BLOCK, BLOCK_OF_SMALL = 128, 256
"""Number of pixels that one program, which is one warp, sums at once."""

SMALL = 64 * 64
"""Number of pixels up to which one program does all steps of a map."""

BLOCKS_AT_ONCE = 8
"""Number of blocks whose sums each warp adds at once."""

WARPS = 4
"""Number of warps that add the sums of large images."""

MONOMIALS = {(0, 0): 0, (0, 1): 1, (0, 2): 2, (1, 1): 3, (1, 2): 4, (2, 2): 5}
"""Where the products of two of 1, x and y are in 1, x, y, x², xy, y²."""


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


@triton.jit  # type: ignore[untyped-decorator]
def _sum_block(  # type: ignore[no-untyped-def]
    clean, corrupted, points, maps, out, index, block, n_maps, rows, columns,
    across, down, limit_x, limit_y, half, STRIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sum the products of the normal equations over one block of pixels of an image.

    Maps of the same image follow each other, `n_maps` for each. Only every STRIDE-th line is used.
    """
    pixels = rows * columns
    start = index // n_maps * pixels
    place = block * BLOCK + tl.arange(0, BLOCK)
    row, column = place // columns * STRIDE, place % columns
    inner = row < rows
    row = tl.minimum(row, rows - 1)
    # the outermost cells have no central difference
    inner = inner & (row > 0) & (row < rows - 1) & (column > 0) & (column < columns - 1)
    xx, xy, x_shift, yx, yy, y_shift = loaded_map(maps, index)
    x = tl.load(points + column)
    y = tl.load(points + pixels + row * columns)
    left = tl.load(points + tl.maximum(column - 1, 0))
    right = tl.load(points + tl.minimum(column + 1, columns - 1))
    upper = tl.load(points + pixels + tl.maximum(row - 1, 0) * columns)
    lower = tl.load(points + pixels + tl.minimum(row + 1, rows - 1) * columns)

    # farther points have no weight: only visible ones and their neighbors are used
    image = clean + start
    clean_x = xx * x + xy * y + x_shift
    clean_y = yx * x + yy * y + y_shift
    is_visible = inner & (tl.abs(clean_x) <= limit_x) & (tl.abs(clean_y) <= limit_y)
    weight = is_visible.to(tl.float32)
    warped = sampled_near(image, clean_x, clean_y, rows, columns, across, down) * weight
    ahead = sampled_near(
        image, xx * right + xy * y + x_shift, yx * right + yy * y + y_shift,
        rows, columns, across, down,
    )  # fmt: skip
    behind = sampled_near(
        image, xx * left + xy * y + x_shift, yx * left + yy * y + y_shift,
        rows, columns, across, down,
    )  # fmt: skip
    below = sampled_near(
        image, xx * x + xy * lower + x_shift, yx * x + yy * lower + y_shift,
        rows, columns, across, down,
    )  # fmt: skip
    above = sampled_near(
        image, xx * x + xy * upper + x_shift, yx * x + yy * upper + y_shift,
        rows, columns, across, down,
    )  # fmt: skip
    slope = (ahead - behind) * 0.5 * weight
    drop = (below - above) * 0.5 * weight
    seen = tl.load(corrupted + start + row * columns + column) * weight
    # scaled to −1 … 1, so that the normal equations are well conditioned
    x, y = x / half, y / half

    _store_six(out, slope * slope, x, y)
    _store_six(out + 6, slope * drop, x, y)
    _store_six(out + 12, drop * drop, x, y)
    _store_three(out + 18, slope * warped, x, y)
    _store_three(out + 21, drop * warped, x, y)
    _store_three(out + 24, slope, x, y)
    _store_three(out + 27, drop, x, y)
    _store_three(out + 30, slope * seen, x, y)
    _store_three(out + 33, drop * seen, x, y)
    tl.store(out + 36, tl.sum(warped * warped))
    tl.store(out + 37, tl.sum(warped))
    tl.store(out + 38, tl.sum(weight))
    tl.store(out + 39, tl.sum(warped * seen))
    tl.store(out + 40, tl.sum(seen))


@triton.jit  # type: ignore[untyped-decorator]
def _chosen(values, index, INDEX: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the value at an index."""
    return tl.sum(tl.where(index == INDEX, values, 0.0))


@triton.jit  # type: ignore[untyped-decorator]
def _solve(  # type: ignore[no-untyped-def]
    source, totals, entries, old, new, blocks, cell, half,
    SUMS: tl.constexpr, PADDED: tl.constexpr, RIDGE: tl.constexpr, TINY: tl.constexpr,
    MAX_STEP: tl.constexpr, SLIGHT: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Solve the normal equations of one map and displace its points by the solution.

    `totals`: room for PADDED sums over all blocks, in float64.
    `entries`: for each place in the 8 equations, with their right side in column 8, which of the
    sums it is. There are 16 columns, because a tile has a power of 2.
    """
    column = tl.arange(0, PADDED)
    total = tl.zeros((AT_ONCE, PADDED), dtype=tl.float64)
    for start in range(0, blocks, AT_ONCE):
        block = (start + tl.arange(0, AT_ONCE))[:, None]
        is_used = (block < blocks) & (column < SUMS)[None, :]
        total += tl.load(source + block * SUMS + column[None, :], mask=is_used, other=0.0)
    tl.store(totals + column, tl.sum(total, axis=0))
    # each thread reads sums that others have written
    tl.debug_barrier()
    row, column = tl.arange(0, 8), tl.arange(0, 16)
    entry = tl.load(entries + row[:, None] * 16 + column[None, :])
    system = tl.load(totals + entry, mask=entry >= 0, other=0.0)
    # a direction without structure is not moved along; gain and offset stay free
    is_moving = row[:, None] < 6
    ridge = tl.where(is_moving, system * RIDGE, 0.0) + TINY
    system += tl.where(row[:, None] == column[None, :], ridge, 0.0)
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
    is_valid = gain > SLIGHT
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
    shrink = tl.where(is_valid, MAX_STEP / tl.maximum(farthest, MAX_STEP), 0.0) * cell
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


@triton.jit(do_not_specialize=["n_maps", "rows", "columns"])  # type: ignore[untyped-decorator]
def _sum_products(  # type: ignore[no-untyped-def]
    clean, corrupted, points, maps, sums, n_maps, rows, columns,
    across, down, limit_x, limit_y, half,
    SUMS: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sum the products of the normal equations of one map over one block of pixels."""
    index, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    _sum_block(
        clean, corrupted, points, maps, sums + (index * tl.num_programs(1) + block) * SUMS,
        index, block, n_maps, rows, columns, across, down, limit_x, limit_y, half, STRIDE, BLOCK,
    )  # fmt: skip


@triton.jit(do_not_specialize=["blocks"])  # type: ignore[untyped-decorator]
def _move_map(  # type: ignore[no-untyped-def]
    sums, totals, entries, maps, targets, blocks, cell, half,
    SUMS: tl.constexpr, PADDED: tl.constexpr, RIDGE: tl.constexpr, TINY: tl.constexpr,
    MAX_STEP: tl.constexpr, SLIGHT: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Solve the normal equations of one map and displace its points by the solution."""
    index = tl.program_id(0).to(tl.int64)
    _solve(
        sums + index * blocks * SUMS, totals + index * PADDED, entries,
        maps + index * 6, targets + index * 6, blocks, cell, half,
        SUMS, PADDED, RIDGE, TINY, MAX_STEP, SLIGHT, AT_ONCE,
    )  # fmt: skip


@triton.jit(do_not_specialize=["n_maps", "rows", "columns", "blocks", "steps"])  # type: ignore[untyped-decorator]
def _take_steps(  # type: ignore[no-untyped-def]
    clean, corrupted, points, maps, sums, totals, entries,
    n_maps, rows, columns, blocks, steps, across, down, limit_x, limit_y, cell, half,
    SUMS: tl.constexpr, PADDED: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr,
    RIDGE: tl.constexpr, TINY: tl.constexpr, MAX_STEP: tl.constexpr, SLIGHT: tl.constexpr,
    AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Take all steps of one map, which is changed in place."""
    index = tl.program_id(0).to(tl.int64)
    first = sums + index * blocks * SUMS
    for _ in range(steps):
        for block in range(blocks):
            _sum_block(
                clean, corrupted, points, maps, first + block * SUMS, index, block,
                n_maps, rows, columns, across, down, limit_x, limit_y, half, STRIDE, BLOCK,
            )  # fmt: skip
        # each thread reads sums, and then the map, that others have written
        tl.debug_barrier()
        _solve(
            first, totals + index * PADDED, entries, maps + index * 6, maps + index * 6,
            blocks, cell, half, SUMS, PADDED, RIDGE, TINY, MAX_STEP, SLIGHT, AT_ONCE,
        )  # fmt: skip
        tl.debug_barrier()


@lru_cache(maxsize=8)
def _entries(device: torch.device) -> Tensor:
    """Return which sum each place of the equations is, (8, 16); −1 for none."""
    table = torch.full((8, 16), -1, dtype=torch.int32)
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
    return table.to(device)


def refine_in_triton(
    clean: Tensor,
    corrupted: Tensor,
    maps: Tensor,
    size: tuple[int, int],
    steps: int,
    stride: int = 1,
) -> Tensor:
    """Return better maps (B · n, 2, 3), n for each pair of images (B, h, w); see `refine`."""
    clean, corrupted, maps = clean.contiguous(), corrupted.contiguous(), maps.contiguous()
    rows, columns = corrupted.shape[1:]
    points = centers_of(rows, columns, size, corrupted.device)
    is_small = rows * columns <= SMALL
    block = BLOCK_OF_SMALL if is_small else BLOCK
    blocks = triton.cdiv(-(-rows // stride) * columns, block)
    sums = torch.empty((len(maps), blocks, SUMS), dtype=torch.float32, device=maps.device)
    totals = torch.empty((len(maps), PADDED), dtype=torch.float64, device=maps.device)
    entries = _entries(maps.device)
    cell, half = size[1] / columns, max(size) / 2
    n_maps = len(maps) // len(clean)
    scales = (
        columns / size[1], rows / size[0], size[1] / 2 - 2 * cell, size[0] / 2 - 2 * cell,
    )  # fmt: skip
    constants = {
        "SUMS": SUMS, "PADDED": PADDED, "RIDGE": RIDGE, "TINY": TINY, "MAX_STEP": MAX_STEP,
        "SLIGHT": SLIGHT,
    }  # fmt: skip
    if is_small:
        maps = maps.clone()
        _take_steps[len(maps),](
            clean, corrupted, points, maps, sums, totals, entries,
            n_maps, rows, columns, blocks, steps, *scales, cell, half,
            STRIDE=stride, BLOCK=block, AT_ONCE=BLOCKS_AT_ONCE, num_warps=1, **constants,
        )  # fmt: skip
        return maps
    for _ in range(steps):
        _sum_products[len(maps), blocks](
            clean, corrupted, points, maps, sums, n_maps, rows, columns, *scales, half,
            SUMS=SUMS, STRIDE=stride, BLOCK=block, num_warps=1,
        )  # fmt: skip
        refined = torch.empty_like(maps)
        _move_map[len(maps),](
            sums, totals, entries, maps, refined, blocks, cell, half,
            AT_ONCE=WARPS * BLOCKS_AT_ONCE, num_warps=WARPS, **constants,
        )  # fmt: skip
        maps = refined
    return maps
