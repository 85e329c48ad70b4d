"""Linear filters with one kernel per image, in Triton; CUDA builds of torch include Triton.

Sums are float64 and are rounded once to float32, as in `filters.py`.
"""

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from eyechart.core.devices import to_device
from eyechart.corruptions.kernels.filters import Weights, fold

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
    rows = fold(torch.arange(-down, height + down, device=device), height, border)
    columns = fold(torch.arange(-across, width + across, device=device), width, border)
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
