"""The search for a rough map in Triton: reduced images, their copies, and the best shifts.

Correlations with all near shifts are a product of matrices here, because its kernel keeps only the
maximum over the shifts, while Fourier transforms would write all of them to memory several times.
Copies are float16: scores of about 20 change by about 0.01, and the maps are refined afterwards.
"""

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from eyechart.visual_change.registration.refinement import centers_of
from eyechart.visual_change.registration.search import (
    FLAT,
    MAX_GAP,
    NOISIER,
    REACH,
    SIDE,
    candidates,
    has_large_cells,
    linear_maps,
    overlaps,
    thumbnail_size,
)
from eyechart.visual_change.registration.warping_triton import gaussian, sampled

BLOCK = 128
"""Number of cells that one program averages."""

SHIFTS, WIDE = 2 * REACH + 1, SIDE + 2 * REACH
"""Number of shifts along an axis, and cells along a side of an image with room for all of them."""

N_MAPS_AT_ONCE, N_SHIFTS_AT_ONCE, WARPS, STAGES = 128, 64, 4, 3
"""Number of linear maps and shifts that one program correlates at once, its warps, and how many
tiles it loads ahead.
"""

# kernels read constants of a module only in this form
_NOISIER, _MAX_GAP = tl.constexpr(NOISIER), tl.constexpr(MAX_GAP)


@triton.jit(do_not_specialize=["count", "rows", "columns"])  # type: ignore[untyped-decorator]
def _reduce(  # type: ignore[no-untyped-def]
    source, target, spread, cells, count, rows, columns, SPREAD: tl.constexpr, BLOCK: tl.constexpr
):
    """Average an image over cells, whose first and last rows and columns are in a table.

    `spread`: where to write the range of gray levels within each cell, if SPREAD.
    """
    image = tl.program_id(0).to(tl.int64)
    place = tl.minimum(tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), count - 1)
    top, bottom = tl.load(cells + place), tl.load(cells + count + place)
    left, right = tl.load(cells + 2 * count + place), tl.load(cells + 3 * count + place)
    corner = source + image * rows * columns + top * columns + left
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    high = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    low = tl.full((BLOCK,), float("inf"), dtype=tl.float32)
    for down in range(0, tl.max(bottom - top)):
        for across in tl.range(0, tl.max(right - left), loop_unroll_factor=4):
            is_inside = (top + down < bottom) & (left + across < right)
            value = tl.load(corner + down * columns + across, mask=is_inside, other=0.0)
            total += value
            if SPREAD:
                high = tl.maximum(high, tl.where(is_inside, value, float("-inf")))
                low = tl.minimum(low, tl.where(is_inside, value, float("inf")))
    area = (bottom - top) * (right - left)
    tl.store(target + image * count + place, total / area.to(tl.float32))
    if SPREAD:
        tl.store(spread + image * count + place, high - low)


@triton.jit
def _filtered(tile, down, across):  # type: ignore[no-untyped-def]
    """Filter a tile along both axes, by matrices of float16; sums are float32."""
    lines = tl.dot(tile.to(tl.float16), across)
    return tl.dot(down, lines.to(tl.float16))


@triton.jit
def _filtered_precisely(tile, down, across):  # type: ignore[no-untyped-def]
    """Filter a tile along both axes, by matrices of float32."""
    lines = tl.dot(tile, across, input_precision="tf32x3")
    return tl.dot(down, lines, input_precision="tf32x3")


@triton.jit  # type: ignore[untyped-decorator]
def _store_copy(out, place, value, SIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Store a copy at its place, if it has one."""
    tl.store(out + place * (SIDE * SIDE), value, mask=place >= 0)


@triton.jit(do_not_specialize=["n_maps", "cells", "rows", "columns", "height", "width"])  # type: ignore[untyped-decorator]
def _copy(  # type: ignore[no-untyped-def]
    images, points, linear, origins, flips, filters, target,
    n_maps, cells, rows, columns, height, width, limit_x, limit_y, SIDE: tl.constexpr,
):  # fmt: skip
    """Sample one small copy, turned and scaled by a linear map, and equalize its contrasts.

    `origins`: for each map, where the image that it reads begins, its rows, and its columns.
    `flips`: for each program, the map that it samples, and which maps are the same copy rotated by
    180°, with its columns, and with its rows in reverse order; −1 for none.
    """
    image, source = tl.program_id(0).to(tl.int64), flips + tl.program_id(1) * 4
    place = tl.load(source)
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
    reduced = images + image * cells + tl.load(origins + place * 3)
    high, wide = tl.load(origins + place * 3 + 1), tl.load(origins + place * 3 + 2)
    tile = sampled(
        reduced, clean_x, clean_y, high, wide,
        wide.to(tl.float32) / width, high.to(tl.float32) / height,
    )  # fmt: skip

    is_cell = (row < rows) & (column < columns)
    # around 0, so that float16 is precise; the filters do not pass the mean anyway
    mean = tl.sum(tl.sum(tl.where(is_cell, tile, 0.0), axis=1), axis=0) / (rows * columns)
    tile = tl.where(is_cell, tile - mean, 0.0)
    entry = filters + row * SIDE + column
    fine_down, fine_across = tl.load(entry), tl.load(entry + SIDE * SIDE)
    coarse_down = tl.load(entry + 2 * SIDE * SIDE)
    coarse_across = tl.load(entry + 3 * SIDE * SIDE)
    band = _filtered(tile, fine_down, fine_across)
    band -= _filtered(tile, coarse_down, coarse_across)
    energy = band * band
    local = _filtered(energy, coarse_down, coarse_across)
    overall = tl.sum(tl.sum(energy, axis=1), axis=0) / (rows * columns)
    # the added terms keep noise in flat areas from being raised to full contrast
    value = band / tl.sqrt(local + 0.1 * overall + 1e-3)
    # masked after the filters, which would see the border of the mask as an edge
    is_visible = is_cell & (tl.abs(clean_x) <= limit_x) & (tl.abs(clean_y) <= limit_y)
    value = tl.where(is_visible, value, 0.0).to(tl.float16)
    # matrices that reverse the order, because stores in reverse order take longest
    back_down, back_across = tl.load(entry + 4 * SIDE * SIDE), tl.load(entry + 5 * SIDE * SIDE)
    mirrored = tl.dot(value, back_across).to(tl.float16)
    out = target + image * n_maps * (SIDE * SIDE) + row * SIDE + column
    _store_copy(out, tl.load(source), value, SIDE)
    _store_copy(out, tl.load(source + 1), tl.dot(back_down, mirrored).to(tl.float16), SIDE)
    _store_copy(out, tl.load(source + 2), mirrored, SIDE)
    _store_copy(out, tl.load(source + 3), tl.dot(back_down, value).to(tl.float16), SIDE)


@triton.jit(do_not_specialize=["rows", "columns"])  # type: ignore[untyped-decorator]
def _show(  # type: ignore[no-untyped-def]
    small, spread, filters, target, rows, columns, flat, SIDE: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Equalize the contrasts of one small moved image, without its fill; see `search._best_shifts`.

    `flat`: range of gray levels below which a cell is flat; negative if none is.
    """
    image = tl.program_id(0).to(tl.int64)
    row, column = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)[None, :]
    is_cell = (row < rows) & (column < columns)
    first = image * rows * columns
    cell = first + row * columns + column
    range_ = tl.load(spread + cell, mask=is_cell, other=float("inf"))
    flattest = tl.min(tl.min(range_, axis=1), axis=0)
    mean = tl.load(small + cell, mask=is_cell, other=float("inf"))
    color = tl.min(tl.min(tl.where(range_ == flattest, mean, float("inf")), axis=1), axis=0)
    is_shown = is_cell
    for down in tl.static_range(-1, 2):
        for across in tl.static_range(-1, 2):
            is_inside = (row + down >= 0) & (row + down < rows)
            is_inside = is_inside & (column + across >= 0) & (column + across < columns)
            offset = cell + down * columns + across
            range_ = tl.load(spread + offset, mask=is_inside, other=float("inf"))
            mean = tl.load(small + offset, mask=is_inside, other=float("inf"))
            is_flat = (range_ <= _NOISIER * flattest) & (
                tl.abs(mean - color) <= _MAX_GAP * flattest
            )
            is_shown = is_shown & ((flat < 0) | ~((range_ < flat) | is_flat))
    weight = is_shown.to(tl.float32)
    entry = filters + row * SIDE + column
    fine_down, fine_across = tl.load(entry), tl.load(entry + SIDE * SIDE)
    coarse_down = tl.load(entry + 2 * SIDE * SIDE)
    coarse_across = tl.load(entry + 3 * SIDE * SIDE)
    seen = tl.load(small + first + row * columns + column, mask=is_shown, other=0.0)
    fine = tl.maximum(_filtered_precisely(weight, fine_down, fine_across), 1e-3)
    coarse = tl.maximum(_filtered_precisely(weight, coarse_down, coarse_across), 1e-3)
    band = _filtered_precisely(seen, fine_down, fine_across) / fine
    band = (band - _filtered_precisely(seen, coarse_down, coarse_across) / coarse) * weight
    energy = band * band
    local = _filtered_precisely(energy, coarse_down, coarse_across) / coarse
    count = tl.maximum(tl.sum(tl.sum(weight, axis=1), axis=0), 1.0)
    overall = tl.sum(tl.sum(energy, axis=1), axis=0) / count
    value = band / tl.sqrt(local + 0.1 * overall + 1e-3)
    # in the middle, with room for all shifts around it
    margin = (WIDE - SIDE) // 2
    out = target + image * WIDE * WIDE + (row + margin) * WIDE + column + margin
    tl.store(out, value.to(tl.float16))


@triton.jit  # type: ignore[untyped-decorator]
def _correlate(  # type: ignore[no-untyped-def]
    copies, images, overlaps, scores, places, n_maps,
    SIDE: tl.constexpr, WIDE: tl.constexpr, SHIFTS: tl.constexpr,
    N_MAPS: tl.constexpr, N_SHIFTS: tl.constexpr,
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
            total = tl.dot(one, two, total)
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
    small, _ = _reduced(gray, cells, has_spread=False)
    rows, columns = thumbnail_size(size)
    linear = linear_maps(gray.device)
    shape = (len(gray), len(linear), SIDE * SIDE)
    copies = torch.empty(shape, dtype=torch.float16, device=gray.device)
    flips = _flips(gray.device)
    _copy[len(gray), len(flips)](
        small, centers_of(rows, columns, size, gray.device), linear, origins, flips,
        _filters(rows, columns, gray.device, torch.float16), copies,
        len(linear), cells.shape[1], rows, columns, *size, size[1] / 2, size[0] / 2,
        SIDE=SIDE, num_warps=2,
    )  # fmt: skip
    return copies


def scores_in_triton(copies: Tensor, corrupted: Tensor) -> tuple[Tensor, Tensor]:
    """Return the score of the best shift of each linear map (B, N), and which shift it is.

    Shifts from −REACH to REACH are counted line by line, as in `search`.
    """
    size, device = (corrupted.shape[1], corrupted.shape[2]), corrupted.device
    grid = thumbnail_size(size)
    small, spread = _reduced(corrupted, _grid_cells(size, grid, device), has_spread=True)
    # zeros around the image, so that every shift reads from it
    shape = (len(corrupted), WIDE, WIDE)
    images = torch.zeros(shape, dtype=torch.float16, device=device)
    _show[len(images),](
        small, spread, _filters(*grid, device, torch.float32), images, *grid,
        FLAT if has_large_cells(size) else -1.0, SIDE=SIDE, WIDE=WIDE,
    )  # fmt: skip
    count = copies.shape[1]
    scores = torch.empty((len(images), count), dtype=torch.float32, device=device)
    places = torch.empty((len(images), count), dtype=torch.int64, device=device)
    _correlate[len(images), triton.cdiv(count, N_MAPS_AT_ONCE)](
        copies.contiguous(), images, overlaps(size, device).contiguous(), scores, places, count,
        SIDE=SIDE, WIDE=WIDE, SHIFTS=SHIFTS, N_MAPS=N_MAPS_AT_ONCE, N_SHIFTS=N_SHIFTS_AT_ONCE,
        num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    return scores, places


def _reduced(images: Tensor, cells: Tensor, *, has_spread: bool) -> tuple[Tensor, Tensor]:
    """Return the means and, on request, ranges of images (B, H, W) over cells, (B, cells)."""
    count = cells.shape[1]
    means = images.new_empty((len(images), count))
    spread = torch.empty_like(means) if has_spread else means
    _reduce[len(images), triton.cdiv(count, BLOCK)](
        images.contiguous(), means, spread, cells, count, *images.shape[1:],
        SPREAD=has_spread, BLOCK=BLOCK,
    )  # fmt: skip
    return means, spread


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
        parts.append(_grid_cells(size, grid, device))
        origins += [(first, *grid)] * len(linear)
        first += grid[0] * grid[1]
    return torch.cat(parts, dim=1), torch.tensor(origins, dtype=torch.int32).to(device)


@lru_cache(maxsize=64)
def _grid_cells(size: tuple[int, int], grid: tuple[int, int], device: torch.device) -> Tensor:
    """Return where the cells of a grid over an image begin and end, as in `_cells`."""
    (top, bottom), (left, right) = (_bounds(*one) for one in zip(size, grid, strict=True))
    edges = [one.repeat_interleave(grid[1]) for one in (top, bottom)]
    return torch.stack(edges + [one.repeat(grid[0]) for one in (left, right)]).to(device)


@lru_cache(maxsize=8)
def _flips(device: torch.device) -> Tensor:
    """Return which maps are sampled, and which ones are flips of the same copy, as in `_copy`.

    A rotation by 180° and a mirror only change the order of cells, so that most copies are flips of
    others.
    """
    linear = linear_maps(torch.device("cpu"))
    turns = linear.new_tensor([[1, 1], [-1, -1], [-1, 1], [1, -1]])
    table, is_missing = [], torch.ones(len(linear), dtype=torch.bool)
    for one in linear:
        flipped = (linear[None] - (one * turns[:, None])[:, None]).abs().amax(dim=(2, 3)) < 1e-9
        flipped &= is_missing
        if flipped[0].any():
            table.append([row.nonzero()[0].item() if row.any() else -1 for row in flipped])
            is_missing &= ~flipped.any(dim=0)
    return torch.tensor(table, dtype=torch.int32).to(device)


def _bounds(side: int, count: int) -> tuple[Tensor, Tensor]:
    """Return where cells along a side begin and end, rounded outwards to whole pixels."""
    cell = torch.arange(count, dtype=torch.int32)
    return cell * side // count, -(-(cell + 1) * side // count)


@lru_cache(maxsize=8)
def _filters(rows: int, columns: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return matrices (6, SIDE, SIDE), each down and across.

    The first four are the filters of `contrasts`, by sigma; the others reverse the order of cells.
    """
    matrices = []
    for sigma in (0.7, 3.0):
        weights = gaussian(sigma, min(rows, columns))
        matrices += [_matrix(weights, rows), _matrix(weights, columns).T]
    for side in (rows, columns):
        reversal = torch.zeros((SIDE, SIDE))
        reversal[:side, :side] = torch.eye(side).flip(0)
        matrices.append(reversal)
    return torch.stack(matrices).contiguous().to(device, dtype)


def _matrix(weights: tuple[float, ...], side: int) -> Tensor:
    """Return the convolution of `side` cells, with reflection, as a matrix filled up by zeros."""
    matrix = torch.zeros((SIDE, SIDE))
    for cell in range(side):
        for tap, weight in enumerate(weights):
            place = abs(cell + tap - len(weights) // 2)
            matrix[cell, min(place, 2 * side - 2 - place)] += weight
    return matrix
