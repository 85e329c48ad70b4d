"""Random words and Poisson counts as Triton kernels: one launch, not a hundred operations.

CUDA builds of torch include Triton; on other machines this module is never imported.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit  # type: ignore[untyped-decorator]
def _random_words(  # type: ignore[no-untyped-def]
    out, keys, salts, stream, quads, HALVES: tl.constexpr, BLOCK: tl.constexpr
):
    image = tl.program_id(0)
    position = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    key, salt = tl.load(keys + image), tl.load(salts + image)
    # keys and salts are signed: the sign bits that >> copies are cut off by the conversion
    k0, k1 = key.to(tl.uint32), (key >> 32).to(tl.uint32)
    c0 = position.to(tl.uint32)
    # as tensors rather than scalars, because the rounds below mix all four
    zero = c0 & 0
    c1 = zero + tl.load(stream).to(tl.uint32)
    c2, c3 = zero + salt.to(tl.uint32), zero + (salt >> 32).to(tl.uint32)
    for _ in tl.static_range(10):
        # literals, since a kernel cannot read the module's global variables; see randomness.py
        low0, low2 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        high0, high2 = tl.umulhi(c0, 0xD2511F53), tl.umulhi(c2, 0xCD9E8D57)
        c0, c1, c2, c3 = high2 ^ c1 ^ k0, low2, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + 0x9E3779B9, k1 + 0xBB67AE85
    inside = position < quads
    if HALVES:
        # in the order of `ImageRandom.halves`: all low halves first, then all high halves
        row = out + image * quads * 8 + position
        tl.store(row, (c0 & 0xFFFF).to(tl.int64), mask=inside)
        tl.store(row + quads, (c1 & 0xFFFF).to(tl.int64), mask=inside)
        tl.store(row + quads * 2, (c2 & 0xFFFF).to(tl.int64), mask=inside)
        tl.store(row + quads * 3, (c3 & 0xFFFF).to(tl.int64), mask=inside)
        tl.store(row + quads * 4, (c0 >> 16).to(tl.int64), mask=inside)
        tl.store(row + quads * 5, (c1 >> 16).to(tl.int64), mask=inside)
        tl.store(row + quads * 6, (c2 >> 16).to(tl.int64), mask=inside)
        tl.store(row + quads * 7, (c3 >> 16).to(tl.int64), mask=inside)
    else:
        row = out + image * quads * 4 + position
        tl.store(row, c0.to(tl.int64), mask=inside)
        tl.store(row + quads, c1.to(tl.int64), mask=inside)
        tl.store(row + quads * 2, c2.to(tl.int64), mask=inside)
        tl.store(row + quads * 3, c3.to(tl.int64), mask=inside)


def random_words(keys: Tensor, salts: Tensor, stream: Tensor, quads: int, halves: bool) -> Tensor:
    """Return int64 random words (B, 4 · quads), or 16-bit halves of them (B, 8 · quads)."""
    count = 8 if halves else 4
    out = torch.empty(len(keys), count * quads, dtype=torch.int64, device=keys.device)
    grid = (len(keys), triton.cdiv(quads, BLOCK))
    _random_words[grid](out, keys, salts, stream, quads, halves, BLOCK)
    return out


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
