"""The statistics of clean images, stored so that they can be reused for every corruption."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from eyechart.core.records import CheckedFields
from eyechart.visual_change.vif.definitions import Definition

ILL_CONDITIONED = 1e7
"""Condition number of a covariance above which float32 is not sufficient and float64 is used."""

SINGULAR = 1e12
"""Condition number above which even float64 is not precise enough, as for a pure grating."""

INFORMATION_FLOOR = 0.2
"""Bits per coefficient below which VIF of a noisy image may exceed 1, or even reach thousands."""

PER_IMAGE = ("total", "information", "condition")


@dataclass(frozen=True, eq=False)
class Scale:
    """Two subbands of one scale of clean images, and their model.

    Attributes:
        bands: the subbands, (B, 2, h, w); stored in full, because the covariance with a corrupted
            image needs every coefficient.
        mean: the mean over the windows of the inner blocks, (B, 2, n, m).
        variance: the variance over the same windows, (B, 2, n, m).
        multiplier: s of the mixture, (B, 2, n, m).
        eigenvalues: λ of the mixture, (B, 2, 9).
    """

    bands: Tensor
    mean: Tensor
    variance: Tensor
    multiplier: Tensor
    eigenvalues: Tensor

    @property
    def blocks(self) -> int:
        """The number of inner blocks in a subband."""
        return self.multiplier.shape[2] * self.multiplier.shape[3]

    def part(self, part: slice) -> "Scale":
        """Return the scale for a slice of the images; a single image stands for all of them."""
        return Scale(*(_part(getattr(self, field.name), part) for field in fields(Scale)))


@dataclass(frozen=True, eq=False, repr=False)
class CleanStatistics(CheckedFields):
    """The statistics of clean images of equal size that VIF needs; see `clean_statistics`.

    Attributes:
        definition: the definition of VIF.
        height: the height of the images in pixels.
        width: the width of the images in pixels.
        scales: the subbands and their model, finest scale first.
        total: the denominator of VIF.
        information: the variation within windows, relative to the visual noise, in bits per
            coefficient.
        condition: the largest condition number of a covariance.
        exact: the indices of images whose covariance is too ill-conditioned for float32, and their
            statistics in float64.

    Example:
        >>> import numpy as np
        >>> import eyechart as ec
        >>> clean = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
        >>> statistics = ec.clean_statistics(clean)
        >>> len(statistics), statistics.n_scales
        (2, 2)
    """

    definition: Definition
    height: int
    width: int
    scales: tuple[Scale, ...]
    total: Tensor
    information: Tensor
    condition: Tensor
    exact: "tuple[Tensor, CleanStatistics] | None" = None

    def __len__(self) -> int:
        return self.total.numel()

    def __repr__(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        return (
            f"<CleanStatistics of {len(self)} images, {self.width} × {self.height} px,"
            f" {self.definition.name}, {kind}, {self.total.device}>"
        )

    @property
    def n_scales(self) -> int:
        """The number of scales of the pyramid."""
        return len(self.scales)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the stored bands."""
        return self.scales[0].bands.dtype

    @property
    def ill_conditioned(self) -> Tensor:
        """Which images have ill-conditioned covariances, for which float64 was used."""
        return self.condition > ILL_CONDITIONED

    @property
    def measurable(self) -> Tensor:
        """Which images contain enough information for their Δv to be defined."""
        # the denominator of VIF is not a criterion: it is large for a constant slope, although
        # nothing varies within its windows
        return (self.information >= INFORMATION_FLOOR) & (self.condition < SINGULAR)

    @property
    def bytes(self) -> int:
        """The memory that the statistics take, in bytes."""
        arrays = (getattr(scale, field.name) for scale in self.scales for field in fields(Scale))
        n_bytes = sum(int(array.nbytes) for array in arrays)
        return n_bytes + (self.exact[1].bytes if self.exact else 0)

    def select(self, indices: Tensor) -> "CleanStatistics":
        """Return the statistics of the images at these indices, which may repeat."""
        if len(self) == len(indices) == 1:
            # Without a copy: the statistics of a large image take several times its memory.
            return self
        scales = tuple(
            Scale(*(getattr(scale, field.name)[indices] for field in fields(Scale)))
            for scale in self.scales
        )
        numbers: dict[str, Any] = {name: getattr(self, name)[indices] for name in PER_IMAGE}
        chosen = replace(self, scales=scales, **numbers, exact=None)
        if self.exact is None:
            return chosen
        among, exact = self.exact
        # (image, its index among the exact ones) for each selected image that is ill-conditioned
        pairs = (indices[:, None] == among[None, :]).nonzero()
        if not len(pairs):
            return chosen
        return replace(chosen, exact=(pairs[:, 0], exact.select(pairs[:, 1])))

    def with_exact(self, places: Tensor, exact: "CleanStatistics") -> "CleanStatistics":
        """Return these statistics with the images at `places` replaced by float64 statistics."""
        better: dict[str, Any] = {
            name: getattr(self, name).index_copy(0, places, getattr(exact, name))
            for name in PER_IMAGE
        }
        return replace(self, **better, exact=(places, exact))


def join(parts: Sequence[CleanStatistics]) -> CleanStatistics:
    """Return the statistics of several batches, joined into one batch."""
    if len(parts) == 1:
        return parts[0]
    scales = tuple(
        Scale(
            *(torch.cat([getattr(scale, field.name) for scale in owns]) for field in fields(Scale))
        )
        for owns in zip(*(part.scales for part in parts), strict=True)
    )
    numbers: dict[str, Any] = {
        name: torch.cat([getattr(part, name) for part in parts]) for name in PER_IMAGE
    }
    return replace(parts[0], scales=scales, **numbers)


def _part(values: Tensor, part: slice) -> Tensor:
    if len(values) > 1:
        return values[part]
    # the Triton kernels read memory as if it were contiguous
    return values.expand(part.stop - part.start, *values.shape[1:]).contiguous()
