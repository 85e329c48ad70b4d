"""The definitions of VIF, and the statistics of clean images, reused for every corruption."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from eyechart.core.records import CheckedFields

FLAT = 1e-15
"""A window whose variance (in squared gray levels) is below this has no structure."""


@dataclass(frozen=True)
class Definition:
    """The parameters that distinguish one definition from another.

    Attributes:
        noise_variance: σ_n² of the visual noise, in squared gray levels.
        equal_bands: whether every subband has the same weight (means over its blocks), rather than
            a weight proportional to its number of blocks (sums).
        stabilizer: added to the information of each subband.
        sample_covariance: whether covariances are divided by N − 1 instead of N.
        summed_noise: whether sums over the window, rather than means, determine which windows are
            flat, and are used as the noise if the channel has no gain, as in the first published
            code.
        scale_weights: the weight of each scale, finest first; all scales have the same weight if
            empty.
        summary: what is measured, as a sentence.
    """

    name: str
    noise_variance: float
    equal_bands: bool = False
    stabilizer: float = 0.0
    sample_covariance: bool = False
    summed_noise: bool = False
    scale_weights: tuple[float, ...] = ()
    summary: str = ""

    def pooled(self, sums: Tensor, blocks: int, level: int) -> Tensor:
        """Return the contribution of one scale's subbands (B, 2) to a sum over scales, (B,)."""
        # with sums the finest scale dominates, as it has the most blocks
        weighted = sums / blocks if self.equal_bands else sums
        pooled = (weighted + self.stabilizer).sum(dim=-1)
        return pooled * self.scale_weights[level] if self.scale_weights else pooled

    def flat(self, window: int) -> float:
        """Return the variance below which a window has no structure."""
        return FLAT / window**2 if self.summed_noise else FLAT

    def gainless(self, window: int) -> float:
        """Return the noise variance relative to the corrupted image's variance if the gain is 0."""
        return float(window**2) if self.summed_noise else 1.0


def share(kept: Tensor, total: Tensor) -> Tensor:
    """Return kept / total, or 1 if the total is 0, because then nothing can be lost."""
    # the inner `where` keeps 0 / 0 out of the gradient, which would be NaN although it is not
    # selected
    is_positive = total > 0
    return torch.where(is_positive, kept / torch.where(is_positive, total, 1.0), 1.0)


VCR = Definition(
    "vif",
    0.1,
    equal_bands=True,
    stabilizer=1e-4,
    sample_covariance=True,
    summary="Information lost in subbands: 1 − VIF as in the VCR study.",
)
"""The definition that VCR-Bench uses."""

SHEIKH2006 = Definition(
    "sheikh2006",
    0.4,
    summed_noise=True,
    summary="Information lost in subbands: 1 − VIF as in the first published code.",
)
"""The definition in vifvec, the authors' first code; the finest scale dominates."""

PIXEL = Definition("vif-pixel", 2.0, summary="Information lost between pixels: 1 − VIFp.")
"""VIFp, without a pyramid; piq, torchmetrics and sewar compute the same for gray images with values
from 0 to 255 (docs/concepts/visual_change.md has the differences for color)."""

HUMAN = Definition(
    "vif-human",
    1.0,
    equal_bands=True,
    stabilizer=1e-4,
    sample_covariance=True,
    # 2^(−level / 2): finer scales count more
    scale_weights=(1.0, 0.7071, 0.5, 0.3536),
    summary="Information lost after registration, with visual noise and scale weights fitted to"
    " human accuracy.",
)
"""The definition of VCR with noise and weights fitted to humans, for registered images.

The values are those of `eyechart rulers study --fit` on 80 images (docs/research/rulers.md).
"""


ILL_CONDITIONED = 1e7
"""Condition number of a covariance above which float32 is not sufficient and float64 is used."""

SINGULAR = 1e12
"""Condition number above which even float64 is not precise enough, as for a pure grating."""

INFORMATION_FLOOR = 0.2
"""Bits per coefficient below which VIF of a noisy image may exceed 1, or even reach thousands."""

PER_IMAGE = ("total", "information", "condition")


class Scale(NamedTuple):
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
        if len(self.bands) > 1:
            return Scale(*(values[part] for values in self))
        n = part.stop - part.start
        # the Triton kernels read memory as if it were contiguous
        return Scale(*(values.expand(n, *values.shape[1:]).contiguous() for values in self))


@dataclass(frozen=True, eq=False, repr=False)
class ImageStatistics(CheckedFields):
    """Base of the statistics of clean images of equal size that a definition of VIF needs.

    Attributes:
        definition: the definition of VIF.
        height: the height of the images in pixels.
        width: the width of the images in pixels.
        scales: what is kept of each scale, finest scale first.
        total: the denominator of VIF.
        information: the variation within windows, relative to the visual noise, in bits per
            coefficient or pixel.
    """

    definition: Definition
    height: int
    width: int
    scales: tuple[tuple[Tensor, ...], ...]
    total: Tensor
    information: Tensor

    def __len__(self) -> int:
        return self.total.numel()

    @property
    def n_scales(self) -> int:
        """The number of image scales."""
        return len(self.scales)

    @property
    def bytes(self) -> int:
        """The memory that the statistics take, in bytes."""
        return sum(values.nbytes for scale in self.scales for values in scale)


@dataclass(frozen=True, eq=False, repr=False)
class CleanStatistics(ImageStatistics):
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

    scales: tuple[Scale, ...]
    condition: Tensor
    exact: "tuple[Tensor, CleanStatistics] | None" = None

    def __repr__(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        return (
            f"<CleanStatistics of {len(self)} images, {self.width} × {self.height} px,"
            f" {self.definition.name}, {kind}, {self.total.device}>"
        )

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
        return super().bytes + (self.exact[1].bytes if self.exact else 0)

    def select(self, indices: Tensor) -> "CleanStatistics":
        """Return the statistics of the images at these indices, which may repeat."""
        if len(self) == len(indices) == 1:
            # Without a copy: the statistics of a large image take several times its memory.
            return self
        scales = tuple(Scale(*(values[indices] for values in scale)) for scale in self.scales)
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

    def with_exact(self, indices: Tensor, exact: "CleanStatistics") -> "CleanStatistics":
        """Return these statistics with the images at `indices` replaced by float64 statistics."""
        better: dict[str, Any] = {
            name: getattr(self, name).index_copy(0, indices, getattr(exact, name))
            for name in PER_IMAGE
        }
        return replace(self, **better, exact=(indices, exact))


def join(parts: Sequence[CleanStatistics]) -> CleanStatistics:
    """Return the statistics of several batches, joined into one batch."""
    if len(parts) == 1:
        return parts[0]
    scales = tuple(
        Scale(*map(torch.cat, zip(*owns, strict=True)))
        for owns in zip(*(part.scales for part in parts), strict=True)
    )
    numbers: dict[str, Any] = {
        name: torch.cat([getattr(part, name) for part in parts]) for name in PER_IMAGE
    }
    return replace(parts[0], scales=scales, **numbers)
