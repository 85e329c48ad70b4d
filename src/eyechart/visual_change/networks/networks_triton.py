"""Pooling and comparing features of networks, in Triton; CUDA builds of torch include Triton.

Features are (B, C, H, W) in the memory format channels_last: all channels of a pixel are
neighbors. Each kernel reads its features once, because reading them takes longer than computing.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 512
"""Number of values that a program of `pool_in_triton` computes."""

TILE = 4096
"""Number of feature values that a program compares at once."""

MOMENT_CHANNELS, MOMENT_PIXELS = 64, 32
"""Channels and pixels of a tile of `moments_in_triton`."""

PIXELS_PER_PROGRAM = 1024
"""Number of pixels that a program of `moments_in_triton` adds up."""

N_MOMENTS = 5


@triton.jit
def _reflected(place, size):  # type: ignore[no-untyped-def]
    """Map a position into 0 … size − 1; it is beyond the border by less than `size`."""
    place = tl.where(place < 0, -place, place)
    return tl.where(place >= size, 2 * size - 2 - place, place)


@triton.jit  # type: ignore[untyped-decorator]
def _pool(  # type: ignore[no-untyped-def]
    source, target, height, width, channels, rows, columns,
    SIDE: tl.constexpr, PADDING: tl.constexpr, REFLECTED: tl.constexpr, SQUARED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # 64 bits for the image alone, because divisions of 64 bits are slow
    image = (tl.program_id(0) // rows).to(tl.int64)
    row = tl.program_id(0) % rows
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    # the last program computes the last value several times, so that loads need no mask
    place = tl.minimum(place, columns * channels - 1)
    column = place // channels
    channel = place - column * channels
    pixel = source + image * height * width * channels + channel
    # a maximum over SIDE × SIDE pixels leaves this many rows and columns
    high, wide = height - SIDE + 1, width - SIDE + 1
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for down in tl.static_range(3):
        # one value per column, like x, so that masks have one shape
        y = 2 * row + down - PADDING + tl.zeros_like(column)
        if REFLECTED:
            y = _reflected(y, high)
        for across in tl.static_range(3):
            x = 2 * column + across - PADDING
            if REFLECTED:
                x = _reflected(x, wide)
            corner = pixel + (y * width + x) * channels
            seen = (y >= 0) & (y < high) & (x >= 0) & (x < wide)
            value = tl.load(corner, mask=seen, other=0.0).to(tl.float32)
            for below in tl.static_range(SIDE):
                for beside in tl.static_range(SIDE):
                    if below + beside > 0:
                        other = tl.load(corner + (below * width + beside) * channels)
                        value = tl.maximum(value, other.to(tl.float32))
            if SQUARED:
                value = value * value
            # the binomial filter 1, 2, 1 along both axes
            total += value * ((2 - (down - 1) * (down - 1)) * (2 - (across - 1) * (across - 1)))
    total = total / 16
    if SQUARED:
        total = tl.sqrt(total + 1e-12)
    out = target + (image * rows + row) * columns * channels + place
    tl.store(out, total.to(target.dtype.element_ty))


def pool_in_triton(features: Tensor, side: int = 1, *, is_root_mean_square: bool = False) -> Tensor:
    """Return features at half the resolution; see `backbones.BlurPool`, `RootMeanSquarePool`."""
    features = features.contiguous(memory_format=torch.channels_last)
    batch, channels, height, width = features.shape
    padding = 1 if is_root_mean_square else 2
    rows, columns = ((n - side + 1 + 2 * padding - 3) // 2 + 1 for n in (height, width))
    pooled = torch.empty(
        (batch, channels, rows, columns), dtype=features.dtype, device=features.device,
        memory_format=torch.channels_last,
    )  # fmt: skip
    _pool[batch * rows, triton.cdiv(columns * channels, BLOCK)](
        features, pooled, height, width, channels, rows, columns,
        SIDE=side, PADDING=padding, REFLECTED=not is_root_mean_square, SQUARED=is_root_mean_square,
        BLOCK=BLOCK,
    )  # fmt: skip
    return pooled


@triton.jit  # type: ignore[untyped-decorator]
def _difference(  # type: ignore[no-untyped-def]
    clean, indices, corrupted, head, sums, pixels, channels, n_blocks,
    PIXELS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(0).to(tl.int64)
    partner = tl.load(indices + image)
    pixel = tl.program_id(1) * PIXELS + tl.arange(0, PIXELS)[:, None]
    channel = tl.arange(0, CHANNELS)[None, :]
    inside = (pixel < pixels) & (channel < channels)
    place = pixel * channels + channel
    # outside, all features are 0, and so is their difference
    before = tl.load(clean + partner * pixels * channels + place, mask=inside, other=0.0)
    after = tl.load(corrupted + image * pixels * channels + place, mask=inside, other=0.0)
    before, after = before.to(tl.float32), after.to(tl.float32)
    # the constant is that of LPIPS; where all features are 0, they stay 0
    before = before / (tl.sqrt(tl.sum(before * before, axis=1)) + 1e-10)[:, None]
    after = after / (tl.sqrt(tl.sum(after * after, axis=1)) + 1e-10)[:, None]
    weight = tl.load(head + channel, mask=channel < channels, other=0.0)
    difference = before - after
    total = tl.sum(tl.sum(difference * difference * weight, axis=1), axis=0)
    tl.store(sums + image * n_blocks + tl.program_id(1), total)


def difference_in_triton(clean: Tensor, indices: Tensor, corrupted: Tensor, head: Tensor) -> Tensor:
    """Return the mean weighted difference (B,) of one stage, float64; see `LpipsRuler.distance`.

    `indices` (B,): for each corrupted image, its place in `clean`.
    """
    clean, corrupted = (
        features.contiguous(memory_format=torch.channels_last) for features in (clean, corrupted)
    )
    batch, channels, height, width = corrupted.shape
    wide = triton.next_power_of_2(channels)
    at_once = max(1, TILE // wide)
    n_blocks = triton.cdiv(height * width, at_once)
    sums = torch.empty((batch, n_blocks), dtype=torch.float32, device=corrupted.device)
    _difference[batch, n_blocks](
        clean, indices, corrupted, head, sums, height * width, channels, n_blocks,
        PIXELS=at_once, CHANNELS=wide,
    )  # fmt: skip
    return sums.sum(dim=1, dtype=torch.float64) / (height * width)


@triton.jit  # type: ignore[untyped-decorator]
def _moments(  # type: ignore[no-untyped-def]
    clean, indices, corrupted, sums, pixels, channels, n_parts,
    STEPS: tl.constexpr, PIXELS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(0).to(tl.int64)
    partner = tl.load(indices + image)
    channel = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)
    start = tl.program_id(1) * (STEPS * PIXELS)
    x_sum = tl.zeros((CHANNELS,), dtype=tl.float64)
    y_sum = tl.zeros((CHANNELS,), dtype=tl.float64)
    xx_sum = tl.zeros((CHANNELS,), dtype=tl.float64)
    yy_sum = tl.zeros((CHANNELS,), dtype=tl.float64)
    xy_sum = tl.zeros((CHANNELS,), dtype=tl.float64)
    for step in range(STEPS):
        pixel = start + step * PIXELS + tl.arange(0, PIXELS)[:, None]
        inside = (pixel < pixels) & (channel[None, :] < channels)
        place = pixel * channels + channel[None, :]
        x = tl.load(clean + partner * pixels * channels + place, mask=inside, other=0.0)
        y = tl.load(corrupted + image * pixels * channels + place, mask=inside, other=0.0)
        x, y = x.to(tl.float32), y.to(tl.float32)
        # tiles in float32 and their sums in float64, from which variances are computed
        x_sum += tl.sum(x, axis=0).to(tl.float64)
        y_sum += tl.sum(y, axis=0).to(tl.float64)
        xx_sum += tl.sum(x * x, axis=0).to(tl.float64)
        yy_sum += tl.sum(y * y, axis=0).to(tl.float64)
        xy_sum += tl.sum(x * y, axis=0).to(tl.float64)
    target = sums + (image * n_parts + tl.program_id(1)) * 5 * channels + channel
    used = channel < channels
    tl.store(target, x_sum, mask=used)
    tl.store(target + channels, y_sum, mask=used)
    tl.store(target + 2 * channels, xx_sum, mask=used)
    tl.store(target + 3 * channels, yy_sum, mask=used)
    tl.store(target + 4 * channels, xy_sum, mask=used)


def moments_in_triton(clean: Tensor, indices: Tensor, corrupted: Tensor) -> Tensor:
    """Return means over pixels of clean x and corrupted y: x, y, x², y², xy, float64 (B, 5, C).

    `indices` (B,): for each corrupted image, its place in `clean`.
    """
    clean, corrupted = (
        features.contiguous(memory_format=torch.channels_last) for features in (clean, corrupted)
    )
    batch, channels, height, width = corrupted.shape
    n_parts = triton.cdiv(height * width, PIXELS_PER_PROGRAM)
    shape = (batch, n_parts, N_MOMENTS, channels)
    sums = torch.empty(shape, dtype=torch.float64, device=corrupted.device)
    _moments[batch, n_parts, triton.cdiv(channels, MOMENT_CHANNELS)](
        clean, indices, corrupted, sums, height * width, channels, n_parts,
        STEPS=PIXELS_PER_PROGRAM // MOMENT_PIXELS, PIXELS=MOMENT_PIXELS, CHANNELS=MOMENT_CHANNELS,
    )  # fmt: skip
    return sums.sum(dim=1) / (height * width)
