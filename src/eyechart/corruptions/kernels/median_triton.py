"""The median filter as a Triton kernel; CUDA builds of torch include Triton."""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

from eyechart.corruptions.declaration import Values

BLOCK = 256


@triton.jit  # type: ignore[untyped-decorator]
def _median_of_rows(source, target, sides, channels, height, width, margin, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Find medians bit by bit: set a bit if most pixels of the window reach the resulting level."""
    line = tl.program_id(0)
    plane, y = line // height, line % height
    x = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = x < width
    side = tl.load(sides + plane // channels)
    reach = side // 2
    stride = width + 2 * margin
    corner = source + (plane * (height + 2 * margin) + y + margin - reach) * stride
    corner += margin - reach
    median = tl.zeros([BLOCK], dtype=tl.int32)
    for bit in range(8):
        trial = median | (128 >> bit)
        count = tl.zeros([BLOCK], dtype=tl.int32)
        for down in range(side):
            row = corner + down * stride + x
            for across in range(side):
                level = tl.load(row + across, mask=inside, other=0).to(tl.int32)
                count += (level >= trial).to(tl.int32)
        median = tl.where(count * 2 > side * side, trial, median)
    tl.store(target + line * width + x, median.to(tl.uint8), mask=inside)


def median_in_triton(levels: Tensor, kernel: Values) -> Tensor:
    """Return the medians of uint8 images (B, C, H, W) in windows of `kernel` (odd) px, on a GPU."""
    channels, height, width = levels.shape[1:]
    margin = int(kernel.max()) // 2
    # torch supports replicate padding for floats only; float16 holds all gray levels
    padded = pad(levels.to(torch.float16), (margin,) * 4, mode="replicate").to(torch.uint8)
    sides = torch.from_numpy(kernel.astype("int32")).to(levels.device)
    out = torch.empty_like(levels, memory_format=torch.contiguous_format)
    grid = (levels.shape[0] * channels * height, triton.cdiv(width, BLOCK))
    _median_of_rows[grid](padded, out, sides, channels, height, width, margin, BLOCK=BLOCK)
    return out
