"""RGB to CIE Lab (white point D65) and back, in 8 bits.

L is scaled from 0…100 to 0…255, and 128 is added to a and b.
The conversion to Lab uses integer arithmetic with OpenCV's precision, to obtain the same levels as
OpenCV; the conversion back uses floats.
"""

from functools import cache
from typing import cast

import numpy as np
import torch
from torch import Tensor

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
    linear, roots = _tables(images.device)
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
def _tables(device: torch.device) -> tuple[Tensor, Tensor]:
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
