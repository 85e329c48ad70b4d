"""VIF on a steerable pyramid: the fraction of a clean image's information left after corruption.

VIF assumes a mixture that models the clean subbands, and a channel that corrupts them. The model of
the clean image is a Gaussian scale mixture of blocks of 3 × 3 coefficients. All blocks share one
covariance C; block i has the multiplier s_i = yᵢᵀ C⁻¹ yᵢ / 9. The channel models each corrupted
window as gain · clean + noise.
"""

from collections.abc import Callable
from functools import lru_cache
from math import log
from typing import TypeVar

import torch
from torch import Tensor

from eyechart.core.devices import has_triton
from eyechart.core.parallel import on_all_cores
from eyechart.visual_change.vif.pyramid import (
    BLOCK,
    STRIP,
    count_scales,
    dropped_blocks,
    strips,
    subbands,
    window_means,
    window_side,
)
from eyechart.visual_change.vif.statistics import (
    FLAT,
    CleanStatistics,
    Definition,
    Scale,
    join,
    share,
)

CLEAN_PIXELS = {"cpu": 4 * 224 * 224, "cuda": 512 * 224 * 224}
"""Number of pixels processed at once, chosen to fit a CPU's cache or to fill a GPU."""

MAX_IMAGES = 16_384
"""Maximum number of images processed at once, because the second axis of a CUDA grid is limited."""

Result = TypeVar("Result")


def describe_clean(
    gray: Tensor, definition: Definition, dtype: torch.dtype = torch.float64
) -> CleanStatistics:
    """Return the statistics of gray images (B, H, W) in gray levels 0 … 255.

    `dtype`: the type of the stored subbands; the pyramid and the covariances are always computed in
    float64.
    """
    statistics = join(map_chunks(gray, lambda part: _describe(gray[part], definition, dtype)))
    if dtype == torch.float64 or not statistics.ill_conditioned.any():
        return statistics
    # float32 bands are not precise enough for these images, so they are described again in float64
    indices = statistics.ill_conditioned.nonzero().flatten()
    return statistics.with_exact(indices, describe_clean(gray[indices], definition))


def fidelity(clean: CleanStatistics, corrupted: Tensor) -> Tensor:
    """Return VIF (B,), in float64, of corrupted gray images (B, H, W) in gray levels.

    `clean` has the same number of images as `corrupted`, or a single image for all.
    """
    kept = torch.cat(map_chunks(corrupted, lambda part: _kept(clean, part, corrupted[part])))
    vif = share(kept, clean.total)
    if clean.exact is None:
        return vif
    indices, exact = clean.exact
    if len(clean) == 1:
        return fidelity(exact, corrupted)
    return vif.index_copy(0, indices, fidelity(exact, corrupted[indices]))


def kept_terms(scale: Scale, corrupted: Tensor, window: int, definition: Definition) -> Tensor:
    """Return Σ_j log(1 + g² s λ_j / (σ_v² + σ_n²)) of each inner block (B, 2, n, m)."""
    mean, variance = window_moments(corrupted, window)
    shared = window_covariance(scale.bands, scale.mean, corrupted, mean, window)
    gain, noise = gain_and_noise(
        scale.variance, variance, shared, definition.flat(window), FLAT, definition.gainless(window)
    )
    # signal-to-noise ratio of the channel: g² s / (σ_v² + σ_n²), per unit eigenvalue
    ratio = gain * gain * scale.multiplier / (noise + definition.noise_variance)
    return log_terms(ratio, scale.eigenvalues)


def clean_terms(scale: Scale, definition: Definition) -> Tensor:
    """Return Σ_j log(1 + s λ_j / σ_n²) of each inner block (B, 2, n, m)."""
    ratio = scale.multiplier.to(torch.float64) / definition.noise_variance
    return log_terms(ratio, scale.eigenvalues)


def _describe(gray: Tensor, definition: Definition, dtype: torch.dtype) -> CleanStatistics:
    height, width = gray.shape[1:]
    count = count_scales(height, width)
    bands = subbands(gray, count, dtype)
    covariances = [covariance(band, definition.sample_covariance) for band in bands]
    # all at once, because each decomposition has a high launch cost on a GPU
    eigenvalues, whitening, condition = decompose(torch.stack(covariances, dim=1))
    scales, totals, bits = [], [], []
    for level, scale_bands in enumerate(bands):
        window = window_side(level, count)
        model = eigenvalues[:, level], whitening[:, level]
        scale, sums, variation = _describe_scale(scale_bands, *model, window, definition)
        scales.append(scale)
        totals.append(definition.pooled(sums, scale.blocks, level))
        bits.append(variation / scale.blocks)
    return CleanStatistics(
        definition,
        height,
        width,
        tuple(scales),
        total=torch.stack(totals).sum(dim=0),
        # ½ log(1 + SNR) per coefficient, from nats to bits
        information=torch.cat(bits, dim=1).mean(dim=1) / (2 * log(2)),
        condition=condition.amax(dim=(1, 2)),
    )


def _describe_scale(
    bands: Tensor, eigenvalues: Tensor, whitening: Tensor, window: int, definition: Definition
) -> tuple[Scale, Tensor, Tensor]:
    """Return one scale's statistics, and two sums over its blocks (B, 2).

    The sums are Σ log(1 + s λ_j / σ_n²) and Σ log(1 + variance / σ_n²).
    """
    if has_triton(bands.device):
        from eyechart.visual_change.vif.vif_triton import describe_blocks

        return describe_blocks(bands, eigenvalues, whitening, window, definition)
    multiplier = multipliers(bands, whitening, dropped_blocks(window))
    scale = Scale(bands, *window_moments(bands, window), multiplier, eigenvalues)
    variation = torch.log1p(scale.variance / definition.noise_variance)
    return scale, clean_terms(scale, definition).sum(dim=(-2, -1)), variation.sum(dim=(-2, -1))


def _kept(clean: CleanStatistics, part: slice, corrupted: Tensor) -> Tensor:
    """Return the numerator of VIF (B,)."""
    count = len(clean.scales)
    totals = []
    for level, bands in enumerate(subbands(corrupted, count, clean.dtype)):
        scale = clean.scales[level].part(part)
        window = window_side(level, count)
        # the Triton kernels have no backward pass
        if has_triton(bands.device) and not bands.requires_grad:
            from eyechart.visual_change.vif.vif_triton import kept_by_blocks

            sums = kept_by_blocks(scale, bands, window, clean.definition)
        else:
            sums = kept_terms(scale, bands, window, clean.definition).sum(dim=(-2, -1))
        totals.append(clean.definition.pooled(sums, scale.blocks, level))
    return torch.stack(totals).sum(dim=0)


def map_chunks(
    gray: Tensor,
    work: Callable[[slice], Result],
    size: int | None = None,
    *,
    one_thread_each: bool = False,
) -> list[Result]:
    """Return the result of `work` for each part of the batch; on a CPU, all cores are used.

    Args:
        gray: the batch.
        work: what to do with a part.
        size: the number of images in a part; by default as many as VIF processes at once.
        one_thread_each: as for `on_all_cores`.
    """
    count = len(gray)
    if size is None:
        # devices other than CPU and CUDA are treated like a CPU
        n_pixels = CLEAN_PIXELS.get(gray.device.type, CLEAN_PIXELS["cpu"])
        size = min(max(1, n_pixels // gray[0].numel()), MAX_IMAGES)
    parts = [slice(start, min(start + size, count)) for start in range(0, count, size)]
    # threads finish in any order; the start of a part puts its result in place
    results: dict[int, Result] = {}

    def one(part: slice) -> None:
        results[part.start] = work(part)

    # gradients are recorded per thread, so everything must run in this thread
    if gray.device.type == "cpu" and not gray.requires_grad:
        on_all_cores(one, parts, one_thread_each=one_thread_each)
    else:
        for part in parts:
            one(part)
    return [results[part.start] for part in parts]


SMALLEST_EIGENVALUE = 1e-15
NO_STRUCTURE = 1e-10
"""A subband whose variance (in squared gray levels) is below this everywhere has no structure."""

COEFFICIENTS = BLOCK * BLOCK

MATRICES = 1024
"""Number of matrices decomposed at once; cuSOLVER needs 0.6 MB for each of them."""


def covariance(bands: Tensor, sample: bool) -> Tensor:
    """Return the covariance (B, 2, 9, 9) of all overlapping blocks, in float64.

    `sample`: whether to divide by N − 1 instead of N.
    """
    if has_triton(bands.device):
        from eyechart.visual_change.vif.vif_triton import sums_of_products

        products, sums, count = sums_of_products(bands)
    else:
        products, sums, count = _sums_of_products(bands)
    means = sums / count
    # Σ (y − m)(y − m)ᵀ from the uncentered sums
    centered = products - count * means[..., :, None] * means[..., None, :]
    return centered / (count - 1 if sample else count)


def _sums_of_products(bands: Tensor) -> tuple[Tensor, Tensor, int]:
    """Return Σ y yᵀ and Σ y over overlapping blocks y, and their number."""
    height, width = bands.shape[-2:]
    products = bands.new_zeros((*bands.shape[:2], COEFFICIENTS, COEFFICIENTS), dtype=torch.float64)
    sums = bands.new_zeros((*bands.shape[:2], COEFFICIENTS), dtype=torch.float64)
    # strips overlap by two rows, so that every block is in exactly one of them
    rows = max(1, STRIP // width)
    for top in range(0, height - 2, rows):
        strip = bands[..., top : top + rows + 2, :].to(torch.float64)
        high = strip.shape[-2] - 2
        blocks = torch.stack(
            [
                strip[..., row : row + high, column : column + width - 2]
                for row in range(BLOCK)
                for column in range(BLOCK)
            ],
            dim=2,
        ).flatten(3)
        products += blocks @ blocks.transpose(-1, -2)
        sums += blocks.sum(dim=-1)
    return products, sums, (height - 2) * (width - 2)


def decompose(covariances: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return eigenvalues (…, 9), whitening matrices (…, 9, 9) and condition numbers (…).

    A whitening matrix W satisfies WᵀW = C⁻¹. Eigenvalues are clamped to at least 1e-15.
    """
    parts = torch.split(covariances.flatten(0, -3), MATRICES)
    values, vectors = (
        torch.cat(results) for results in zip(*map(torch.linalg.eigh, parts), strict=True)
    )
    values = values.reshape(covariances.shape[:-1])
    vectors = vectors.reshape(covariances.shape)
    largest, smallest = values[..., -1], values[..., 0]
    # before clamping, which would hide a singular covariance
    condition = torch.where(smallest > 0, largest / smallest, torch.inf)
    # an empty subband is harmless, not singular
    condition = torch.where(largest < NO_STRUCTURE, 1.0, condition)
    values = values.clamp_min(SMALLEST_EIGENVALUE)
    # W = Λ^(−½) Vᵀ
    whitening = (vectors / values.sqrt()[..., None, :]).transpose(-1, -2)
    return values, whitening, condition


def multipliers(bands: Tensor, whitening: Tensor, dropped: int) -> Tensor:
    """Return the multipliers s (B, 2, n, m) of the inner blocks.

    `dropped`: the number of blocks to leave out along each border.
    """
    height, width = bands.shape[-2:]
    edge = BLOCK * dropped
    inner = bands[..., edge : height - edge, edge : width - edge]
    n_rows, n_columns = inner.shape[-2] // BLOCK, inner.shape[-1] // BLOCK
    parts = [
        _strength(inner[..., BLOCK * rows.start : BLOCK * rows.stop, :], whitening)
        for rows in strips(n_rows, n_columns, COEFFICIENTS)
    ]
    return torch.cat(parts, dim=2).to(bands.dtype)


def _strength(inner: Tensor, whitening: Tensor) -> Tensor:
    """Return the multipliers of all blocks of a strip, in float64."""
    exact = inner.to(torch.float64)
    blocks = torch.stack(
        [exact[..., row::BLOCK, column::BLOCK] for row in range(BLOCK) for column in range(BLOCK)],
        dim=2,
    )
    white = whitening @ blocks.flatten(3)
    # yᵀ C⁻¹ y is the squared length of the whitened block
    strength = white.square().sum(dim=2) / COEFFICIENTS
    return strength.reshape(*blocks.shape[:2], *blocks.shape[-2:])


def log_terms(ratio: Tensor, eigenvalues: Tensor) -> Tensor:
    """Return Σ_j log(1 + ratio·λ_j) for each block: twice its information in nats.

    `ratio` is (B, 2, n, m), `eigenvalues` (B, 2, 9).
    """
    parts = [
        _log_terms(ratio[:, :, rows], eigenvalues)
        for rows in strips(ratio.shape[2], ratio.shape[3], COEFFICIENTS)
    ]
    return torch.cat(parts, dim=2)


def _log_terms(ratio: Tensor, eigenvalues: Tensor) -> Tensor:
    factors = torch.addcmul(
        ratio.new_ones((), dtype=torch.float64),
        ratio[:, :, None].to(torch.float64),
        eigenvalues[..., None, None],
    )
    # logarithms are expensive, and products of three factors cannot overflow
    three = factors[:, :, 0:3] * factors[:, :, 3:6] * factors[:, :, 6:9]
    return three.log().sum(dim=2)


ROUNDING = 1e-13
"""Variances below this fraction of the squared mean are rounding errors, as on a constant slope."""

ROWS_AT_ONCE = 128
"""Number of windows of a large image whose means are computed at once."""


def window_moments(bands: Tensor, window: int) -> tuple[Tensor, Tensor]:
    """Return mean and variance (B, 2, n, m) over the windows of the inner blocks, in float64.

    A variance that may be nothing but rounding error is set to zero.
    """
    # E[x²] − E[x]² cancels in flat regions, for which float32 is not precise enough
    mean = _averaged(bands, None, window)
    variance = _averaged(bands, bands, window) - mean * mean
    return mean, torch.where(variance > ROUNDING * mean * mean, variance, 0.0)


def window_covariance(
    one: Tensor, one_mean: Tensor, two: Tensor, two_mean: Tensor, window: int
) -> Tensor:
    """Return the covariance of two images' bands over the same windows."""
    return _averaged(one, two, window) - one_mean * two_mean


def gain_and_noise(
    variance: Tensor,
    own_variance: Tensor,
    covariance: Tensor,
    flat: float,
    min_noise: float,
    gainless: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Return the gain g ≥ 0 and the noise variance σ_v² that explain the corrupted windows.

    `variance`: the clean image's variance; `own_variance`: the corrupted image's variance. A value
    below `flat` means that there is no structure. If the clean window has no structure or the gain
    would be negative, the gain is 0 and the noise variance is `gainless` times `own_variance`.
    """
    # least squares of the corrupted on the clean coefficients; `flat` avoids a division by zero
    gain = covariance / (variance + flat)
    noise = own_variance - gain * covariance
    structureless, empty = variance < flat, own_variance < flat
    # a negative gain (an inverted image) transmits no information
    noise = torch.where(structureless | (gain < 0), own_variance * gainless, noise)
    noise = torch.where(empty, 0.0, noise)
    gain = torch.where(structureless | empty, 0.0, gain).clamp_min(0)
    return gain, noise.clamp_min(min_noise)


def _averaged(bands: Tensor, other: Tensor | None, window: int) -> Tensor:
    """Return the means of bands, or of their products with other bands, in float64."""
    rows, columns = (_means(side, window, bands.device) for side in bands.shape[-2:])

    def across(part: slice) -> Tensor:
        values = bands[..., part, :].to(torch.float64)
        if other is not None:
            values = values * other[..., part, :].to(torch.float64)
        return values @ columns.T if is_small else _times_banded(columns, values.mT).mT

    # in this order, the larger product is a single product of two matrices instead of many
    parts = strips(*bands.shape[-2:])
    is_small = len(parts) == 1
    if is_small:
        return rows @ across(parts[0])
    return _times_banded(rows, torch.cat([across(part) for part in parts], dim=-2))


def _times_banded(means: Tensor, values: Tensor) -> Tensor:
    """Return means @ values for a matrix whose rows have few entries, which are neighbors.

    The product of the whole matrices would take time in proportion to the cube of a side.
    """
    parts = []
    for start in range(0, len(means), ROWS_AT_ONCE):
        some = means[start : start + ROWS_AT_ONCE]
        used = some.any(dim=0).nonzero().flatten()
        first, last = int(used[0]), int(used[-1]) + 1
        parts.append(some[:, first:last] @ values[..., first:last, :])
    return torch.cat(parts, dim=-2)


@lru_cache(maxsize=64)
def _means(side: int, window: int, device: torch.device) -> Tensor:
    return torch.tensor(window_means(side, window), device=device)
