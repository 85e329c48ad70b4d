"""Contrast-limited adaptive histogram equalization (CLAHE) of lightness, as in OpenCV.

Works on batches, on any device. Hues do not change, since Lab's a and b are not modified.
"""

from functools import cache
from typing import cast

import numpy as np
import torch
from torch import Tensor

from eyechart.models.defenses.defended import Kind, Setting, before_model

LEVELS = 256


def equalize(images: Tensor, clip: float = 2.0, tiles: int = 8) -> Tensor:
    """Return 8-bit RGB images (B, 3, H, W) with Lab lightness equalized in tiles.

    `tiles`: number of tiles in each row and in each column of the grid.
    `clip`: maximum count of a histogram bin, as a multiple of its count in a uniform histogram.
    """
    lab = to_lab(images)
    lab[:, 0] = equalize_levels(lab[:, 0], clip, tiles)
    return to_rgb(lab)


def equalize_levels(levels: Tensor, clip: float = 2.0, tiles: int = 8) -> Tensor:
    """Return 8-bit planes (B, H, W), equalized by interpolating between the four nearest tiles."""
    height, width = levels.shape[1:]
    padded = _padded(levels, tiles)
    tables = _tables(padded, clip, tiles)
    sides = (padded.shape[1] // tiles, padded.shape[2] // tiles)
    above, below, down = _neighbors(height, sides[0], tiles, levels.device)
    left, right, along = _neighbors(width, sides[1], tiles, levels.device)
    numbers = levels.long()
    image = torch.arange(len(levels), device=levels.device)[:, None, None]

    def look_up(row: Tensor, column: Tensor) -> Tensor:
        return tables[image, row[:, None], column, numbers]

    top = look_up(above, left) * (1 - along) + look_up(above, right) * along
    bottom = look_up(below, left) * (1 - along) + look_up(below, right) * along
    return (top * (1 - down[:, None]) + bottom * down[:, None]).round_().to(torch.uint8)


def mirrored(places: Tensor, length: int) -> Tensor:
    """Return the positions, reflected into 0 … length − 1 at the first and last pixel."""
    # A single pixel would have a period of 0.
    turn = max(2 * (length - 1), 1)
    around = places.remainder(turn)
    return torch.minimum(around, turn - around)


def _padded(levels: Tensor, tiles: int) -> Tensor:
    """Return planes padded by reflection to a multiple of the tile size, at bottom and right."""
    height, width = levels.shape[1:]
    if height % tiles == 0 and width % tiles == 0:
        return levels
    # If one side needs padding, OpenCV pads the other as well, by a full row of tiles.
    rows, columns = (
        mirrored(torch.arange(side + tiles - side % tiles, device=levels.device), side)
        for side in (height, width)
    )
    return levels[:, rows[:, None], columns]


def _tables(planes: Tensor, clip: float, tiles: int) -> Tensor:
    """Return the lookup table of each tile: float (B, tiles, tiles, 256)."""
    count, height, width = planes.shape
    area = (height // tiles) * (width // tiles)
    split = planes.reshape(count, tiles, height // tiles, tiles, width // tiles)
    split = split.transpose(2, 3).reshape(-1, area)
    bins = torch.arange(LEVELS, device=planes.device)
    # Offsets give every tile its own range of bins, so that one scatter counts all tiles.
    offsets = LEVELS * torch.arange(len(split), device=planes.device)[:, None]
    places = (split + offsets).flatten()
    counts = torch.zeros(len(split) * LEVELS, dtype=torch.long, device=planes.device)
    counts = counts.scatter_add_(0, places, torch.ones_like(places)).reshape(-1, LEVELS)
    # As in OpenCV, at least one pixel per level is allowed.
    limit = max(int(clip * area / LEVELS), 1)
    over = (counts - limit).clamp_(min=0).sum(dim=1, keepdim=True)
    # The excess is distributed evenly; its remainder goes, one each, to equally spaced bins.
    rest = over % LEVELS
    step = LEVELS // rest.clamp(min=1)
    extra = (bins % step == 0) & (bins // step < rest)
    counts = counts.clamp_(max=limit) + over // LEVELS + extra
    tables = (counts.cumsum(dim=1).float() * (255 / area)).round_().clamp_(max=255)
    return tables.reshape(count, tiles, tiles, LEVELS)


def _neighbors(
    length: int, side: int, tiles: int, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the tiles before and after each pixel of a line, and the weight of the latter."""
    # OpenCV multiplies by the reciprocal as well; a division would round differently.
    position = torch.arange(length, dtype=torch.float32, device=device) * (1 / side) - 0.5
    before = position.floor()
    behind = (before + 1).clamp_(max=tiles - 1)
    return before.clamp(min=0).long(), behind.long(), position - before


DEFENSE = Kind((Setting("clip", 2.0, 256), Setting("tiles", 8, 64, 1)), before_model(equalize))


MATRIX = (
    (0.412453, 0.357580, 0.180423),
    (0.212671, 0.715160, 0.072169),
    (0.019334, 0.119193, 0.950227),
)
"""Matrix from linear RGB to XYZ, for the white point `WHITE`."""
WHITE = (0.950456, 1.0, 1.088754)

FINE = 8
"""Number of steps of linear light per gray level."""
SHARE, ROOT = 12, 15
"""Fractional bits of the matrix and of the cube roots, in fixed-point arithmetic."""
MIDDLE = 128


def to_lab(images: Tensor) -> Tensor:
    """Return 8-bit RGB images (B, 3, H, W) as 8-bit L, a and b."""
    linear, roots = _light_tables(images.device)
    light = linear[images.int()].unbind(1)
    x, y, z = (roots[_whole(_mixed(light, row), SHARE)] for row in _matrix())
    # L = 116 y − 16, in units of 100/255.
    # The factor is rounded to an integer (296), as OpenCV does.
    level = round(116 * 2.55) * y - round(16 * 2.55 * 2**ROOT)
    middle = MIDDLE << ROOT
    planes = (level, 500 * (x - y) + middle, 200 * (y - z) + middle)
    levels = [_whole(plane, ROOT).clamp_(0, 255) for plane in planes]
    return torch.stack(levels, dim=1).to(torch.uint8)


def to_rgb(lab: Tensor) -> Tensor:
    """Return 8-bit Lab images (B, 3, H, W) as 8-bit RGB; out-of-range colors are clipped."""
    level, a, b = lab.float().unbind(1)
    y = (level / 2.55 + 16) / 116
    light = [_cube(y + (a - MIDDLE) / 500), _cube(y), _cube(y - (b - MIDDLE) / 200)]
    linear = torch.stack([_mixed(light, row) for row in _inverse()], dim=1).clamp_(0, 1)
    # The transfer function of sRGB.
    encoded = torch.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return (encoded * 255).round_().to(torch.uint8)


def _mixed(planes: "tuple[Tensor, ...] | list[Tensor]", shares: "tuple[float, ...]") -> Tensor:
    first, second, third = (plane * share for plane, share in zip(planes, shares, strict=True))
    return first + second + third


def _whole(values: Tensor, bits: int) -> Tensor:
    """Return fixed-point numbers rounded to integers."""
    return (values + (1 << (bits - 1))) >> bits


def _cube(roots: Tensor) -> Tensor:
    return torch.where(roots > 6 / 29, roots**3, (116 * roots - 16) * (27 / 24389))


@cache
def _matrix() -> tuple[tuple[int, ...], ...]:
    """Return the matrix from linear RGB to XYZ relative to white, in fixed point."""
    return tuple(
        tuple(round(share / white * 2**SHARE) for share in row)
        for row, white in zip(MATRIX, WHITE, strict=True)
    )


@cache
def _inverse() -> tuple[tuple[float, ...], ...]:
    """Return the matrix from XYZ relative to white to linear RGB."""
    inverse = np.linalg.inv(np.array(MATRIX)) * np.array(WHITE)
    return cast(tuple[tuple[float, ...], ...], tuple(map(tuple, inverse.tolist())))


@cache
def _light_tables(device: torch.device) -> tuple[Tensor, Tensor]:
    """Return two tables: the linear light of each level, and the cube root of linear light."""
    level = torch.arange(256, dtype=torch.float64) / 255
    # The inverse of sRGB's transfer function.
    linear = torch.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)
    light = torch.arange(256 * FINE, dtype=torch.float64) / (255 * FINE)
    # CIE Lab replaces the cube root by a straight line below (6/29)³ = 216/24389.
    roots = torch.where(light > 216 / 24389, light ** (1 / 3), (24389 / 27 * light + 16) / 116)
    # Rounded to fixed point, like OpenCV's tables.
    tables = ((linear * 255 * FINE).round(), (roots * 2**ROOT).round())
    return cast(tuple[Tensor, Tensor], tuple(table.int().to(device) for table in tables))
