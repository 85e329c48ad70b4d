"""Affine maps in closed form: where pixels come from, and where points of an image go.

Coordinates are in pixels from the top left corner of the image, so that the center of its first
pixel is (0.5, 0.5). Source coordinates are computed in float64 and rounded to 2⁻¹⁶ px before the
nearest pixel is taken, so that a coordinate halfway between two pixels rounds to the same pixel on
every device.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FINE = 2.0**16
Values = NDArray[np.float64]
Points = NDArray[np.float64]
"""Coordinates x, y in the last dimension."""


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


def linear_map(a: Values, b: Values, c: Values, d: Values) -> AffineMap:
    """Return a map that keeps the center of the image."""
    nothing = np.zeros_like(a)
    return AffineMap(a, b, c, d, nothing, nothing)


def shift_map(across: Values, down: Values) -> AffineMap:
    """Return a map that takes pixels from the given distance to the right and below."""
    one, nothing = np.ones_like(across), np.zeros_like(across)
    return AffineMap(one, nothing, nothing, one, across, down)


def take(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return the pixels at integer `rows`, `columns` (B, H, W), black outside the image."""
    batch, channels, height, width = images.shape
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    # clamped to a valid index; what is outside becomes black below
    index = rows.clamp(0, height - 1) * width + columns.clamp(0, width - 1)
    index = index.expand(batch, height, width).reshape(batch, 1, -1).expand(-1, channels, -1)
    gathered = images.flatten(2).gather(2, index).reshape(images.shape)
    return gathered * inside.unsqueeze(1)


def take_nearest(images: Tensor, source: AffineMap) -> Tensor:
    """Map images with nearest-pixel sampling; `images` is (B, C, H, W), of any dtype."""
    height, width = images.shape[-2:]
    device = images.device
    a, b, c, d, across, down = (
        torch.from_numpy(entry).to(device).reshape(-1, 1, 1) for entry in source.entries
    )
    # centers of pixels, relative to the center of the image
    x = torch.arange(width, device=device, dtype=torch.float64) + 0.5 - width / 2
    y = (torch.arange(height, device=device, dtype=torch.float64) + 0.5 - height / 2)[:, None]
    columns = a * x + b * y + (across + width / 2)
    rows = c * x + d * y + (down + height / 2)
    return take(images, _whole(rows), _whole(columns))


def _whole(coordinates: Tensor) -> Tensor:
    return torch.floor(torch.round(coordinates * FINE) / FINE).to(torch.int64)
