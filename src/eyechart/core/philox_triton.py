"""Philox 4×32-10 as a Triton kernel: one launch instead of about a hundred torch operations.

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
