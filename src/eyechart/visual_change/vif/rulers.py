"""Rulers based on visual information fidelity (VIF), and maps that show where it was lost."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.core.registry import one_of
from eyechart.visual_change.gray import to_gray
from eyechart.visual_change.registry import find_ruler
from eyechart.visual_change.ruler import DELTA_V, CleanDescription, check_size
from eyechart.visual_change.vif import pixel, pyramid
from eyechart.visual_change.vif.fidelity import clean_terms, describe_clean, fidelity, kept_terms
from eyechart.visual_change.vif.pixel import PixelStatistics, describe_pixels, pixel_fidelity
from eyechart.visual_change.vif.pyramid import BLOCK, dropped_blocks, subbands, window_side
from eyechart.visual_change.vif.statistics import (
    PIXEL,
    SHEIKH2006,
    VCR,
    CleanStatistics,
    Definition,
)


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
    """VIF in the pixel domain, always in float64."""

    # all scales are used at every valid size
    smallest_side = full_side = pixel.SMALLEST_SIDE

    def describe_gray(self, gray: Tensor, dtype: torch.dtype = torch.float64) -> PixelStatistics:
        """Return the statistics of clean gray images (B, H, W)."""
        return describe_pixels(gray, self.definition)

    def fidelity(self, description: CleanStatistics | PixelStatistics, gray: Tensor) -> Tensor:
        """Return VIF (B,) of corrupted gray images (B, H, W)."""
        assert isinstance(description, PixelStatistics)
        return pixel_fidelity(description, gray)


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
