"""What VIF assumes: a mixture that models the clean subbands, and a channel that corrupts them.

The model of the clean image is a Gaussian scale mixture of blocks of 3 × 3 coefficients. All blocks
share one covariance C; block i has the multiplier s_i = yᵢᵀ C⁻¹ yᵢ / 9. The channel models each
corrupted window as gain · clean + noise.
"""

from functools import lru_cache

import torch
from torch import Tensor

from eyechart.core.devices import has_triton
from eyechart.visual_change.vif.pyramid import BLOCK, STRIP, strips, window_means

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
