"""Rulers based on visual information fidelity (VIF), and maps that show where it was lost."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.core.registry import one_of
from eyechart.visual_change.gray import to_gray
from eyechart.visual_change.registry import find_ruler
from eyechart.visual_change.ruler import DELTA_V, CleanDescription, check_size
from eyechart.visual_change.vif import pyramid
from eyechart.visual_change.vif.fidelity import (
    clean_terms,
    describe_clean,
    fidelity,
    gain_and_noise,
    kept_terms,
)
from eyechart.visual_change.vif.pyramid import BLOCK, dropped_blocks, subbands, window_side
from eyechart.visual_change.vif.statistics import (
    INFORMATION_FLOOR,
    PIXEL,
    SHEIKH2006,
    VCR,
    CleanStatistics,
    Definition,
    ImageStatistics,
    share,
)

PIXEL_SCALES = 4
"""Number of image sizes of VIFp."""

PIXEL_FLAT = 1e-10
"""A window whose variance (in squared gray levels) is below this has no structure for VIFp."""


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


@dataclass(frozen=True)
class DefinedRuler:
    """Base of rulers whose name and summary are those of a definition of VIF."""

    definition: Definition

    raw_name = DELTA_V

    @property
    def name(self) -> str:
        """The name of the definition."""
        return self.definition.name

    @property
    def summary(self) -> str:
        """What the ruler measures, as a sentence."""
        return self.definition.summary

    def raw(self, delta_v: Tensor) -> Tensor:
        """Return Δv unchanged."""
        return delta_v


class VifRuler(DefinedRuler, ABC):
    """Δv = max(0, 1 − VIF) on gray levels, by one definition of VIF."""

    smallest_side: ClassVar[int]
    full_side: ClassVar[int]
    version = 1
    limits = (
        "Color is converted to gray first; clean images that are nearly constant or a pure grating"
        " have no Δv, and raised contrast counts as no change."
    )

    def describe(self, clean: Tensor) -> CleanStatistics | PixelStatistics:
        """Return the statistics of clean images, uint8 (B, C, H, W), that VIF needs."""
        check_size(self, clean)
        return self.describe_gray(to_gray(clean))

    def compare(self, description: CleanDescription, corrupted: Tensor) -> Tensor:
        """Return Δv of corrupted images, uint8 (B, C, H, W); NaN where it cannot be measured."""
        assert isinstance(description, CleanStatistics | PixelStatistics)
        return delta_v_from_vif(
            self.fidelity(description, to_gray(corrupted)), description.measurable
        )

    @abstractmethod
    def describe_gray(
        self, gray: Tensor, dtype: torch.dtype = torch.float64
    ) -> CleanStatistics | PixelStatistics:
        """Return the description of clean gray images (B, H, W), with bands of `dtype`."""

    @abstractmethod
    def fidelity(self, description: CleanStatistics | PixelStatistics, gray: Tensor) -> Tensor:
        """Return VIF (B,), in float64, of corrupted gray images (B, H, W)."""


class SubbandRuler(VifRuler):
    """VIF on the subbands of a steerable pyramid."""

    smallest_side, full_side = pyramid.SMALLEST_SIDE, pyramid.FULL_SIDE

    def describe_gray(self, gray: Tensor, dtype: torch.dtype = torch.float64) -> CleanStatistics:
        """Return the statistics of clean gray images (B, H, W)."""
        return describe_clean(gray, self.definition, dtype)

    def fidelity(self, description: CleanStatistics | PixelStatistics, gray: Tensor) -> Tensor:
        """Return VIF (B,) of corrupted gray images (B, H, W)."""
        assert isinstance(description, CleanStatistics)
        return fidelity(description, gray)


class PixelRuler(VifRuler):
    """VIF in the pixel domain (VIFp), always in float64.

    It has Gaussian windows at four image sizes, without a pyramid.
    """

    # the window of the fourth scale fits once, and all scales are used at every valid size
    smallest_side = full_side = 41

    def describe_gray(self, gray: Tensor, dtype: torch.dtype = torch.float64) -> PixelStatistics:
        """Return the statistics of clean gray images (B, H, W)."""
        planes = gray.to(torch.float64)
        total, bits = planes.new_zeros(len(planes)), planes.new_zeros(len(planes))
        scales = []
        for level in range(PIXEL_SCALES):
            window = window_side(level, PIXEL_SCALES)
            planes = _smooth(planes, window)[:, ::2, ::2] if level else planes
            mean = _smooth(planes, window)
            # the difference may be slightly negative by rounding
            variance = (_smooth(planes * planes, window) - mean * mean).clamp_min(0)
            terms = torch.log1p(_without_flat(variance) / self.definition.noise_variance)
            scales.append(PixelScale(planes, mean, variance))
            total = total + terms.sum(dim=(1, 2))
            bits = bits + terms.mean(dim=(1, 2)) / (2 * np.log(2) * PIXEL_SCALES)
        height, width = gray.shape[1:]
        return PixelStatistics(self.definition, height, width, tuple(scales), total, bits)

    def fidelity(self, description: CleanStatistics | PixelStatistics, gray: Tensor) -> Tensor:
        """Return VIF (B,) of corrupted gray images (B, H, W)."""
        assert isinstance(description, PixelStatistics)
        planes = gray.to(torch.float64)
        kept = planes.new_zeros(len(planes))
        for level, scale in enumerate(description.scales):
            window = window_side(level, PIXEL_SCALES)
            planes = _smooth(planes, window)[:, ::2, ::2] if level else planes
            kept = kept + _kept_pixels(scale, planes, window, self.definition).sum(dim=(1, 2))
        return share(kept, description.total)


def _kept_pixels(scale: PixelScale, planes: Tensor, window: int, definition: Definition) -> Tensor:
    """Return log(1 + g² σ² / (σ_v² + σ_n²)) of each window (B, n, m)."""
    mean = _smooth(planes, window)
    variance = (_smooth(planes * planes, window) - mean * mean).clamp_min(0)
    covariance = _smooth(scale.planes * planes, window) - scale.mean * mean
    gain, noise = gain_and_noise(scale.variance, variance, covariance, PIXEL_FLAT, PIXEL_FLAT)
    signal = gain * gain * _without_flat(scale.variance)
    return torch.log1p(signal / (noise + definition.noise_variance))


def _without_flat(variance: Tensor) -> Tensor:
    return torch.where(variance < PIXEL_FLAT, 0.0, variance)


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


def delta_v_from_vif(vif: Tensor, measurable: Tensor) -> Tensor:
    """Return Δv = max(0, 1 − VIF), NaN where the clean image is not measurable."""
    # raised contrast gives a VIF above 1, which counts as no change
    return torch.where(measurable, (1 - vif).clamp_min(0), torch.nan)


VCR_RULER, SHEIKH2006_RULER = SubbandRuler(VCR), SubbandRuler(SHEIKH2006)
PIXEL_RULER = PixelRuler(PIXEL)

VIF_RULERS: tuple[VifRuler, ...] = (VCR_RULER, SHEIKH2006_RULER, PIXEL_RULER)
"""The definitions of VIF, listed here so that errors name them without loading other rulers."""


def find_mapped(name: str) -> SubbandRuler:
    """Return the ruler with this name; raise a UsageError if it does not support maps."""
    ruler = find_ruler(name)
    if not isinstance(ruler, SubbandRuler):
        mapped = [known.name for known in VIF_RULERS if isinstance(known, SubbandRuler)]
        raise UsageError(f"--map needs a ruler with subbands: {one_of(mapped)}.")
    return ruler


def losses_by_scale(clean: CleanStatistics, corrupted: Tensor) -> list[Tensor]:
    """Return the contribution of every inner block (B, n, m) to 1 − VIF, finest scale first.

    The means over the blocks of a scale, summed over scales, give 1 − VIF. The sum is negative if
    contrast was increased.
    """
    count = len(clean.scales)
    losses = []
    for level, bands in enumerate(subbands(corrupted, count, clean.dtype)):
        scale = clean.scales[level].part(slice(0, len(corrupted)))
        window = window_side(level, count)
        kept = kept_terms(scale, bands, window, clean.definition)
        lost = clean_terms(scale, clean.definition) - kept
        # the loss of a block is weighted in the same way as its subband is pooled
        weight = 1 if clean.definition.equal_bands else scale.blocks
        # an image without information has a total of 0
        total = clean.total[:, None, None].clamp_min(torch.finfo(torch.float64).tiny)
        losses.append(lost.sum(dim=1) * weight / total)
    return losses


def loss_map(clean: CleanStatistics, corrupted: Tensor) -> Tensor:
    """Return a map (B, H, W) of the lost information, whose mean is approximately 1 − VIF.

    A value of 1 is the clean image's average information per pixel. Values are interpolated between
    the blocks of a scale, and constant outside the outermost blocks, in the border that VIF leaves
    out.
    """
    count = len(clean.scales)
    height, width = corrupted.shape[1:]
    total = torch.zeros((len(corrupted), height, width), dtype=torch.float64)
    for level, losses in enumerate(losses_by_scale(clean, corrupted)):
        dropped = dropped_blocks(window_side(level, count))
        rows, columns = (
            _interpolation(side, blocks, dropped, 2**level)
            for side, blocks in zip((height, width), losses.shape[1:], strict=True)
        )
        total += rows @ losses.cpu() @ columns.T
    return total


def _interpolation(side: int, blocks: int, dropped: int, step: int) -> Tensor:
    """Return the matrix (side, blocks) that maps a line of blocks to a line of pixels."""
    pixels = torch.arange(side, dtype=torch.float64)
    # clamped, so that values continue unchanged beyond the outermost blocks
    position = ((pixels / step - BLOCK // 2) / BLOCK - dropped).clamp(0, blocks - 1)
    distance = (position[:, None] - torch.arange(blocks)).abs()
    return (1 - distance).clamp_min(0)
