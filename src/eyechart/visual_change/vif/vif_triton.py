"""Triton kernels for VIF: gray levels, the pyramid, and each block of a subband.

Bands may be float32; their sums are float64, because the noise of the channel is a small difference
between large variances. Constants are passed as constexpr, because Triton treats other floats as
float32.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from eyechart.visual_change.vif.fidelity import ROUNDING
from eyechart.visual_change.vif.pyramid import (
    ACROSS,
    BLOCK,
    DOWN,
    FIRST_LOW,
    LOW,
    Kernel,
    dropped_blocks,
    sides_of_bands,
)
from eyechart.visual_change.vif.statistics import FLAT, Definition, Scale

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
    # the same case distinctions as in `fidelity.gain_and_noise`
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
        _both_bands[_grid_over_pixels(len(gray), high, wide)](
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
    _low_pass[_grid_over_pixels(images, high, wide)](
        source, target, height, width, high, wide,
        WEIGHTS=_weights(kernel), SIDE=len(kernel), STEP=step, LINE=LINE, num_warps=1,
    )  # fmt: skip
    return target


def _grid_over_pixels(images: int, high: int, wide: int) -> tuple[int, int]:
    # rows are on the first axis, where CUDA allows 2³¹ − 1 programs; on the others 65,535
    return images * triton.cdiv(high, 2), triton.cdiv(wide, LINE)


def _weights(kernel: Kernel) -> tuple[float, ...]:
    return tuple(kernel.ravel().tolist())


GRAY_BLOCK = 2048


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
    _weigh[batch, triton.cdiv(height * width, GRAY_BLOCK)](
        # the kernel computes addresses for planes without gaps
        levels.contiguous(), gray, height * width,
        RED=red, GREEN=green, BLUE=blue, HALF=half, SHIFT=shift, BLOCK=GRAY_BLOCK,
    )  # fmt: skip
    return gray
