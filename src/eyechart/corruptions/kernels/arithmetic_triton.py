"""Conversions between gray levels and [0, 1] as single Triton kernels."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048


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
    _to_bytes[_grid(source)](
        source, target, source.numel(), AMOUNT=amount, BLOCK=BLOCK, enable_fp_fusion=False
    )


def to_unit_in_triton(levels: Tensor, unit: float) -> Tensor:
    """Return uint8 gray levels times `unit`, as float32."""
    source = levels.contiguous()
    out = torch.empty(source.shape, dtype=torch.float32, device=source.device)
    _to_unit[_grid(source)](source, out, source.numel(), UNIT=unit, BLOCK=BLOCK)
    return out


def _grid(source: Tensor) -> tuple[int]:
    return (triton.cdiv(source.numel(), BLOCK),)
