"""VIF in the pixel domain (VIFp): Gaussian windows at four image sizes, without a pyramid."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from eyechart.visual_change.vif.mixture import gain_and_noise
from eyechart.visual_change.vif.pyramid import window_side
from eyechart.visual_change.vif.statistics import (
    INFORMATION_FLOOR,
    Definition,
    ImageStatistics,
    share,
)

SCALES = 4
SMALLEST_SIDE = 41
"""Minimum height and width in px, at which the window of the fourth scale fits once."""

FLAT = 1e-10
"""A window whose variance (in squared gray levels) is below this has no structure."""


class PixelScale(NamedTuple):
    """Clean images at one scale: `planes` (B, h, w), with `mean` and `variance` over windows."""

    planes: Tensor
    mean: Tensor
    variance: Tensor


@dataclass(frozen=True, eq=False)
class PixelStatistics(ImageStatistics):
    """The statistics of clean images of equal size that VIFp needs."""

    scales: tuple[PixelScale, ...]

    @property
    def measurable(self) -> Tensor:
        """Which images contain enough information for their Δv to be defined."""
        return self.information >= INFORMATION_FLOOR

    @property
    def ill_conditioned(self) -> Tensor:
        """False for every image, because float64 is always used."""
        return torch.zeros_like(self.measurable)

    def select(self, indices: Tensor) -> "PixelStatistics":
        """Return the statistics of the images at these indices, which may repeat."""
        scales = tuple(PixelScale(*(values[indices] for values in scale)) for scale in self.scales)
        total, information = self.total[indices], self.information[indices]
        return replace(self, scales=scales, total=total, information=information)


def describe_pixels(gray: Tensor, definition: Definition) -> PixelStatistics:
    """Return the statistics of clean gray images (B, H, W) in gray levels 0 … 255."""
    planes = gray.to(torch.float64)
    total, bits = planes.new_zeros(len(planes)), planes.new_zeros(len(planes))
    scales = []
    for level in range(SCALES):
        window = window_side(level, SCALES)
        planes = _smooth(planes, window)[:, ::2, ::2] if level else planes
        mean = _smooth(planes, window)
        # the difference may be slightly negative by rounding
        variance = (_smooth(planes * planes, window) - mean * mean).clamp_min(0)
        terms = torch.log1p(_without_flat(variance) / definition.noise_variance)
        scales.append(PixelScale(planes, mean, variance))
        total = total + terms.sum(dim=(1, 2))
        bits = bits + terms.mean(dim=(1, 2)) / (2 * np.log(2) * SCALES)
    height, width = gray.shape[1:]
    return PixelStatistics(definition, height, width, tuple(scales), total, bits)


def pixel_fidelity(clean: PixelStatistics, corrupted: Tensor) -> Tensor:
    """Return VIFp (B,) of corrupted gray images (B, H, W) in gray levels.

    `clean` has the same number of images as `corrupted`, or a single image for all.
    """
    planes = corrupted.to(torch.float64)
    kept = planes.new_zeros(len(planes))
    for level, scale in enumerate(clean.scales):
        window = window_side(level, SCALES)
        planes = _smooth(planes, window)[:, ::2, ::2] if level else planes
        kept = kept + _kept_terms(scale, planes, window, clean.definition).sum(dim=(1, 2))
    return share(kept, clean.total)


def _kept_terms(scale: PixelScale, planes: Tensor, window: int, definition: Definition) -> Tensor:
    """Return log(1 + g² σ² / (σ_v² + σ_n²)) of each window (B, n, m)."""
    mean = _smooth(planes, window)
    variance = (_smooth(planes * planes, window) - mean * mean).clamp_min(0)
    covariance = _smooth(scale.planes * planes, window) - scale.mean * mean
    gain, noise = gain_and_noise(scale.variance, variance, covariance, FLAT, FLAT)
    signal = gain * gain * _without_flat(scale.variance)
    return torch.log1p(signal / (noise + definition.noise_variance))


def _without_flat(variance: Tensor) -> Tensor:
    return torch.where(variance < FLAT, 0.0, variance)


def _smooth(planes: Tensor, window: int) -> Tensor:
    """Return weighted means over the windows that are entirely inside the image."""
    rows, columns = (_weights(side, window, planes.device) for side in planes.shape[1:])
    return rows @ planes @ columns.T


@lru_cache(maxsize=64)
def _weights(side: int, window: int, device: torch.device) -> Tensor:
    """Return the matrix (side − window + 1, side) of a Gaussian with σ = window / 5."""
    reach = np.arange(window) - window // 2
    gaussian = np.exp(-(reach**2) / (2 * (window / 5) ** 2))
    # "valid" filtering: windows that cross the border are left out
    matrix = np.zeros((side - window + 1, side))
    for row in range(len(matrix)):
        matrix[row, row : row + window] = gaussian / gaussian.sum()
    return torch.tensor(matrix, device=device)
