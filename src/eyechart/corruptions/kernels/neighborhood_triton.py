"""Triton kernels that read the pixels around a pixel: filters, medians, swaps and enlargements.

Sums of filters are float64 and are rounded once to float32, as in `filters.py`.
"""

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.devices import to_device
from eyechart.corruptions.declaration import Values
from eyechart.corruptions.kernels.filters import Weights, border_index

BLOCK = 1024


@triton.jit  # type: ignore[untyped-decorator]
def _folded(position, size, BORDER: tl.constexpr):  # type: ignore[no-untyped-def]
    """Map a position into 0 … size − 1; it is beyond the border by less than `size`."""
    if BORDER == "replicate":
        return tl.minimum(tl.maximum(position, 0), size - 1)
    repeated = 1 if BORDER == "reflect" else 0
    position = tl.where(position < 0, -position - repeated, position)
    return tl.where(position >= size, 2 * size - 2 + repeated - position, position)


@triton.jit  # type: ignore[untyped-decorator]
def _filter_lines(  # type: ignore[no-untyped-def]
    source, target, weights, radii, channels, height, width, taps,
    DOWN: tl.constexpr, BORDER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    plane = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    # the last program computes the last pixel several times, so that loads need no mask
    place = tl.minimum(place, height * width - 1)
    row, column = place // width, place % width
    image = plane // channels
    radius = tl.load(radii + image)
    middle = weights + image * taps + taps // 2
    pixel = source + plane * height * width
    total = tl.zeros((BLOCK,), dtype=tl.float64)
    for step in tl.range(-radius, radius + 1, loop_unroll_factor=4):
        if DOWN:
            offset = _folded(row + step, height, BORDER) * width + column
        else:
            offset = row * width + _folded(column + step, width, BORDER)
        value = tl.load(pixel + offset).to(tl.float64)
        total += value * tl.load(middle + step)
    out = target + plane * height * width + place
    tl.store(out, total.to(target.dtype.element_ty))


def filter_separable_in_triton(images: Tensor, weights: Weights, border: str) -> Tensor:
    """Return float32 images filtered along both axes; see `filters.filter_separable`.

    Kernels must be narrower than twice the images.
    """
    images = images.contiguous()
    batch, channels, height, width = images.shape
    # kernels are padded with zeros to the widest of the batch
    radii = np.count_nonzero(weights, axis=1).astype(np.int32) // 2
    numbers = [to_device(torch.from_numpy(array), images.device) for array in (weights, radii)]
    between = torch.empty(images.shape, dtype=torch.float64, device=images.device)
    out = torch.empty_like(images)
    grid = (batch * channels, triton.cdiv(height * width, BLOCK))
    for source, target, down in ((images, between, False), (between, out, True)):
        _filter_lines[grid](
            source, target, *numbers, channels, height, width, weights.shape[1],
            DOWN=down, BORDER=border, BLOCK=BLOCK,
        )  # fmt: skip
    return out


@triton.jit  # type: ignore[untyped-decorator]
def _list_taps(  # type: ignore[no-untyped-def]
    kernels, offsets, weights, counts, size, columns, stride, BLOCK: tl.constexpr
):
    """List the weights of each kernel that are not zero, and where they are in a padded image."""
    image = tl.program_id(0).to(tl.int64)
    count = 0
    for start in range(0, size, BLOCK):
        place = start + tl.arange(0, BLOCK)
        weight = tl.load(kernels + image * size + place, mask=place < size, other=0.0)
        used = (weight != 0).to(tl.int32)
        target = image * size + count + tl.cumsum(used) - used
        offset = place // columns * stride + place % columns
        tl.store(offsets + target, offset, mask=used > 0)
        tl.store(weights + target, weight.to(tl.float64), mask=used > 0)
        count += tl.sum(used)
    tl.store(counts + image, count)


@triton.jit  # type: ignore[untyped-decorator]
def _pad(source, target, rows, columns, width, pixels, high, wide, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    plane = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < high * wide
    row = tl.load(rows + place // wide, mask=inside, other=0)
    column = tl.load(columns + place % wide, mask=inside, other=0)
    value = tl.load(source + plane * pixels + row * width + column, mask=inside, other=0.0)
    tl.store(target + plane * high * wide + place, value.to(tl.float64), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _add_taps(  # type: ignore[no-untyped-def]
    padded, target, offsets, weights, counts, channels, size, width, pixels, stride, padded_pixels,
    BLOCK: tl.constexpr,
):  # fmt: skip
    plane = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place = tl.minimum(place, pixels - 1)
    image = plane // channels
    corner = padded + plane * padded_pixels + place // width * stride + place % width
    offset, weight = offsets + image * size, weights + image * size
    total = tl.zeros((BLOCK,), dtype=tl.float64)
    for tap in tl.range(tl.load(counts + image), loop_unroll_factor=4):
        total += tl.load(corner + tl.load(offset + tap)) * tl.load(weight + tap)
    tl.store(target + plane * pixels + place, total.to(tl.float32))


def correlate_in_triton(images: Tensor, kernels: Tensor, border: str) -> Tensor:
    """Return the result of `filters.correlate` by adding up the taps that are not zero."""
    images, kernels = images.contiguous(), kernels.contiguous()
    device = images.device
    batch, channels, height, width = images.shape
    size, pixels = kernels.shape[1] * kernels.shape[2], height * width
    down, across = kernels.shape[1] // 2, kernels.shape[2] // 2
    rows = border_index(torch.arange(-down, height + down, device=device), height, border)
    columns = border_index(torch.arange(-across, width + across, device=device), width, border)
    stride, padded_pixels = len(columns), len(rows) * len(columns)

    offsets = torch.empty(batch, size, dtype=torch.int32, device=device)
    weights = torch.empty(batch, size, dtype=torch.float64, device=device)
    counts = torch.empty(batch, dtype=torch.int32, device=device)
    _list_taps[(batch,)](
        kernels, offsets, weights, counts, size, kernels.shape[2], stride, BLOCK=BLOCK
    )
    planes = batch * channels
    padded = torch.empty(planes, padded_pixels, dtype=torch.float64, device=device)
    _pad[planes, triton.cdiv(padded_pixels, BLOCK)](
        images, padded, rows, columns, width, pixels, len(rows), stride, BLOCK=BLOCK
    )
    out = torch.empty_like(images)
    _add_taps[planes, triton.cdiv(pixels, BLOCK)](
        padded, out, offsets, weights, counts, channels, size, width, pixels, stride,
        padded_pixels, BLOCK=BLOCK,
    )  # fmt: skip
    return out


MEDIAN_BLOCK = 256


@triton.jit  # type: ignore[untyped-decorator]
def _pack(source, target, height, width, margin, quarter, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Store the words of each plane, with replicated edges."""
    plane = tl.program_id(0).to(tl.int64)
    high, wide = height + 2 * margin, quarter + 2 * margin
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < high * wide
    row = tl.minimum(tl.maximum(place // wide - margin, 0), height - 1)
    first = place % wide - margin
    line = source + plane * height * width + row * width
    word = tl.zeros((BLOCK,), dtype=tl.int32)
    for byte in tl.static_range(4):
        column = tl.minimum(tl.maximum(first + byte * quarter, 0), width - 1)
        word |= tl.load(line + column, mask=inside, other=0).to(tl.int32) << (8 * byte)
    tl.store(target + plane * high * wide + place, word, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _medians(  # type: ignore[no-untyped-def]
    words, target, sides, channels, height, width, margin, quarter, BLOCK: tl.constexpr
):
    """Find medians bit by bit: set a bit if most pixels of the window reach the resulting level.

    Each lane computes two windows, one below the other, which share all but two rows.
    """
    plane = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    # the last program computes the last pixels several times, so that loads need no mask
    place = tl.minimum(place, (height + 1) // 2 * quarter - 1)
    # if the height is odd, the last pair overlaps the one before it
    row = tl.maximum(tl.minimum(place // quarter * 2, height - 2), 0)
    column = place % quarter
    side = tl.load(sides + plane // channels)
    stride = quarter + 2 * margin
    corner = words + plane * (height + 2 * margin) * stride
    corner += (row + margin - side // 2) * stride + column + margin - side // 2
    most = (side * side // 2).to(tl.uint32)
    pairs = tl.full((BLOCK,), 0x00FF00FF, tl.uint32)
    ones = tl.full((BLOCK,), 0x01010101, tl.uint32)
    upper = tl.zeros((BLOCK,), dtype=tl.uint32)
    lower = tl.zeros((BLOCK,), dtype=tl.uint32)
    for bit in range(8):
        upper_trial, lower_trial = upper | (ones << (7 - bit)), lower | (ones << (7 - bit))
        # the rows that only one of the two windows has; 16 bits for each of four counts: those of
        # bytes 0 and 2, and those of bytes 1 and 3
        counts = tl.zeros((BLOCK,), dtype=tl.uint32)
        for across in tl.range(side, loop_unroll_factor=4):
            counts += _reached(corner + across, upper_trial)
        upper_even, upper_odd = counts & pairs, (counts >> 8) & pairs
        counts = tl.zeros((BLOCK,), dtype=tl.uint32)
        for across in tl.range(side, loop_unroll_factor=4):
            counts += _reached(corner + side * stride + across, lower_trial)
        lower_even, lower_odd = counts & pairs, (counts >> 8) & pairs
        for down in range(1, side):
            line = corner + down * stride
            upper_counts = tl.zeros((BLOCK,), dtype=tl.uint32)
            lower_counts = tl.zeros((BLOCK,), dtype=tl.uint32)
            for across in tl.range(side, loop_unroll_factor=4):
                upper_counts += _reached(line + across, upper_trial)
                lower_counts += _reached(line + across, lower_trial)
            upper_even += upper_counts & pairs
            upper_odd += (upper_counts >> 8) & pairs
            lower_even += lower_counts & pairs
            lower_odd += (lower_counts >> 8) & pairs
        # 1 in each byte whose count exceeds half of the window
        upper |= (_exceeds(upper_even, most) | (_exceeds(upper_odd, most) << 8)) << (7 - bit)
        lower |= (_exceeds(lower_even, most) | (_exceeds(lower_odd, most) << 8)) << (7 - bit)
    for byte in tl.static_range(4):
        out = column + byte * quarter
        pixel = target + (plane * height + row) * width + out
        tl.store(pixel, ((upper >> (8 * byte)) & 0xFF).to(tl.uint8), mask=out < width)
        below = (out < width) & (row + 1 < height)
        tl.store(pixel + width, ((lower >> (8 * byte)) & 0xFF).to(tl.uint8), mask=below)


@triton.jit
def _reached(words, trial):  # type: ignore[no-untyped-def]
    """Return 1 in each byte of a word that is at least as large as that of `trial`."""
    word = tl.load(words).to(tl.uint32, bitcast=True)
    # the seven low bits are compared by a subtraction that cannot borrow, and the top bits decide
    # if they differ
    reached = (word | 0x80808080) - (trial & 0x7F7F7F7F)
    reached = (word & (trial ^ 0xFFFFFFFF)) | ((word ^ trial ^ 0xFFFFFFFF) & reached)
    return (reached & 0x80808080) >> 7


@triton.jit
def _exceeds(counts, most):  # type: ignore[no-untyped-def]
    low, high = counts & 0xFFFF, (counts >> 16) & 0xFFFF
    return (low > most).to(tl.uint32) | ((high > most).to(tl.uint32) << 16)


def median_in_triton(levels: Tensor, kernel: Values) -> Tensor:
    """Return the medians of uint8 images (B, C, H, W) in windows of `kernel` px, on a GPU.

    `kernel`: odd numbers of at most 255, so that the counts of a window's row fit into a byte.
    """
    batch, channels, height, width = levels.shape
    margin, quarter = int(kernel.max()) // 2, -(-width // 4)
    sides = to_device(torch.from_numpy(kernel.astype("int32")), levels.device)
    planes = batch * channels
    # one more row, which the second window of an image of one row reads
    size = (height + 2 * margin + 1) * (quarter + 2 * margin)
    words = torch.empty(planes, size, dtype=torch.int32, device=levels.device)
    out = torch.empty_like(levels, memory_format=torch.contiguous_format)
    shape = (height, width, margin, quarter)
    _pack[planes, triton.cdiv(size, MEDIAN_BLOCK)](
        levels.contiguous(), words, *shape, BLOCK=MEDIAN_BLOCK
    )
    _medians[planes, triton.cdiv(-(-height // 2) * quarter, MEDIAN_BLOCK)](
        words, out, sides, channels, *shape, BLOCK=MEDIAN_BLOCK
    )
    return out


SWAP_BLOCK = 512


@triton.jit
def _key(halves, place, position, spread, inside):  # type: ignore[no-untyped-def]
    half = tl.load(halves + place, mask=inside, other=0).to(tl.int32)
    return position * 256 + (((half - 32768) * spread) >> 15)


@triton.jit  # type: ignore[untyped-decorator]
def _swap(  # type: ignore[no-untyped-def]
    source, target, halves, limits, channels, height, width,
    DOWN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Move each pixel to its rank among the keys of its line, in the order of a stable sort."""
    image = tl.program_id(0).to(tl.int64)
    pixels = height * width
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < pixels
    if DOWN:
        position, length, stride = place // width, height, width
    else:
        position, length, stride = place % width, width, 1
    spread = tl.load(limits + image)
    own_halves = halves + image * pixels
    key = _key(own_halves, place, position, spread, inside)
    rank = position
    # two shifts differ by at most twice the limit: pixels further away keep their order
    for step in range(1, spread // 128 + 2):
        before = inside & (position >= step)
        ahead = _key(own_halves, place - step * stride, position - step, spread, before) > key
        rank -= (before & ahead).to(tl.int32)
        after = inside & (position + step < length)
        behind = _key(own_halves, place + step * stride, position + step, spread, after) < key
        rank += (after & behind).to(tl.int32)
    moved = place + (rank - position) * stride
    for channel in range(channels):
        plane = (image * channels + channel) * pixels
        tl.store(target + plane + moved, tl.load(source + plane + place, mask=inside), mask=inside)


def swap_in_triton(images: Tensor, halves: Tensor, limits: NDArray[np.int64], down: bool) -> Tensor:
    """Return images (B, C, H, W) with the pixels of each row, or column, moved at random.

    Args:
        images: the images.
        halves: 16-bit random numbers, int64 (B, H · W).
        limits: the maximum shift of each image in 1/256 px, below 2¹⁶.
        down: whether pixels move along columns instead of rows.
    """
    images, halves = images.contiguous(), halves.contiguous()
    batch, channels, height, width = images.shape
    out = torch.empty_like(images)
    _swap[batch, triton.cdiv(height * width, SWAP_BLOCK)](
        images, out, halves, to_device(torch.from_numpy(limits.astype(np.int32)), images.device),
        channels, height, width, DOWN=down, BLOCK=SWAP_BLOCK,
    )  # fmt: skip
    return out


ZOOM_BLOCK = 256


@triton.jit  # type: ignore[untyped-decorator]
def _add_zooms(levels, total, rows, columns, factors, height, width, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Add every enlargement of one line of pixels to the line itself.

    Coordinates are in 1/32 px, so that all products and all sums except the last one are exact, as
    in the other implementations.
    """
    line = tl.program_id(0)
    y = line % height
    x = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = x < width
    plane = levels + (line // height) * height * width
    out = tl.load(plane + y * width + x, mask=inside, other=0.0)
    for number in range(factors):
        place_down = tl.load(rows + number * height + y)
        place_across = tl.load(columns + number * width + x, mask=inside, other=0)
        top, left = place_down >> 5, place_across >> 5
        # beyond the last row or column the weight is 0; the index only has to be valid
        bottom = tl.minimum(top + 1, height - 1)
        right = tl.minimum(left + 1, width - 1)
        down = (place_down & 31).to(tl.float32) * 0.03125
        across = (place_across & 31).to(tl.float32) * 0.03125
        upper = tl.load(plane + top * width + left, mask=inside, other=0.0) * (1 - across)
        upper += tl.load(plane + top * width + right, mask=inside, other=0.0) * across
        lower = tl.load(plane + bottom * width + left, mask=inside, other=0.0) * (1 - across)
        lower += tl.load(plane + bottom * width + right, mask=inside, other=0.0) * across
        out += upper * (1 - down) + lower * down
    tl.store(total + line * width + x, out, mask=inside)


def add_zooms_in_triton(
    levels: Tensor, rows: NDArray[np.float64], columns: NDArray[np.float64]
) -> Tensor:
    """Return the levels (B, C, H, W) plus their enlargements, sampled at (n, H) and (n, W)."""
    height, width = levels.shape[2:]
    down, across = (
        torch.from_numpy(np.round(coordinates * 32).astype(np.int32)).to(levels.device)
        for coordinates in (rows, columns)
    )
    out = torch.empty_like(levels)
    grid = (levels.shape[0] * levels.shape[1] * height, triton.cdiv(width, ZOOM_BLOCK))
    _add_zooms[grid](levels, out, down, across, len(rows), height, width, BLOCK=ZOOM_BLOCK)
    return out
