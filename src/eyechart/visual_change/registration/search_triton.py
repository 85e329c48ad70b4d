"""The search for a rough map in Triton: reduced images, their copies, and the best shifts.

Correlations with all near shifts are a product of matrices here, because its kernel keeps only the
maximum over the shifts, while Fourier transforms would write all of them to memory several times.
"""

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from eyechart.visual_change.registration.refinement import centers_of
from eyechart.visual_change.registration.search import (
    REACH,
    SIDE,
    candidates,
    linear_maps,
    overlaps,
    thumbnail_size,
)
from eyechart.visual_change.registration.warping import reduced
from eyechart.visual_change.registration.warping_triton import gaussian, sampled

BLOCK = 128
"""Number of cells that one program averages."""

SHIFTS, WIDE = 2 * REACH + 1, SIDE + 2 * REACH
"""Number of shifts along an axis, and cells along a side of an image with room for all of them."""

N_MAPS_AT_ONCE, N_SHIFTS_AT_ONCE, WARPS, STAGES = 128, 64, 8, 2
"""Number of linear maps and shifts that one program correlates at once, its warps, and how many
tiles it loads ahead. With fewer warps, the sums would not fit into their registers.
"""

PRECISION = "tf32x3"
"""How matrices are multiplied: on tensor cores, in three parts, which is as precise as float32."""


@triton.jit(do_not_specialize=["count", "rows", "columns"])  # type: ignore[untyped-decorator]
def _reduce(source, target, cells, count, rows, columns, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Average an image over cells, whose first and last rows and columns are in a table."""
    image = tl.program_id(0).to(tl.int64)
    place = tl.minimum(tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), count - 1)
    top, bottom = tl.load(cells + place), tl.load(cells + count + place)
    left, right = tl.load(cells + 2 * count + place), tl.load(cells + 3 * count + place)
    corner = source + image * rows * columns + top * columns + left
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for down in range(0, tl.max(bottom - top)):
        for across in tl.range(0, tl.max(right - left), loop_unroll_factor=4):
            is_inside = (top + down < bottom) & (left + across < right)
            total += tl.load(corner + down * columns + across, mask=is_inside, other=0.0)
    area = (bottom - top) * (right - left)
    tl.store(target + image * count + place, total / area.to(tl.float32))


@triton.jit  # type: ignore[untyped-decorator]
def _filtered(tile, down, across, PRECISION: tl.constexpr):  # type: ignore[no-untyped-def]
    """Filter a tile along both axes, by matrices."""
    lines = tl.dot(tile, across, input_precision=PRECISION)
    return tl.dot(down, lines, input_precision=PRECISION)


@triton.jit(
    do_not_specialize=[
        "n_maps",
        "cells",
        "rows",
        "columns",
        "height",
        "width",
        "stride",
        "line",
        "first",
    ]
)  # type: ignore[untyped-decorator]
def _copy(  # type: ignore[no-untyped-def]
    images, points, linear, origins, filters, target,
    n_maps, cells, rows, columns, height, width, limit_x, limit_y, stride, line, first,
    SIDE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Sample one small copy, turned and scaled by a linear map, and equalize its contrasts.

    `origins`: for each map, where the image that it reads begins, its rows, and its columns.
    `stride`, `line`, `first`: cells of the target from copy to copy, from line to line, and before
    the first one.
    """
    index = tl.program_id(0).to(tl.int64)
    image, place = index // n_maps, index % n_maps
    # the copy may have fewer rows or columns than the tile; filters leave out the others
    row, column = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)[None, :]
    down, across = tl.minimum(row, rows - 1), tl.minimum(column, columns - 1)
    x = tl.load(points + across)
    y = tl.load(points + rows * columns + down * columns)
    xx = tl.load(linear + place * 4).to(tl.float32)
    xy = tl.load(linear + place * 4 + 1).to(tl.float32)
    yx = tl.load(linear + place * 4 + 2).to(tl.float32)
    yy = tl.load(linear + place * 4 + 3).to(tl.float32)
    clean_x, clean_y = xx * x + xy * y, yx * x + yy * y
    source = images + image * cells + tl.load(origins + place * 3)
    high, wide = tl.load(origins + place * 3 + 1), tl.load(origins + place * 3 + 2)
    tile = sampled(
        source, clean_x, clean_y, high, wide,
        wide.to(tl.float32) / width, high.to(tl.float32) / height,
    )  # fmt: skip

    entry = filters + row * SIDE + column
    fine_down, fine_across = tl.load(entry), tl.load(entry + SIDE * SIDE)
    coarse_down = tl.load(entry + 2 * SIDE * SIDE)
    coarse_across = tl.load(entry + 3 * SIDE * SIDE)
    band = _filtered(tile, fine_down, fine_across, PRECISION)
    band -= _filtered(tile, coarse_down, coarse_across, PRECISION)
    energy = band * band
    local = _filtered(energy, coarse_down, coarse_across, PRECISION)
    overall = tl.sum(tl.sum(energy, axis=1), axis=0) / (rows * columns)
    # the added terms keep noise in flat areas from being raised to full contrast
    value = band / tl.sqrt(local + 0.1 * overall + 1e-3)
    # masked after the filters, which would see the border of the mask as an edge
    is_visible = (tl.abs(clean_x) <= limit_x) & (tl.abs(clean_y) <= limit_y)
    is_visible = is_visible & (row < rows) & (column < columns)
    out = target + index * stride + first + row * line + column
    tl.store(out, tl.where(is_visible, value, 0.0))


@triton.jit  # type: ignore[untyped-decorator]
def _correlate(  # type: ignore[no-untyped-def]
    copies, images, overlaps, scores, places, n_maps,
    SIDE: tl.constexpr, WIDE: tl.constexpr, SHIFTS: tl.constexpr,
    N_MAPS: tl.constexpr, N_SHIFTS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Correlate an image with some of its copies at all shifts, and keep each one's best shift."""
    image = tl.program_id(0).to(tl.int64)
    # the last program computes the last map several times, so that loads need no mask
    number = tl.minimum(tl.program_id(1) * N_MAPS + tl.arange(0, N_MAPS), n_maps - 1)
    line = tl.arange(0, SIDE)
    # int64 for the image alone, because offsets of 64 bits would take twice the registers
    first_copy, first_pixel = copies + image * n_maps * (SIDE * SIDE), images + image * WIDE * WIDE
    cells = number[:, None] * (SIDE * SIDE) + line[None, :]
    best = tl.full((N_MAPS,), float("-inf"), dtype=tl.float32)
    place = tl.zeros((N_MAPS,), dtype=tl.int32)
    for start in range(0, SHIFTS * SHIFTS, N_SHIFTS):
        shift = tl.minimum(start + tl.arange(0, N_SHIFTS), SHIFTS * SHIFTS - 1)
        corner = shift // SHIFTS * WIDE + shift % SHIFTS
        pixels = line[:, None] + corner[None, :]
        total = tl.zeros((N_MAPS, N_SHIFTS), dtype=tl.float32)
        for row in range(0, SIDE):
            one = tl.load(first_copy + row * SIDE + cells)
            two = tl.load(first_pixel + row * WIDE + pixels)
            total = tl.dot(one, two, total, input_precision=PRECISION)
        weight = overlaps + number[:, None] * (SHIFTS * SHIFTS) + shift[None, :]
        score = total * tl.load(weight)
        highest = tl.max(score, axis=1)
        # repeated shifts at the end are the last one
        where = tl.minimum(start + tl.argmax(score, axis=1), SHIFTS * SHIFTS - 1)
        is_better = highest > best
        best = tl.where(is_better, highest, best)
        place = tl.where(is_better, where, place)
    tl.store(scores + image * n_maps + number, best)
    tl.store(places + image * n_maps + number, place.to(tl.int64))


def describe_in_triton(gray: Tensor) -> Tensor:
    """Return small copies (B, N, SIDE · SIDE) of gray images (B, H, W), by all linear maps."""
    size = (gray.shape[1], gray.shape[2])
    cells, origins = _cells(size, gray.device)
    count = cells.shape[1]
    small = gray.new_empty((len(gray), count))
    _reduce[len(gray), triton.cdiv(count, BLOCK)](
        gray.contiguous(), small, cells, count, *size, BLOCK=BLOCK
    )
    linear = linear_maps(gray.device)
    copies = gray.new_empty((len(gray), len(linear), SIDE * SIDE))
    _make_copies(small, linear, origins, size, copies, (SIDE * SIDE, SIDE, 0))
    return copies


def scores_in_triton(copies: Tensor, corrupted: Tensor) -> tuple[Tensor, Tensor]:
    """Return the score of the best shift of each linear map (B, N), and which shift it is.

    Shifts from −REACH to REACH are counted line by line, as in `search`.
    """
    size, device = (corrupted.shape[1], corrupted.shape[2]), corrupted.device
    rows, columns = thumbnail_size(size)
    small = reduced(corrupted, rows, columns).contiguous()
    linear, origins = _identity(rows, columns, device)
    # zeros around the image, so that every shift reads from it
    images = corrupted.new_zeros((len(corrupted), WIDE, WIDE))
    _make_copies(small, linear, origins, size, images, (WIDE * WIDE, WIDE, REACH * WIDE + REACH))
    count = copies.shape[1]
    scores = torch.empty((len(images), count), dtype=torch.float32, device=device)
    places = torch.empty((len(images), count), dtype=torch.int64, device=device)
    _correlate[len(images), triton.cdiv(count, N_MAPS_AT_ONCE)](
        copies.contiguous(), images, overlaps(size, device).contiguous(), scores, places, count,
        SIDE=SIDE, WIDE=WIDE, SHIFTS=SHIFTS, N_MAPS=N_MAPS_AT_ONCE, N_SHIFTS=N_SHIFTS_AT_ONCE,
        PRECISION=PRECISION, num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    return scores, places


def _make_copies(
    small: Tensor, linear: Tensor, origins: Tensor, size: tuple[int, int], target: Tensor,
    layout: tuple[int, int, int],
) -> None:  # fmt: skip
    """Write the copies by all linear maps of all reduced images into `target`."""
    rows, columns = thumbnail_size(size)
    _copy[len(small) * len(linear),](
        small, centers_of(rows, columns, size, small.device), linear, origins,
        _filters(rows, columns, small.device), target,
        len(linear), small[0].numel(), rows, columns, *size, size[1] / 2, size[0] / 2, *layout,
        SIDE=SIDE, PRECISION=PRECISION, num_warps=2,
    )  # fmt: skip


@lru_cache(maxsize=8)
def _cells(size: tuple[int, int], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the cells of all reduced copies of an image, and which copy each map is sampled from.

    Returns:
        The first row of each cell, the one after its last row, and the same of columns (4, cells);
        and for each linear map the first cell of its copy, its rows and its columns (N, 3).
    """
    parts, origins, first = [], [], 0
    for magnification, linear in candidates().items():
        # no finer than the image itself
        grid = thumbnail_size(size, min(magnification, max(size) / SIDE))
        (top, bottom), (left, right) = (_bounds(*one) for one in zip(size, grid, strict=True))
        edges = [one.repeat_interleave(grid[1]) for one in (top, bottom)]
        parts.append(torch.stack(edges + [one.repeat(grid[0]) for one in (left, right)]))
        origins += [(first, *grid)] * len(linear)
        first += grid[0] * grid[1]
    table = torch.tensor(origins, dtype=torch.int32)
    return torch.cat(parts, dim=1).to(device), table.to(device)


def _bounds(side: int, count: int) -> tuple[Tensor, Tensor]:
    """Return where cells along a side begin and end, rounded outwards to whole pixels."""
    cell = torch.arange(count, dtype=torch.int32)
    return cell * side // count, -(-(cell + 1) * side // count)


@lru_cache(maxsize=8)
def _identity(rows: int, columns: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the linear map (1, 2, 2) that moves nothing, and its entry in a table of origins."""
    origin = torch.tensor([[0, rows, columns]], dtype=torch.int32)
    return torch.eye(2, dtype=torch.float64, device=device)[None], origin.to(device)


@lru_cache(maxsize=8)
def _filters(rows: int, columns: int, device: torch.device) -> Tensor:
    """Return the filters of `contrasts` as matrices (4, SIDE, SIDE): down and across, by sigma."""
    matrices = []
    for sigma in (0.7, 3.0):
        weights = gaussian(sigma, min(rows, columns))
        matrices += [_matrix(weights, rows), _matrix(weights, columns).T]
    return torch.stack(matrices).contiguous().to(device)


def _matrix(weights: tuple[float, ...], side: int) -> Tensor:
    """Return the convolution of `side` cells, with reflection, as a matrix filled up by zeros."""
    matrix = torch.zeros((SIDE, SIDE))
    for cell in range(side):
        for tap, weight in enumerate(weights):
            place = abs(cell + tap - len(weights) // 2)
            matrix[cell, min(place, 2 * side - 2 - place)] += weight
    return matrix
