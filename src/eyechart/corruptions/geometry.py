"""Geometry: pixels move, and areas that come from outside the image are black.

Source coordinates are computed in float64 and rounded to 2⁻¹⁶ px before the nearest pixel is
taken, so that a coordinate halfway between two pixels rounds to the same pixel on every device.
"""

import numpy as np
import torch
from torch import Tensor

from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.declaration import Parameter, Values, corruption
from eyechart.corruptions.kernels.resampling import along_both, bilinear_matrix

LONGEST = 10_000.0
FINE = 2.0**16


def take(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return the pixels at integer `rows`, `columns` (B, H, W), black outside the image."""
    batch, channels, height, width = images.shape
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    # clamped to a valid index; what is outside becomes black below
    index = rows.clamp(0, height - 1) * width + columns.clamp(0, width - 1)
    index = index.expand(batch, height, width).reshape(batch, 1, -1).expand(-1, channels, -1)
    gathered = images.flatten(2).gather(2, index).reshape(images.shape)
    return gathered * inside.unsqueeze(1)


def _nearest(images: Tensor, matrix: tuple[Values, Values, Values, Values]) -> Tensor:
    """Return the images transformed by x ← a·x + b·y, y ← c·x + d·y about their center."""
    height, width = images.shape[-2:]
    device = images.device
    # output coordinates are mapped to source coordinates
    a, b, c, d = (torch.from_numpy(entry).to(device).reshape(-1, 1, 1) for entry in matrix)
    # centers of pixels, relative to the center of the image
    x = torch.arange(width, device=device, dtype=torch.float64) + 0.5 - width / 2
    y = (torch.arange(height, device=device, dtype=torch.float64) + 0.5 - height / 2)[:, None]
    columns, rows = a * x + b * y + width / 2, c * x + d * y + height / 2
    return take(images, _whole(rows), _whole(columns))


def _whole(coordinates: Tensor) -> Tensor:
    return torch.floor(torch.round(coordinates * FINE) / FINE).to(torch.int64)


def _sign(name: str, meaning: str) -> Parameter:
    return Parameter(name, -1, 1, "sign", meaning, choices=(-1, 1), drawn=True)


@corruption(
    "noc/translation",
    "geometry",
    Parameter("across", 0, LONGEST, "px", "horizontal shift", clean=0, integer=True),
    Parameter("down", 0, LONGEST, "px", "vertical shift", clean=0, integer=True),
    _sign("to_right", "1 to the right, -1 to the left"),
    _sign("to_bottom", "1 downwards, -1 upwards"),
)
def translation(
    images: Tensor,
    random: ImageRandom,
    *,
    across: Values,
    down: Values,
    to_right: Values,
    to_bottom: Values,
) -> Tensor:
    """Shift the image left or right, and up or down."""
    height, width = images.shape[-2:]
    shift_x, shift_y = (
        torch.from_numpy((length * sign).astype(np.int64)).to(images.device).reshape(-1, 1, 1)
        for length, sign in ((across, to_right), (down, to_bottom))
    )
    rows = torch.arange(height, device=images.device)[:, None] - shift_y
    columns = torch.arange(width, device=images.device) - shift_x
    return take(images, rows, columns)


DIRECTION = _sign("direction", "1: the bottom moves left and the top right; -1: the opposite")


def _slant(images: Tensor, slope: Values) -> Tensor:
    one, nothing = np.ones_like(slope), np.zeros_like(slope)
    return _nearest(images, (one, slope, nothing, one))


@corruption(
    "noc/shear",
    "geometry",
    Parameter("degrees", 0, 80, "degrees", "angle by which verticals lean", clean=0, integer=True),
    DIRECTION,
)
def shear(images: Tensor, random: ImageRandom, *, degrees: Values, direction: Values) -> Tensor:
    """Shear the image horizontally about its center, by an angle."""
    return _slant(images, np.tan(np.radians(degrees)) * direction)


@corruption(
    "noc/shear_by_shift",
    "geometry",
    Parameter("shift", 0, 2, "fraction of the height", "shift of the outermost row", clean=0),
    DIRECTION,
)
def shear_by_shift(
    images: Tensor, random: ImageRandom, *, shift: Values, direction: Values
) -> Tensor:
    """Shear the image horizontally about its center, by the shift of its top and bottom rows."""
    return _slant(images, 2 * shift * direction)


@corruption(
    "noc/rotation",
    "geometry",
    Parameter("degrees", 0, 180, "degrees", "angle of the rotation", clean=0, integer=True),
    _sign("clockwise", "1 clockwise, -1 counterclockwise"),
)
def rotation(images: Tensor, random: ImageRandom, *, degrees: Values, clockwise: Values) -> Tensor:
    """Rotate the image about its center."""
    angle = np.radians(degrees) * clockwise
    return _nearest(images, (np.cos(angle), np.sin(angle), -np.sin(angle), np.cos(angle)))


@corruption(
    "noc/elastic",
    "geometry",
    Parameter("crop", 0, LONGEST, "px", "length that is cropped", clean=0, integer=True),
    Parameter("axis", 0, 1, "number", "0 crops the top, 1 the left", choices=(0, 1), drawn=True),
)
def elastic(images: Tensor, random: ImageRandom, *, crop: Values, axis: Values) -> Tensor:
    """Crop the image at the top or the left and stretch the rest to the original size."""
    matrices = []
    for dimension, size in enumerate(images.shape[-2:]):
        # at least one row or column remains
        cut = np.where(axis == dimension, np.minimum(crop, size - 1), 0.0)
        full = np.full_like(cut, size)
        matrices.append(bilinear_matrix(cut, full - cut, full, size, size, images.device))
    return along_both(images, *matrices)
