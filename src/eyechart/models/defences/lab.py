"""Between RGB and CIE Lab (white D65) in 8 bits: L is 0…255 for 0…100, a and b are moved by 128.

Towards Lab in whole numbers with OpenCV's precision, so that its levels come out; back in floats.
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
"""From linear RGB to XYZ, whose white is:"""
WHITE = (0.950456, 1.0, 1.088754)

FINE = 8
"""Steps of linear light to a grey level."""
SHARE, ROOT = 12, 15
"""Bits behind the point of the matrix and of cube roots."""
MIDDLE = 128


def to_lab(pictures: Tensor) -> Tensor:
    """Return 8-bit RGB pictures (B, 3, H, W) as 8-bit L, a and b."""
    linear, roots = _tables(pictures.device)
    light = linear[pictures.int()].unbind(1)
    x, y, z = (roots[_whole(_mixed(light, row), SHARE)] for row in _matrix())
    # L = 116 y − 16 in units of 100/255
    level = round(116 * 2.55) * y - round(16 * 2.55 * 2**ROOT)
    middle = MIDDLE << ROOT
    planes = (level, 500 * (x - y) + middle, 200 * (y - z) + middle)
    levels = [_whole(plane, ROOT).clamp_(0, 255) for plane in planes]
    return torch.stack(levels, dim=1).to(torch.uint8)


def to_rgb(lab: Tensor) -> Tensor:
    """Return 8-bit Lab pictures (B, 3, H, W) as 8-bit RGB; what RGB cannot show is clipped."""
    level, a, b = lab.float().unbind(1)
    y = (level / 2.55 + 16) / 116
    light = [_cube(y + (a - MIDDLE) / 500), _cube(y), _cube(y - (b - MIDDLE) / 200)]
    linear = torch.stack([_mixed(light, row) for row in _inverse()], dim=1).clamp_(0, 1)
    encoded = torch.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return (encoded * 255).round_().to(torch.uint8)


def _mixed(planes: "tuple[Tensor, ...] | list[Tensor]", shares: "tuple[float, ...]") -> Tensor:
    first, second, third = (plane * share for plane, share in zip(planes, shares, strict=True))
    return first + second + third


def _whole(values: Tensor, bits: int) -> Tensor:
    """Return whole numbers without their last bits, rounded."""
    return (values + (1 << (bits - 1))) >> bits


def _cube(roots: Tensor) -> Tensor:
    return torch.where(roots > 6 / 29, roots**3, (116 * roots - 16) * (27 / 24389))


@cache
def _matrix() -> tuple[tuple[int, ...], ...]:
    """The step from linear RGB to XYZ in parts of white, in whole numbers."""
    return tuple(
        tuple(round(share / white * 2**SHARE) for share in row)
        for row, white in zip(MATRIX, WHITE, strict=True)
    )


@cache
def _inverse() -> tuple[tuple[float, ...], ...]:
    """The step from XYZ in parts of white to linear RGB."""
    inverse = np.linalg.inv(np.array(MATRIX)) * np.array(WHITE)
    return cast(tuple[tuple[float, ...], ...], tuple(map(tuple, inverse.tolist())))


@cache
def _tables(device: torch.device) -> tuple[Tensor, Tensor]:
    """Linear light of the 256 levels, and the (in the dark straightened) cube roots of light."""
    level = torch.arange(256, dtype=torch.float64) / 255
    linear = torch.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)
    light = torch.arange(256 * FINE, dtype=torch.float64) / (255 * FINE)
    roots = torch.where(light > 216 / 24389, light ** (1 / 3), (24389 / 27 * light + 16) / 116)
    tables = ((linear * 255 * FINE).round(), (roots * 2**ROOT).round())
    return cast(tuple[Tensor, Tensor], tuple(table.int().to(device) for table in tables))
