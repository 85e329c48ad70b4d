"""The normal equations of a Gauss–Newton step in Triton: their sums, and their solution.

The steps themselves are in `refinement_triton`.
"""

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from eyechart.visual_change.registration.refinement import MAX_STEP, RIDGES, SLIGHT, TINY

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
