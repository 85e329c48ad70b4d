"""How the corrupted picture came of the clean one: in each window, a gain and noise of its own."""

from functools import lru_cache

import torch
from torch import Tensor

from eyechart.visual_change.vif.filters import window_means

ROUNDING = 1e-13
"""What rounding may add to a variance, as a share of the squared mean: an even slope has none."""


def window_moments(bands: Tensor, window: int) -> tuple[Tensor, Tensor]:
    """Return mean and variance (B, 2, n, m) over the windows of the inner blocks, in float64.

    A variance that may be nothing but the rounding of the bands is zero.
    """
    exact = bands.to(torch.float64)
    mean = _averaged(exact, window)
    variance = _averaged(exact * exact, window) - mean * mean
    return mean, torch.where(variance > ROUNDING * mean * mean, variance, 0.0)


def window_covariance(
    one: Tensor, one_mean: Tensor, two: Tensor, two_mean: Tensor, window: int
) -> Tensor:
    """Return the covariance of two pictures' bands over the same windows."""
    products = one.to(torch.float64) * two.to(torch.float64)
    return _averaged(products, window) - one_mean * two_mean


def gain_and_noise(
    variance: Tensor,
    own_variance: Tensor,
    covariance: Tensor,
    flat: float,
    least_noise: float,
    gainless: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Return the gain g ≥ 0 and the variance σ_v² of the noise that explain the corrupted windows.

    `variance` is the clean picture's, `own_variance` the corrupted one's; one below `flat` means
    that there is no structure. Where there is no gain, all of the corrupted picture is noise:
    `gainless` times its variance.
    """
    gain = covariance / (variance + flat)
    noise = own_variance - gain * covariance
    structureless, empty = variance < flat, own_variance < flat
    noise = torch.where(structureless | (gain < 0), own_variance * gainless, noise)
    noise = torch.where(empty, 0.0, noise)
    gain = torch.where(structureless | empty, 0.0, gain).clamp_min(0)
    return gain, noise.clamp_min(least_noise)


def _averaged(bands: Tensor, window: int) -> Tensor:
    rows, columns = (_means(side, window, bands.device) for side in bands.shape[-2:])
    # in this order the larger product is one of two matrices, not of many
    return rows @ (bands @ columns.T)


@lru_cache(maxsize=64)
def _means(side: int, window: int, device: torch.device) -> Tensor:
    return torch.tensor(window_means(side, window), device=device)
