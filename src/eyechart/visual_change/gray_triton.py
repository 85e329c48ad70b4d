"""The conversion to gray levels as one Triton kernel; CUDA builds of torch include Triton."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048


@triton.jit  # type: ignore[untyped-decorator]
def _weigh(  # type: ignore[no-untyped-def]
    source, target, pixels,
    RED: tl.constexpr, GREEN: tl.constexpr, BLUE: tl.constexpr, HALF: tl.constexpr,
    SHIFT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # in 64 bits, because offsets in a large batch exceed 2³¹
    image = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < pixels
    pixel = source + image * 3 * pixels + place
    red = tl.load(pixel, mask=inside, other=0).to(tl.int32)
    green = tl.load(pixel + pixels, mask=inside, other=0).to(tl.int32)
    blue = tl.load(pixel + 2 * pixels, mask=inside, other=0).to(tl.int32)
    gray = (red * RED + green * GREEN + blue * BLUE + HALF) >> SHIFT
    tl.store(target + image * pixels + place, gray.to(tl.uint8), mask=inside)


def weigh_in_triton(levels: Tensor, weights: tuple[int, int, int], half: int, shift: int) -> Tensor:
    """Return (Σ weight · channel + half) >> shift of uint8 images (B, 3, H, W), uint8 (B, H, W)."""
    batch, _, height, width = levels.shape
    gray = torch.empty((batch, height, width), dtype=torch.uint8, device=levels.device)
    red, green, blue = weights
    _weigh[batch, triton.cdiv(height * width, BLOCK)](
        # the kernel computes addresses for planes without gaps
        levels.contiguous(), gray, height * width,
        RED=red, GREEN=green, BLUE=blue, HALF=half, SHIFT=shift, BLOCK=BLOCK,
    )  # fmt: skip
    return gray
