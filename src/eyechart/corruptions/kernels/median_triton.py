"""The median filter as Triton kernels; CUDA builds of torch include Triton.

Four pixels of a row, a quarter of the row apart, share one 32-bit word, so that one instruction
works on four windows.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from eyechart.core.devices import to_device
from eyechart.corruptions.declaration import Values

BLOCK = 256


@triton.jit  # type: ignore[untyped-decorator]
def _pack(source, target, height, width, margin, quarter, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Store the words of each plane, with replicated edges."""
    plane = tl.program_id(0).to(tl.int64)
    high, wide = height + 2 * margin, quarter + 2 * margin
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < high * wide
    row = tl.minimum(tl.maximum(place // wide - margin, 0), height - 1)
    first = place % wide - margin
    line = source + plane * height * width + row * width
    word = tl.zeros((BLOCK,), dtype=tl.int32)
    for byte in tl.static_range(4):
        column = tl.minimum(tl.maximum(first + byte * quarter, 0), width - 1)
        word |= tl.load(line + column, mask=inside, other=0).to(tl.int32) << (8 * byte)
    tl.store(target + plane * high * wide + place, word, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _medians(  # type: ignore[no-untyped-def]
    words, target, sides, channels, height, width, margin, quarter, BLOCK: tl.constexpr
):
    """Find medians bit by bit: set a bit if most pixels of the window reach the resulting level.

    Each lane computes two windows, one below the other, which share all but two rows.
    """
    plane = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    # the last program computes the last pixels several times, so that loads need no mask
    place = tl.minimum(place, (height + 1) // 2 * quarter - 1)
    # if the height is odd, the last pair overlaps the one before it
    row = tl.maximum(tl.minimum(place // quarter * 2, height - 2), 0)
    column = place % quarter
    side = tl.load(sides + plane // channels)
    stride = quarter + 2 * margin
    corner = words + plane * (height + 2 * margin) * stride
    corner += (row + margin - side // 2) * stride + column + margin - side // 2
    most = (side * side // 2).to(tl.uint32)
    pairs = tl.full((BLOCK,), 0x00FF00FF, tl.uint32)
    ones = tl.full((BLOCK,), 0x01010101, tl.uint32)
    upper = tl.zeros((BLOCK,), dtype=tl.uint32)
    lower = tl.zeros((BLOCK,), dtype=tl.uint32)
    for bit in range(8):
        upper_trial, lower_trial = upper | (ones << (7 - bit)), lower | (ones << (7 - bit))
        # the rows that only one of the two windows has; 16 bits for each of four counts: those of
        # bytes 0 and 2, and those of bytes 1 and 3
        counts = tl.zeros((BLOCK,), dtype=tl.uint32)
        for across in tl.range(side, loop_unroll_factor=4):
            counts += _reached(corner + across, upper_trial)
        upper_even, upper_odd = counts & pairs, (counts >> 8) & pairs
        counts = tl.zeros((BLOCK,), dtype=tl.uint32)
        for across in tl.range(side, loop_unroll_factor=4):
            counts += _reached(corner + side * stride + across, lower_trial)
        lower_even, lower_odd = counts & pairs, (counts >> 8) & pairs
        for down in range(1, side):
            line = corner + down * stride
            upper_counts = tl.zeros((BLOCK,), dtype=tl.uint32)
            lower_counts = tl.zeros((BLOCK,), dtype=tl.uint32)
            for across in tl.range(side, loop_unroll_factor=4):
                upper_counts += _reached(line + across, upper_trial)
                lower_counts += _reached(line + across, lower_trial)
            upper_even += upper_counts & pairs
            upper_odd += (upper_counts >> 8) & pairs
            lower_even += lower_counts & pairs
            lower_odd += (lower_counts >> 8) & pairs
        # 1 in each byte whose count exceeds half of the window
        upper |= (_exceeds(upper_even, most) | (_exceeds(upper_odd, most) << 8)) << (7 - bit)
        lower |= (_exceeds(lower_even, most) | (_exceeds(lower_odd, most) << 8)) << (7 - bit)
    for byte in tl.static_range(4):
        out = column + byte * quarter
        pixel = target + (plane * height + row) * width + out
        tl.store(pixel, ((upper >> (8 * byte)) & 0xFF).to(tl.uint8), mask=out < width)
        below = (out < width) & (row + 1 < height)
        tl.store(pixel + width, ((lower >> (8 * byte)) & 0xFF).to(tl.uint8), mask=below)


@triton.jit
def _reached(words, trial):  # type: ignore[no-untyped-def]
    """Return 1 in each byte of a word that is at least as large as that of `trial`."""
    word = tl.load(words).to(tl.uint32, bitcast=True)
    # the seven low bits are compared by a subtraction that cannot borrow, and the top bits decide
    # if they differ
    reached = (word | 0x80808080) - (trial & 0x7F7F7F7F)
    reached = (word & (trial ^ 0xFFFFFFFF)) | ((word ^ trial ^ 0xFFFFFFFF) & reached)
    return (reached & 0x80808080) >> 7


@triton.jit
def _exceeds(counts, most):  # type: ignore[no-untyped-def]
    low, high = counts & 0xFFFF, (counts >> 16) & 0xFFFF
    return (low > most).to(tl.uint32) | ((high > most).to(tl.uint32) << 16)


def median_in_triton(levels: Tensor, kernel: Values) -> Tensor:
    """Return the medians of uint8 images (B, C, H, W) in windows of `kernel` px, on a GPU.

    `kernel`: odd numbers of at most 255, so that the counts of a window's row fit into a byte.
    """
    batch, channels, height, width = levels.shape
    margin, quarter = int(kernel.max()) // 2, -(-width // 4)
    sides = to_device(torch.from_numpy(kernel.astype("int32")), levels.device)
    planes = batch * channels
    # one more row, which the second window of an image of one row reads
    size = (height + 2 * margin + 1) * (quarter + 2 * margin)
    words = torch.empty(planes, size, dtype=torch.int32, device=levels.device)
    out = torch.empty_like(levels, memory_format=torch.contiguous_format)
    shape = (height, width, margin, quarter)
    _pack[planes, triton.cdiv(size, BLOCK)](levels.contiguous(), words, *shape, BLOCK=BLOCK)
    _medians[planes, triton.cdiv(-(-height // 2) * quarter, BLOCK)](
        words, out, sides, channels, *shape, BLOCK=BLOCK
    )
    return out
