"""Triton kernels that work on single pixels: conversions of gray levels, and color corruptions.

The arithmetic is that of `color.py`, operation by operation, so that the results are equal to the
bit: divisions are correctly rounded, and products and sums are not fused.
"""

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.devices import to_device
from eyechart.corruptions.declaration import Values
from eyechart.corruptions.kernels.arithmetic import GRID, UNIT

LEVELS_BLOCK = 2048


@triton.jit  # type: ignore[untyped-decorator]
def _to_bytes(source, target, size, AMOUNT: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    # int64, because a batch of large images may have more than 2³¹ values
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    levels = tl.load(source + place, mask=inside, other=0.0) * 255 + AMOUNT
    # before the conversion, which is undefined for values outside the range of uint8
    levels = tl.minimum(tl.maximum(levels, 0.0), 255.0)
    tl.store(target + place, levels.to(tl.uint8), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _to_unit(source, target, size, UNIT: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    levels = tl.load(source + place, mask=inside, other=0).to(tl.float32)
    tl.store(target + place, levels * UNIT, mask=inside)


def to_bytes_in_triton(images: Tensor, target: Tensor, amount: float) -> None:
    """Store float32 images as gray levels: 255 · image + amount, cut off, in `target` (uint8)."""
    source = images.contiguous()
    # products and sums stay separate, as in torch
    _to_bytes[(triton.cdiv(source.numel(), LEVELS_BLOCK),)](
        source, target, source.numel(), AMOUNT=amount, BLOCK=LEVELS_BLOCK, enable_fp_fusion=False
    )


def to_unit_in_triton(levels: Tensor, unit: float) -> Tensor:
    """Return uint8 gray levels times `unit`, as float32."""
    source = levels.contiguous()
    out = torch.empty(source.shape, dtype=torch.float32, device=source.device)
    _to_unit[(triton.cdiv(source.numel(), LEVELS_BLOCK),)](
        source, out, source.numel(), UNIT=unit, BLOCK=LEVELS_BLOCK
    )
    return out


BLOCK = 1024


@triton.jit
def _turned(red, green, blue, turns, more_saturation, more_value):  # type: ignore[no-untyped-def]
    """Shift hue, saturation and value of pixels, as `rgb_to_hsv` and `hsv_to_rgb` do."""
    value = tl.maximum(tl.maximum(red, green), blue)
    chroma = value - tl.minimum(tl.minimum(red, green), blue)
    gray = chroma == 0
    safe = tl.where(gray, 1.0, chroma)
    hue = tl.where(
        value == green,
        tl.div_rn(blue - red, safe) + 2,
        tl.div_rn(red - green, safe) + 4,
    )
    hue = tl.where(value == red, tl.div_rn(green - blue, safe), hue)
    hue = tl.where(gray, 0.0, hue * (1 / 6))
    saturation = tl.div_rn(chroma, tl.where(value == 0, 1.0, value))
    hue = hue - tl.floor(hue) + turns
    saturation = _clamped(saturation + more_saturation)
    value = _clamped(value + more_value)
    turn = (hue - tl.floor(hue)) * 6
    chroma = value * saturation
    red = value - chroma * _sector(turn + 5.0)
    green = value - chroma * _sector(turn + 3.0)
    blue = value - chroma * _sector(turn + 1.0)
    return red, green, blue


@triton.jit
def _sector(k):  # type: ignore[no-untyped-def]
    k = tl.where(k >= 6, k - 6, k)
    return _clamped(tl.minimum(k, 4 - k))


@triton.jit
def _clamped(values):  # type: ignore[no-untyped-def]
    return tl.minimum(tl.maximum(values, 0.0), 1.0)


@triton.jit
def _luma(red, green, blue):  # type: ignore[no-untyped-def]
    return red * 0.299 + green * 0.587 + blue * 0.114


@triton.jit  # type: ignore[untyped-decorator]
def _shift_hsv(source, target, numbers, pixels, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    image = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < pixels
    pixel = source + image * 3 * pixels + place
    red = tl.load(pixel, mask=inside, other=0.0)
    green = tl.load(pixel + pixels, mask=inside, other=0.0)
    blue = tl.load(pixel + 2 * pixels, mask=inside, other=0.0)
    number = numbers + image * 3
    red, green, blue = _turned(
        red, green, blue, tl.load(number), tl.load(number + 1), tl.load(number + 2)
    )
    pixel = target + image * 3 * pixels + place
    tl.store(pixel, red, mask=inside)
    tl.store(pixel + pixels, green, mask=inside)
    tl.store(pixel + 2 * pixels, blue, mask=inside)


@triton.jit
def _step(red, green, blue, mean, kind, factor):  # type: ignore[no-untyped-def]
    """Apply one step of color jitter; 0: brightness, 1: contrast, 2: saturation, 3: hue."""
    if kind == 3:
        red, green, blue = _turned(red, green, blue, factor, 0.0, 0.0)
        red, green, blue = _clamped(red), _clamped(green), _clamped(blue)
    else:
        center = _luma(red, green, blue)
        center = tl.where(kind == 2, center, tl.where(kind == 1, mean, 0.0))
        red = _clamped((red - center) * factor + center)
        green = _clamped((green - center) * factor + center)
        blue = _clamped((blue - center) * factor + center)
    return red, green, blue


@triton.jit  # type: ignore[untyped-decorator]
def _jitter(  # type: ignore[no-untyped-def]
    source, target, totals, steps, factors, pixels,
    SHARE: tl.constexpr, GRID: tl.constexpr, UNIT: tl.constexpr, FINAL: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Sum the gray levels of which contrast needs the mean or, if FINAL, apply all four steps."""
    image = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < pixels
    pixel = source + image * 3 * pixels + place
    red = tl.load(pixel, mask=inside, other=0.0)
    green = tl.load(pixel + pixels, mask=inside, other=0.0)
    blue = tl.load(pixel + 2 * pixels, mask=inside, other=0.0)
    mean = 0.0
    if FINAL:
        exact = (tl.load(totals + image).to(tl.float64) * SHARE).to(tl.float32)
        level = tl.floor(exact * 255 + 0.5)
        mean = tl.minimum(tl.maximum(level, 0.0), 255.0) * UNIT
    waiting = 1
    for number in tl.static_range(4):
        kind = tl.load(steps + image * 4 + number)
        factor = tl.load(factors + image * 4 + number)
        if FINAL:
            red, green, blue = _step(red, green, blue, mean, kind, factor)
        else:
            # only the steps before contrast change the mean
            waiting = waiting * (kind != 1).to(tl.int32)
            if waiting > 0:
                red, green, blue = _step(red, green, blue, mean, kind, factor)
    if FINAL:
        pixel = target + image * 3 * pixels + place
        tl.store(pixel, red, mask=inside)
        tl.store(pixel + pixels, green, mask=inside)
        tl.store(pixel + 2 * pixels, blue, mask=inside)
    else:
        # a sum of integers is exact in any order
        gray = (_luma(red, green, blue) * GRID).to(tl.int32)
        tl.atomic_add(totals + image, tl.sum(tl.where(inside, gray, 0).to(tl.int64)))


def shift_hsv_in_triton(images: Tensor, hue: Values, saturation: Values, value: Values) -> Tensor:
    """Return color images (B, 3, H, W) with these amounts added to hue, saturation and value."""
    amounts = np.stack((hue, saturation, value), axis=1).astype(np.float32)
    numbers = to_device(torch.from_numpy(amounts), images.device)
    images = images.contiguous()
    out = torch.empty_like(images)
    pixels = images.shape[2] * images.shape[3]
    _shift_hsv[len(images), triton.cdiv(pixels, BLOCK)](
        images, out, numbers, pixels, BLOCK=BLOCK, enable_fp_fusion=False
    )
    return out


def jitter_in_triton(images: Tensor, steps: NDArray[np.int64], factors: Values) -> Tensor:
    """Return color images after four `steps` (B, 4), with the factor or amount of each step."""
    images = images.contiguous()
    pixels = images.shape[2] * images.shape[3]
    numbers = [
        to_device(torch.from_numpy(array), images.device)
        for array in (steps.astype(np.int32), factors.astype(np.float32))
    ]
    totals = torch.zeros(len(images), dtype=torch.int64, device=images.device)
    out = torch.empty_like(images)
    for final in (False, True):
        _jitter[len(images), triton.cdiv(pixels, BLOCK)](
            images, out, totals, *numbers, pixels, SHARE=1 / (pixels * GRID), GRID=GRID, UNIT=UNIT,
            FINAL=final, BLOCK=BLOCK, enable_fp_fusion=False,
        )  # fmt: skip
    return out
