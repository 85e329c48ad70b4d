"""Affine and perspective maps in closed form: where pixels come from, and where points go.

Coordinates are in pixels from the top left corner of the image, so that the center of its first
pixel is (0.5, 0.5). Source coordinates are computed in float64 and rounded to 2⁻¹⁶ px before pixels
are taken, so that a coordinate halfway between two pixels rounds to the same pixel on every device.
"""

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FINE = 2.0**16
WEIGHT_BITS = 8
"""Bilinear weights are multiples of 2⁻⁸, so that sums of 8-bit values are exact integers."""
SAMPLES = 3
"""Number of points per side of a pixel whose mean is taken where an image is reduced."""
PIXELS_AT_ONCE = 1 << 24
"""Number of pixels that are interpolated at once, because each takes about 160 bytes meanwhile."""
Values = NDArray[np.float64]
Points = NDArray[np.float64]
"""Coordinates x, y in the last dimension."""


class PixelMap(Protocol):
    """A map from output to source coordinates, with one set of values per image."""

    def source(self, x: Tensor, y: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
        """Return the source coordinates x, y (B, H, W) of points relative to the center."""

    def to_output(self, points: Points, height: int, width: int) -> Points:
        """Return the output coordinates of source points (…, 2); the map must be for one image."""

    def part(self, index: int) -> Self:
        """Return the map of one image."""


@dataclass(frozen=True)
class AffineMap:
    """A map from output to source coordinates, relative to the center of the image.

    x ← a·x + b·y + across and y ← c·x + d·y + down; every attribute has one value per image.
    """

    a: Values
    b: Values
    c: Values
    d: Values
    across: Values
    down: Values

    def source(self, x: Tensor, y: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
        """Return the source coordinates x, y (B, H, W) of points relative to the center."""
        a, b, c, d, across, down = (_columns(entry, x) for entry in self.entries)
        return a * x + b * y + (across + width / 2), c * x + d * y + (down + height / 2)

    def to_output(self, points: Points, height: int, width: int) -> Points:
        """Return the output coordinates of source points (…, 2); the map must be for one image."""
        a, b, c, d, across, down = (entry.item() for entry in self.entries)
        x, y = points[..., 0] - width / 2 - across, points[..., 1] - height / 2 - down
        determinant = a * d - b * c
        moved_x, moved_y = (d * x - b * y) / determinant, (a * y - c * x) / determinant
        return np.stack((moved_x + width / 2, moved_y + height / 2), axis=-1)

    @property
    def entries(self) -> tuple[Values, Values, Values, Values, Values, Values]:
        """All attributes, in the order in which they are declared."""
        return self.a, self.b, self.c, self.d, self.across, self.down

    def part(self, index: int) -> "AffineMap":
        """Return the map of one image."""
        return AffineMap(*(entry[index : index + 1] for entry in self.entries))


@dataclass(frozen=True)
class PerspectiveMap:
    """The view of an image that is tilted about an axis through its center.

    Relative to the center, x ← x / (1 + g·x + h·y) and y ← y / (1 + g·x + h·y); g and h have one
    value per image, below 1 divided by half of the width or height.
    """

    g: Values
    h: Values

    def source(self, x: Tensor, y: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
        """Return the source coordinates x, y (B, H, W) of points relative to the center."""
        depth = 1 + _columns(self.g, x) * x + _columns(self.h, x) * y
        return x / depth + width / 2, y / depth + height / 2

    def to_output(self, points: Points, height: int, width: int) -> Points:
        """Return the output coordinates of source points (…, 2); the map must be for one image."""
        center = np.array([width / 2, height / 2])
        offset = points - center
        # the inverse of v = u / (1 + g·u) is u = v / (1 − g·v)
        depth = 1 - self.g.item() * offset[..., 0] - self.h.item() * offset[..., 1]
        return np.asarray(offset / depth[..., None] + center)

    def part(self, index: int) -> "PerspectiveMap":
        """Return the map of one image."""
        return PerspectiveMap(self.g[index : index + 1], self.h[index : index + 1])


def _columns(values: Values, like: Tensor) -> Tensor:
    """Return one value per image as (B, 1, 1), on the device of `like`."""
    return torch.from_numpy(values).to(like.device).reshape(-1, 1, 1)


def linear_map(a: Values, b: Values, c: Values, d: Values) -> AffineMap:
    """Return a map that keeps the center of the image."""
    nothing = np.zeros_like(a)
    return AffineMap(a, b, c, d, nothing, nothing)


def take(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return the pixels at integer `rows`, `columns` (B, h, w), black outside the image."""
    batch, channels, height, width = images.shape
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    # clamped to a valid index; what is outside becomes black below
    index = rows.clamp(0, height - 1) * width + columns.clamp(0, width - 1)
    size = index.shape[-2:]
    index = index.expand(batch, *size).reshape(batch, 1, -1).expand(-1, channels, -1)
    gathered = images.flatten(2).gather(2, index).reshape(batch, channels, *size)
    return gathered * inside.unsqueeze(1)


def take_nearest(images: Tensor, source: PixelMap) -> Tensor:
    """Map images with nearest-pixel sampling; `images` is (B, C, H, W), of any dtype."""
    columns, rows = source.source(*_centers(images), *images.shape[-2:])
    return take(images, _whole(rows), _whole(columns))


def take_bilinear(images: Tensor, source: PixelMap, spread: Values | None = None) -> Tensor:
    """Map 8-bit images (B, C, H, W) with bilinear sampling, exact to the last bit on every device.

    `spread`: per image, the side of the square within an output pixel over which the mean is taken,
    in pixels; a reduced image would have aliases otherwise.
    """
    x, y = _centers(images)
    levels = images.to(torch.int32)
    lines = max(1, PIXELS_AT_ONCE // (len(images) * images.shape[3]))
    strips = [_bilinear_lines(levels, source, x, part, spread) for part in torch.split(y, lines)]
    return torch.cat(strips, dim=2)


def _bilinear_lines(
    levels: Tensor, source: PixelMap, x: Tensor, y: Tensor, spread: Values | None
) -> Tensor:
    """Return the lines y (h, 1) of `take_bilinear`, with the columns x (W,), uint8 (B, C, h, W)."""
    height, width = levels.shape[-2:]
    steps: list[Tensor | float] = [0.0]
    if spread is not None and spread.any():
        side = _columns(spread, x)
        # the centers of equal parts of the square
        steps = [((index + 0.5) / SAMPLES - 0.5) * side for index in range(SAMPLES)]
    # nine samples of at most 255 · 2¹⁶ stay far below 2³¹, so that int32 holds the sum
    total = levels.new_zeros((*levels.shape[:2], len(y), width))
    for step_x in steps:
        for step_y in steps:
            columns, rows = source.source(x + step_x, y + step_y, height, width)
            total += _between(levels, rows, columns)
    # weights of rows and columns multiply, which gives 16 fractional bits per sample
    whole = len(steps) ** 2 << 2 * WEIGHT_BITS
    return ((total + whole // 2) // whole).to(torch.uint8)


def _between(levels: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return bilinear values at these coordinates, in units of 2⁻¹⁶ levels."""
    (row, down), (column, right) = (_split(coordinates) for coordinates in (rows, columns))
    total = levels.new_zeros((*levels.shape[:2], *rows.shape[-2:]))
    one = 1 << WEIGHT_BITS
    for next_row, row_weight in ((0, one - down), (1, down)):
        for next_column, column_weight in ((0, one - right), (1, right)):
            weight = (row_weight * column_weight).to(torch.int32).unsqueeze(1)
            total += take(levels, row + next_row, column + next_column) * weight
    return total


def _split(coordinates: Tensor) -> tuple[Tensor, Tensor]:
    """Return the pixel at or before each coordinate, and the weight of the next one in 2⁻⁸."""
    # the center of pixel 0 is at 0.5
    fine = torch.round((coordinates - 0.5) * FINE).to(torch.int64)
    # half of 2⁸ is added before the shift, so that weights round to nearest
    coarse = (fine + 128) >> 16 - WEIGHT_BITS
    return coarse >> WEIGHT_BITS, coarse & (1 << WEIGHT_BITS) - 1


def _centers(images: Tensor) -> tuple[Tensor, Tensor]:
    """Return the centers of pixels as x (W,) and y (H, 1), relative to the center of the image."""
    height, width = images.shape[-2:]
    device = images.device
    x = torch.arange(width, device=device, dtype=torch.float64) + 0.5 - width / 2
    y = (torch.arange(height, device=device, dtype=torch.float64) + 0.5 - height / 2)[:, None]
    return x, y


def _whole(coordinates: Tensor) -> Tensor:
    return torch.floor(torch.round(coordinates * FINE) / FINE).to(torch.int64)
