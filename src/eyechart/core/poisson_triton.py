"""Poisson counts by binary search as a Triton kernel; CUDA builds of torch include Triton."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit  # type: ignore[untyped-decorator]
def _count(  # type: ignore[no-untyped-def]
    levels, uniform, thresholds, distributions, counts, size, steps, halvings, BLOCK: tl.constexpr
):
    """Count the thresholds of a value's distribution that do not exceed its uniform number."""
    image = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    level = tl.load(levels + image * size + place, mask=inside, other=0).to(tl.int64)
    number = tl.load(uniform + image * size + place, mask=inside, other=0)
    row = thresholds + (tl.load(distributions + image) * 256 + level) * steps
    low = tl.zeros((BLOCK,), dtype=tl.int32)
    high = low + steps
    # the same number of steps for all values; searches that have ended keep their bounds
    for _ in range(halvings):
        middle = (low + high) // 2
        going_on = low < high
        threshold = tl.load(row + middle, mask=inside & going_on, other=0)
        reached = threshold <= number
        low = tl.where(going_on & reached, middle + 1, low)
        high = tl.where(going_on & (threshold > number), middle, high)
    tl.store(counts + image * size + place, low, mask=inside)


def count_in_triton(
    levels: Tensor, uniform: Tensor, thresholds: Tensor, distributions: Tensor
) -> Tensor:
    """Return Poisson counts, int32 and shaped like `levels` (B, …).

    Args:
        levels: gray levels 0 … 255.
        uniform: 16-bit random numbers, int64, shaped like `levels`.
        thresholds: rising distribution functions in units of 2⁻¹⁶, int64 (n, 256, K).
        distributions: for each image, which of the n distributions it has, int64 (B,).
    """
    levels, uniform = levels.contiguous(), uniform.contiguous()
    size, steps = levels[0].numel(), thresholds.shape[2]
    counts = torch.empty(levels.shape, dtype=torch.int32, device=levels.device)
    _count[len(levels), triton.cdiv(size, BLOCK)](
        levels, uniform, thresholds, distributions, counts, size, steps, steps.bit_length(),
        BLOCK=BLOCK,
    )  # fmt: skip
    return counts
