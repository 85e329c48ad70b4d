"""The `Ruler` protocol for measures of visual change; implementations are in separate modules.

A ruler gets images, never the corruption that was applied to them.
"""

from dataclasses import dataclass, replace
from typing import Protocol, Self

import torch
from torch import Tensor

from eyechart.core.errors import UsageError

DELTA_V = "Δv"
"""The `raw_name` of rulers whose raw value is Δv itself."""


class CleanDescription(Protocol):
    """A ruler's description of clean images of equal size, reused for many corrupted images."""

    def __len__(self) -> int:
        """Return the number of images."""

    @property
    def measurable(self) -> Tensor:
        """Which images contain enough information for their Δv to be defined, bool (B,)."""

    @property
    def n_scales(self) -> int:
        """The number of image scales; Δv from different numbers of scales is not comparable."""

    def select(self, indices: Tensor) -> Self:
        """Return the description of the images at these indices, which may repeat."""


@dataclass(frozen=True, eq=False)
class SharedDescription:
    """Base of descriptions that are kept once, because they are too large to be copied.

    Attributes:
        varied: which of the described images are not constant.
        n_scales: the number of image scales.
        indices: which of the described images are selected.
    """

    varied: Tensor
    n_scales: int
    indices: Tensor

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def measurable(self) -> Tensor:
        """Which images are not constant; a constant image has nothing to lose."""
        return self.varied[self.indices]

    def select(self, indices: Tensor) -> Self:
        """Return the description of the images at these indices, which may repeat."""
        return replace(self, indices=self.indices[indices])


class Ruler(Protocol):
    """Measures how much of a clean image is lost in a corrupted one: Δv from 0 to 1.

    The name and version of a ruler are part of a result's identity: values from different rulers
    are never compared.
    """

    @property
    def name(self) -> str:
        """The ruler's name, as stored in manifests, results, reports and human placements."""

    @property
    def summary(self) -> str:
        """What the ruler measures, as a sentence."""

    @property
    def version(self) -> int:
        """The version, increased when the ruler gives different values for the same images."""

    @property
    def smallest_side(self) -> int:
        """Minimum width and height in pixels of images that the ruler can measure."""

    @property
    def full_side(self) -> int:
        """Minimum length in pixels of the shorter side at which all scales are used.

        Smaller images have fewer scales, so their Δv is not comparable.
        """

    @property
    def limits(self) -> str:
        """The ruler's limitations, as a sentence."""

    def describe(self, clean: Tensor) -> CleanDescription:
        """Return the description of clean images, uint8 (B, C, H, W).

        Raises:
            UsageError: if the images are smaller than `smallest_side`.
        """

    @property
    def raw_name(self) -> str:
        """The name of the raw value, such as "LPIPS"; `DELTA_V` if the raw value is Δv itself."""

    def compare(self, description: CleanDescription, corrupted: Tensor) -> Tensor:
        """Return Δv of corrupted images, uint8 (B, C, H, W), as float64 (B,) in 0 … 1.

        `description` has the same number of images as `corrupted`, or a single image for all. Δv is
        NaN where the clean image is not measurable.
        """

    def raw(self, delta_v: Tensor) -> Tensor:
        """Return the raw values from which Δv was mapped to 0 … 1, as float64 (B,).

        This is the inverse of the ruler's monotone map.
        """


def check_size(ruler: Ruler, images: Tensor) -> None:
    """Raise a UsageError unless the images (…, H, W) are large enough for the ruler."""
    height, width = images.shape[-2:]
    if min(height, width) < ruler.smallest_side:
        raise UsageError(
            f"The ruler {ruler.name} needs images of at least {ruler.smallest_side} px on each"
            f" side, got {width} × {height} (width × height): enlarge both images."
        )


def check_ready(ruler: Ruler) -> None:
    """Raise a UsageError if the ruler cannot measure, for example because its weights are missing.

    Called before long work, which would otherwise stop at its first image.
    """
    side = ruler.smallest_side
    ruler.describe(torch.zeros(1, 3, side, side, dtype=torch.uint8))


def has_variation(images: Tensor) -> Tensor:
    """Return which images (B, C, H, W) have more than one value, bool (B,)."""
    levels = images.flatten(1)
    return levels.amax(dim=1) > levels.amin(dim=1)
