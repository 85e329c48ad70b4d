"""Triton kernels for the VIF computations on each block of a subband.

Bands may be float32; their sums are float64, because the channel's noise is a small difference
between large variances. Constants are passed as constexpr, because Triton treats other floats as
float32.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from eyechart.visual_change.vif.channel import ROUNDING
from eyechart.visual_change.vif.definitions import FLAT, Definition
from eyechart.visual_change.vif.filters import BLOCK, dropped_blocks
from eyechart.visual_change.vif.statistics import Scale

LANES = 128
"""Number of blocks that one program processes."""

LONGEST_LINE, LINES = 256, 4
"""Number of coefficients per row, and number of rows of a band, that a program multiplies at once.
"""


@triton.jit  # type: ignore[untyped-decorator]
def _products(bands, table, height, width, LINE: tl.constexpr, LINES: tl.constexpr):  # type: ignore[no-untyped-def]
    """Sum products over a band's overlapping 3 × 3 blocks: one coefficient times a row of three.

    The table has ten columns: nine for the products and one for the sum of the coefficient itself.
    """
    # int64, because an offset in the bands of a large batch may exceed 2³¹
    plane = tl.program_id(1).to(tl.int64)
    one, row_of_three = tl.program_id(0) // 3, tl.program_id(0) % 3
    # the other products follow by symmetry
    if one // 3 <= row_of_three:
        source = bands + plane * height * width
        first = source + (one // 3) * width + one % 3
        other_rows = source + row_of_three * width
        alone = tl.zeros((LINE,), dtype=tl.float64)
        left = tl.zeros((LINE,), dtype=tl.float64)
        middle = tl.zeros((LINE,), dtype=tl.float64)
        right = tl.zeros((LINE,), dtype=tl.float64)
        for start in range(0, width - 2, LINE):
            column = start + tl.arange(0, LINE)
            for top in range(0, height - 2, LINES):
                for below in tl.static_range(LINES):
                    row = top + below
                    inside = (column < width - 2) & (row < height - 2)
                    offset = row * width + column
                    value = tl.load(first + offset, mask=inside, other=0.0).to(tl.float64)
                    alone += value
                    left += value * tl.load(other_rows + offset, mask=inside, other=0.0)
                    middle += value * tl.load(other_rows + offset + 1, mask=inside, other=0.0)
                    right += value * tl.load(other_rows + offset + 2, mask=inside, other=0.0)
        out = table + plane * 90 + one * 10
        tl.store(out + 3 * row_of_three, tl.sum(left))
        tl.store(out + 3 * row_of_three + 1, tl.sum(middle))
        tl.store(out + 3 * row_of_three + 2, tl.sum(right))
        if row_of_three == 2:
            tl.store(out + 9, tl.sum(alone))


@triton.jit  # type: ignore[untyped-decorator]
def _describe(  # type: ignore[no-untyped-def]
    bands, eigenvalues, whitening, mean, variance, multiplier, sums, variations,
    height, width, rows, columns, NOISE_VARIANCE: tl.constexpr, ROUNDING: tl.constexpr,
    WINDOW: tl.constexpr, DROPPED: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Describe the clean image's blocks: moments of the window, multiplier, information."""
    plane = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0) * LANES + tl.arange(0, LANES)
    inside = block < rows * columns
    top = 3 * (block // columns + DROPPED)
    left = 3 * (block % columns + DROPPED)
    source = bands + plane * height * width
    window = source + (top + 1 - WINDOW // 2) * width + left + 1 - WINDOW // 2
    total = tl.zeros((LANES,), dtype=tl.float64)
    squares = tl.zeros((LANES,), dtype=tl.float64)
    for down in range(WINDOW):
        for across in range(WINDOW):
            value = tl.load(window + down * width + across, mask=inside, other=0.0).to(tl.float64)
            total += value
            squares += value * value
    share: tl.constexpr = 1.0 / (WINDOW * WINDOW)
    middle = total * share
    spread = squares * share - middle * middle
    spread = tl.where(spread > ROUNDING * middle * middle, spread, 0.0)

    strength = tl.zeros((LANES,), dtype=tl.float64)
    for component in tl.static_range(9):
        white = tl.zeros((LANES,), dtype=tl.float64)
        for coefficient in tl.static_range(9):
            offset = (top + coefficient // 3) * width + left + coefficient % 3
            value = tl.load(source + offset, mask=inside, other=0.0).to(tl.float64)
            white += value * tl.load(whitening + plane * 81 + component * 9 + coefficient)
        strength += white * white
    # rounded to the stored type, so that this sum agrees with the values read back later
    strength = (strength / 9).to(bands.dtype.element_ty).to(tl.float64)
    information = _log_terms(strength / NOISE_VARIANCE, eigenvalues + plane * 9)
    variation = tl.log(1 + spread / NOISE_VARIANCE)

    out = plane * rows * columns + block
    tl.store(mean + out, middle, mask=inside)
    tl.store(variance + out, spread, mask=inside)
    tl.store(multiplier + out, strength.to(bands.dtype.element_ty), mask=inside)
    offset = plane * tl.num_programs(0) + tl.program_id(0)
    tl.store(sums + offset, tl.sum(tl.where(inside, information, 0.0)))
    tl.store(variations + offset, tl.sum(tl.where(inside, variation, 0.0)))


@triton.jit  # type: ignore[untyped-decorator]
def _keep(  # type: ignore[no-untyped-def]
    clean, corrupted, mean, variance, multiplier, eigenvalues, sums,
    height, width, rows, columns, NOISE_VARIANCE: tl.constexpr, FLAT: tl.constexpr,
    MIN_NOISE: tl.constexpr, ROUNDING: tl.constexpr, GAINLESS: tl.constexpr,
    WINDOW: tl.constexpr, DROPPED: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Estimate the channel in each block's window and sum the information that is left."""
    plane = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0) * LANES + tl.arange(0, LANES)
    inside = block < rows * columns
    out = plane * rows * columns + block
    clean_mean = tl.load(mean + out, mask=inside, other=0.0)
    clean_variance = tl.load(variance + out, mask=inside, other=0.0)
    strength = tl.load(multiplier + out, mask=inside, other=0.0)

    middle = (3 * (block // columns + DROPPED) + 1) * width + 3 * (block % columns + DROPPED) + 1
    corner = plane * height * width + middle - (WINDOW // 2) * (width + 1)
    total = tl.zeros((LANES,), dtype=tl.float64)
    squares = tl.zeros((LANES,), dtype=tl.float64)
    products = tl.zeros((LANES,), dtype=tl.float64)
    for down in range(WINDOW):
        for across in range(WINDOW):
            offset = corner + down * width + across
            value = tl.load(corrupted + offset, mask=inside, other=0.0).to(tl.float64)
            total += value
            squares += value * value
            products += value * tl.load(clean + offset, mask=inside, other=0.0).to(tl.float64)
    share: tl.constexpr = 1.0 / (WINDOW * WINDOW)
    own_mean = total * share
    spread = squares * share - own_mean * own_mean
    spread = tl.where(spread > ROUNDING * own_mean * own_mean, spread, 0.0)
    covariance = products * share - clean_mean * own_mean

    gain = covariance / (clean_variance + FLAT)
    # the same case distinctions as in `channel.gain_and_noise`
    noise = spread - gain * covariance
    none = (clean_variance < FLAT) | (gain < 0)
    noise = tl.where(none, spread * GAINLESS, noise)
    noise = tl.where(spread < FLAT, 0.0, noise)
    gain = tl.where(none | (spread < FLAT), 0.0, gain)
    ratio = gain * gain * strength / (tl.maximum(noise, MIN_NOISE) + NOISE_VARIANCE)
    information = _log_terms(ratio, eigenvalues + plane * 9)
    information = tl.where(inside, information, 0.0)
    tl.store(sums + plane * tl.num_programs(0) + tl.program_id(0), tl.sum(information))


@triton.jit
def _log_terms(ratio, eigenvalues):  # type: ignore[no-untyped-def]
    """Sum log(1 + ratio·λ) over nine eigenvalues, with three factors per logarithm."""
    total = ratio * 0
    for group in tl.static_range(3):
        product = 1 + ratio * tl.load(eigenvalues + 3 * group)
        product *= 1 + ratio * tl.load(eigenvalues + 3 * group + 1)
        product *= 1 + ratio * tl.load(eigenvalues + 3 * group + 2)
        total += tl.log(product)
    return total


def sums_of_products(bands: Tensor) -> tuple[Tensor, Tensor, int]:
    """Return Σ y yᵀ (B, 2, 9, 9) and Σ y (B, 2, 9) over overlapping blocks y, and their number."""
    height, width = bands.shape[2:]
    planes = bands.shape[0] * bands.shape[1]
    table = torch.zeros((*bands.shape[:2], 9, 10), dtype=torch.float64, device=bands.device)
    line = min(LONGEST_LINE, triton.next_power_of_2(width))
    _products[(27, planes)](bands, table, height, width, LINE=line, LINES=LINES)
    # the kernel computes rows of three, which are in part below the diagonal: only the upper
    # triangle is complete
    upper = table[..., :9].triu()
    products = upper + upper.triu(1).transpose(-1, -2)
    return products, table[..., 9], (height - 2) * (width - 2)


def describe_blocks(
    bands: Tensor, eigenvalues: Tensor, whitening: Tensor, window: int, definition: Definition
) -> tuple[Scale, Tensor, Tensor]:
    """Return one scale's statistics, and two sums over its blocks (B, 2).

    The sums are Σ log(1 + s λ_j / σ_n²) and Σ log(1 + variance / σ_n²).
    """
    rows, columns = _inner_blocks(bands, window)
    mean, variance, multiplier = (
        torch.empty((*bands.shape[:2], rows, columns), dtype=dtype, device=bands.device)
        for dtype in (torch.float64, torch.float64, bands.dtype)
    )
    sums, variations = (_empty_sums(bands, rows * columns) for _ in range(2))
    eigenvalues = eigenvalues.contiguous()
    _describe[_grid(sums)](
        bands, eigenvalues, whitening.contiguous(), mean, variance, multiplier, sums, variations,
        *bands.shape[2:], rows, columns,
        NOISE_VARIANCE=definition.noise_variance, ROUNDING=ROUNDING,
        WINDOW=window, DROPPED=dropped_blocks(window), LANES=LANES,
    )  # fmt: skip
    scale = Scale(bands, mean, variance, multiplier, eigenvalues)
    return scale, sums.sum(dim=-1), variations.sum(dim=-1)


def kept_by_blocks(clean: Scale, corrupted: Tensor, window: int, definition: Definition) -> Tensor:
    """Return Σ log(1 + g² s λ_j / (σ_v² + σ_n²)) over the blocks of one scale (B, 2)."""
    sums = _empty_sums(corrupted, clean.blocks)
    _keep[_grid(sums)](
        clean.bands, corrupted, clean.mean, clean.variance, clean.multiplier, clean.eigenvalues,
        sums, *corrupted.shape[2:], *clean.multiplier.shape[2:],
        NOISE_VARIANCE=definition.noise_variance, FLAT=definition.flat(window), MIN_NOISE=FLAT,
        ROUNDING=ROUNDING, GAINLESS=definition.gainless(window),
        WINDOW=window, DROPPED=dropped_blocks(window), LANES=LANES,
    )  # fmt: skip
    return sums.sum(dim=-1)


def _inner_blocks(bands: Tensor, window: int) -> tuple[int, int]:
    dropped = dropped_blocks(window)
    height, width = (side // BLOCK - 2 * dropped for side in bands.shape[2:])
    return height, width


def _empty_sums(bands: Tensor, blocks: int) -> Tensor:
    programs = triton.cdiv(blocks, LANES)
    return torch.empty((*bands.shape[:2], programs), dtype=torch.float64, device=bands.device)


def _grid(sums: Tensor) -> tuple[int, int]:
    return sums.shape[2], sums.shape[0] * sums.shape[1]
