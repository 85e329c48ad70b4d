"""What is kept of clean pictures, so that each serves every corruption and strength of it."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from eyechart.visual_change.vif.definitions import Definition

ILL_CONDITIONED = 1e7
"""Above this condition number of a covariance, float32 is not enough and float64 is used."""

SINGULAR = 1e12
"""From this condition number on, as of a pure grating, float64 is not enough either."""

INFORMATION_FLOOR = 0.2
"""Below so many bits per coefficient, VIF of a noisy picture may exceed 1, or reach thousands."""

PER_PICTURE = ("total", "information", "condition")


@dataclass(frozen=True, eq=False)
class Scale:
    """Two subbands of one scale of clean pictures, and their model.

    `bands` (B, 2, h, w); over the windows of the inner blocks, `mean` and `variance` (B, 2, n, m);
    the mixture's `multiplier` s (B, 2, n, m) and `eigenvalues` λ (B, 2, 9).
    """

    bands: Tensor
    mean: Tensor
    variance: Tensor
    multiplier: Tensor
    eigenvalues: Tensor

    @property
    def blocks(self) -> int:
        """How many inner blocks a subband has."""
        return self.multiplier.shape[2] * self.multiplier.shape[3]

    def part(self, part: slice) -> "Scale":
        """Return the scale of some of the pictures; a single one serves for all."""
        return Scale(*(_part(getattr(self, field.name), part) for field in fields(Scale)))


@dataclass(frozen=True, eq=False, repr=False)
class CleanStatistics:
    """All that VIF needs to know of clean pictures of one size.

    `height` and `width` are theirs in pixels. `total`: the denominator of VIF. `information`: how
    much they vary within windows, next to the eye's noise, in bits per coefficient. `condition`:
    the largest condition number of a covariance. `exact`: the places of pictures whose covariance
    is too ill-conditioned for float32, and their statistics in float64.
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
        return len(self.total)

    def __repr__(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        return (
            f"<CleanStatistics of {len(self)} pictures, {self.width} × {self.height} px,"
            f" {self.definition.name}, {kind}, {self.total.device}>"
        )

    @property
    def n_scales(self) -> int:
        """The number of the pyramid's scales in use."""
        return len(self.scales)

    @property
    def dtype(self) -> torch.dtype:
        """The type of the bands that are kept."""
        return self.scales[0].bands.dtype

    @property
    def ill_conditioned(self) -> Tensor:
        """Which pictures' covariances need float64, and got it."""
        return self.condition > ILL_CONDITIONED

    @property
    def measurable(self) -> Tensor:
        """Which pictures hold enough information for its loss to mean anything."""
        return (self.information >= INFORMATION_FLOOR) & (self.condition < SINGULAR)

    @property
    def bytes(self) -> int:
        """How much memory the statistics take."""
        arrays = (getattr(scale, field.name) for scale in self.scales for field in fields(Scale))
        n_bytes = sum(int(array.nbytes) for array in arrays)
        return n_bytes + (self.exact[1].bytes if self.exact else 0)

    def select(self, indices: Tensor) -> "CleanStatistics":
        """Return the statistics of the images at these indices, which may repeat."""
        scales = tuple(
            Scale(*(getattr(scale, field.name)[indices] for field in fields(Scale)))
            for scale in self.scales
        )
        numbers: dict[str, Any] = {name: getattr(self, name)[indices] for name in PER_PICTURE}
        chosen = replace(self, scales=scales, **numbers, exact=None)
        if self.exact is None:
            return chosen
        among, exact = self.exact
        # (picture, its place among the exact ones) for each chosen picture that is ill-conditioned
        pairs = (indices[:, None] == among[None, :]).nonzero()
        if not len(pairs):
            return chosen
        return replace(chosen, exact=(pairs[:, 0], exact.select(pairs[:, 1])))

    def with_exact(self, places: Tensor, exact: "CleanStatistics") -> "CleanStatistics":
        """Return these statistics with the pictures at `places` described more exactly."""
        better: dict[str, Any] = {
            name: getattr(self, name).index_copy(0, places, getattr(exact, name))
            for name in PER_PICTURE
        }
        return replace(self, **better, exact=(places, exact))


def join(parts: Sequence[CleanStatistics]) -> CleanStatistics:
    """Return the statistics of several batches as one."""
    if len(parts) == 1:
        return parts[0]
    scales = tuple(
        Scale(
            *(torch.cat([getattr(scale, field.name) for scale in owns]) for field in fields(Scale))
        )
        for owns in zip(*(part.scales for part in parts), strict=True)
    )
    numbers: dict[str, Any] = {
        name: torch.cat([getattr(part, name) for part in parts]) for name in PER_PICTURE
    }
    return replace(parts[0], scales=scales, **numbers)


def _part(values: Tensor, part: slice) -> Tensor:
    if len(values) > 1:
        return values[part]
    return values.expand(part.stop - part.start, *values.shape[1:]).contiguous()
