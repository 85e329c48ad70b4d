"""The pyramid as Triton kernels; CUDA builds of torch include Triton."""

from functools import lru_cache

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from eyechart.visual_change.vif.filters import ACROSS, DOWN, FIRST_LOW, LOW, sides_of_bands

LINE = 128
"""Number of results in a row that one program, which is one warp, computes."""


@triton.jit
def _mirror(position, side):  # type: ignore[no-untyped-def]
    """Reflect a position beyond the border without repeating the edge."""
    position = tl.where(position < 0, -position, position)
    return tl.where(position >= side, 2 * side - 2 - position, position)


@triton.jit  # type: ignore[untyped-decorator]
def _low_pass(  # type: ignore[no-untyped-def]
    source, target, weights, height, width, high, wide,
    SIDE: tl.constexpr, STEP: tl.constexpr, LINE: tl.constexpr,
):  # fmt: skip
    """Compute one line of results, `STEP` pixels apart, by correlation with SIDE × SIDE weights."""
    image, row = tl.program_id(0).to(tl.int64) // high, tl.program_id(0) % high
    column = tl.program_id(1) * LINE + tl.arange(0, LINE)
    inside = column < wide
    total = tl.zeros((LINE,), dtype=tl.float64)
    for down in tl.static_range(SIDE):
        # correlation, not convolution: the kernel is not flipped
        above = _mirror(STEP * row + (down - SIDE // 2), height)
        line = source + (image * height + above) * width
        for across in tl.static_range(SIDE):
            position = _mirror(STEP * column + (across - SIDE // 2), width)
            value = tl.load(line + position, mask=inside, other=0).to(tl.float64)
            total += value * tl.load(weights + down * SIDE + across)
    tl.store(target + (image * high + row) * wide + column, total, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _both_bands(  # type: ignore[no-untyped-def]
    source, target, weights, height, width, high, wide, SIDE: tl.constexpr, LINE: tl.constexpr
):
    """Correlate one line with two filters, reading each value once."""
    image, row = tl.program_id(0).to(tl.int64) // high, tl.program_id(0) % high
    column = tl.program_id(1) * LINE + tl.arange(0, LINE)
    inside = column < wide
    one = tl.zeros((LINE,), dtype=tl.float64)
    two = tl.zeros((LINE,), dtype=tl.float64)
    for down in tl.static_range(SIDE):
        line = source + (image * height + _mirror(row + (down - SIDE // 2), height)) * width
        for across in tl.static_range(SIDE):
            position = _mirror(column + (across - SIDE // 2), width)
            value = tl.load(line + position, mask=inside, other=0)
            one += value * tl.load(weights + down * SIDE + across)
            two += value * tl.load(weights + SIDE * SIDE + down * SIDE + across)
    out = target + (2 * image * high + row) * wide + column
    tl.store(out, one.to(target.dtype.element_ty), mask=inside)
    tl.store(out + high * wide, two.to(target.dtype.element_ty), mask=inside)


def subbands_by_triton(gray: Tensor, scales: int, dtype: torch.dtype) -> list[Tensor]:
    """Return the bands (B, 2, h, w) of each scale of gray images (B, H, W), finest first."""
    first, low_pass, both = _weights(gray.device)
    low = _filtered(gray.contiguous(), first, len(FIRST_LOW), step=1)
    bands = []
    for scale, (high, wide) in enumerate(sides_of_bands(gray.shape[1], gray.shape[2], scales)):
        target = torch.empty((len(gray), 2, high, wide), dtype=dtype, device=gray.device)
        _both_bands[_grid(len(gray), high, wide)](
            low, target, both, *low.shape[1:], high, wide,
            SIDE=len(ACROSS), LINE=LINE, num_warps=1,
        )  # fmt: skip
        bands.append(target)
        if scale + 1 < scales:
            low = _filtered(low, low_pass, len(LOW), step=2)
    return bands


def _filtered(source: Tensor, weights: Tensor, side: int, step: int) -> Tensor:
    images, height, width = source.shape
    high, wide = -(-height // step), -(-width // step)
    target = torch.empty((images, high, wide), dtype=torch.float64, device=source.device)
    _low_pass[_grid(images, high, wide)](
        source, target, weights, height, width, high, wide,
        SIDE=side, STEP=step, LINE=LINE, num_warps=1,
    )  # fmt: skip
    return target


def _grid(images: int, high: int, wide: int) -> tuple[int, int]:
    # rows are on the first axis, where CUDA allows 2³¹ − 1 programs; on the others 65,535
    return images * high, triton.cdiv(wide, LINE)


@lru_cache(maxsize=4)
def _weights(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.tensor(FIRST_LOW, device=device),
        torch.tensor(LOW, device=device),
        torch.tensor(np.stack([ACROSS, DOWN]), device=device),
    )
