"""The distortion channel of VIF, which models each corrupted window as gain · clean + noise."""

from functools import lru_cache

import torch
from torch import Tensor

from eyechart.visual_change.vif.filters import strips, window_means

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
