"""The pyramid as Triton kernels; CUDA builds of torch include Triton."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from eyechart.visual_change.vif.filters import (
    ACROSS,
    DOWN,
    FIRST_LOW,
    LOW,
    Kernel,
    sides_of_bands,
)

LINE = 128
"""Number of results in a line that one program, which is one warp, computes."""


@triton.jit
def _mirror(position, side):  # type: ignore[no-untyped-def]
    """Reflect a position beyond the border without repeating the edge."""
    position = tl.where(position < 0, -position, position)
    return tl.where(position >= side, 2 * side - 2 - position, position)


@triton.jit  # type: ignore[untyped-decorator]
def _low_pass(  # type: ignore[no-untyped-def]
    source, target, height, width, high, wide,
    WEIGHTS: tl.constexpr, SIDE: tl.constexpr, STEP: tl.constexpr, LINE: tl.constexpr,
):  # fmt: skip
    """Compute two lines of results, `STEP` pixels apart, by correlation with SIDE × SIDE weights.

    Two lines share most of the lines that they read. Weights are constants, which cost no loads.
    """
    pairs = (high + 1) // 2
    image, row = tl.program_id(0).to(tl.int64) // pairs, tl.program_id(0) % pairs * 2
    column = tl.minimum(tl.program_id(1) * LINE + tl.arange(0, LINE), wide - 1)
    upper = tl.zeros((LINE,), dtype=tl.float64)
    lower = tl.zeros((LINE,), dtype=tl.float64)
    for down in tl.static_range(SIDE + STEP):
        # correlation, not convolution: the kernel is not flipped
        above = _mirror(STEP * row + (down - SIDE // 2), height)
        line = source + (image * height + above) * width
        for across in tl.static_range(SIDE):
            position = _mirror(STEP * column + (across - SIDE // 2), width)
            value = tl.load(line + position).to(tl.float64)
            if down < SIDE:
                upper += value * WEIGHTS[down * SIDE + across]
            if down >= STEP:
                lower += value * WEIGHTS[(down - STEP) * SIDE + across]
    out = target + (image * high + row) * wide + column
    tl.store(out, upper)
    tl.store(out + wide, lower, mask=(row + 1 < high) & (column >= 0))


@triton.jit  # type: ignore[untyped-decorator]
def _both_bands(  # type: ignore[no-untyped-def]
    source, target, height, width, high, wide,
    ONE: tl.constexpr, TWO: tl.constexpr, SIDE: tl.constexpr, LINE: tl.constexpr,
):  # fmt: skip
    """Correlate two lines with two filters; bands have at most as many lines as the source."""
    pairs = (high + 1) // 2
    image, row = tl.program_id(0).to(tl.int64) // pairs, tl.program_id(0) % pairs * 2
    column = tl.minimum(tl.program_id(1) * LINE + tl.arange(0, LINE), wide - 1)
    upper_one = tl.zeros((LINE,), dtype=tl.float64)
    upper_two = tl.zeros((LINE,), dtype=tl.float64)
    lower_one = tl.zeros((LINE,), dtype=tl.float64)
    lower_two = tl.zeros((LINE,), dtype=tl.float64)
    for down in tl.static_range(SIDE + 1):
        line = source + (image * height + _mirror(row + (down - SIDE // 2), height)) * width
        for across in tl.static_range(SIDE):
            position = _mirror(column + (across - SIDE // 2), width)
            value = tl.load(line + position)
            if down < SIDE:
                upper_one += value * ONE[down * SIDE + across]
                upper_two += value * TWO[down * SIDE + across]
            if down >= 1:
                lower_one += value * ONE[(down - 1) * SIDE + across]
                lower_two += value * TWO[(down - 1) * SIDE + across]
    out = target + (2 * image * high + row) * wide + column
    has_lower = (row + 1 < high) & (column >= 0)
    tl.store(out, upper_one.to(target.dtype.element_ty))
    tl.store(out + wide, lower_one.to(target.dtype.element_ty), mask=has_lower)
    out += high * wide
    tl.store(out, upper_two.to(target.dtype.element_ty))
    tl.store(out + wide, lower_two.to(target.dtype.element_ty), mask=has_lower)


def subbands_by_triton(gray: Tensor, scales: int, dtype: torch.dtype) -> list[Tensor]:
    """Return the bands (B, 2, h, w) of each scale of gray images (B, H, W), finest first."""
    low = _filtered(gray.contiguous(), FIRST_LOW, step=1)
    bands = []
    for scale, (high, wide) in enumerate(sides_of_bands(gray.shape[1], gray.shape[2], scales)):
        target = torch.empty((len(gray), 2, high, wide), dtype=dtype, device=gray.device)
        _both_bands[_grid(len(gray), high, wide)](
            low, target, *low.shape[1:], high, wide,
            ONE=_weights(ACROSS), TWO=_weights(DOWN), SIDE=len(ACROSS), LINE=LINE, num_warps=1,
        )  # fmt: skip
        bands.append(target)
        if scale + 1 < scales:
            low = _filtered(low, LOW, step=2)
    return bands


def _filtered(source: Tensor, kernel: Kernel, step: int) -> Tensor:
    images, height, width = source.shape
    high, wide = -(-height // step), -(-width // step)
    target = torch.empty((images, high, wide), dtype=torch.float64, device=source.device)
    _low_pass[_grid(images, high, wide)](
        source, target, height, width, high, wide,
        WEIGHTS=_weights(kernel), SIDE=len(kernel), STEP=step, LINE=LINE, num_warps=1,
    )  # fmt: skip
    return target


def _grid(images: int, high: int, wide: int) -> tuple[int, int]:
    # rows are on the first axis, where CUDA allows 2³¹ − 1 programs; on the others 65,535
    return images * triton.cdiv(high, 2), triton.cdiv(wide, LINE)


def _weights(kernel: Kernel) -> tuple[float, ...]:
    return tuple(kernel.ravel().tolist())
