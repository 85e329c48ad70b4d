"""The Gaussian scale mixture that models the clean image's subbands.

Blocks have 3 × 3 coefficients. All blocks share one covariance C; block i has the multiplier
s_i = yᵢᵀ C⁻¹ yᵢ / 9.
"""

import torch
from torch import Tensor

from eyechart.core.devices import has_triton
from eyechart.visual_change.vif.filters import BLOCK, STRIP, strips

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
        from eyechart.visual_change.vif.blocks_triton import sums_of_products

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
