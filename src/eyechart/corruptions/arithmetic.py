"""Sums that come out the same whatever their order: the ground under reproducible pixels.

Floating-point sums depend on how a device splits them, and a GPU divides by a plain number with
another last bit than a CPU does; so numbers multiply here and never divide. Here means are taken over integers, and
filters run in float64 and are then snapped to a grid of 2⁻²⁰, far coarser than their rounding
errors and far finer than a grey level.
"""

import torch
from torch import Tensor

GRID = 2.0**20


def snap(values: Tensor) -> Tensor:
    """Return float32 values on the grid of 2⁻²⁰."""
    return torch.round(values * GRID).to(torch.float32).mul_(1 / GRID)


UNIT = 1 / 255


def to_unit(levels: Tensor) -> Tensor:
    """Return grey levels 0 … 255 as float32 in 0…1."""
    return levels.to(torch.float32) * UNIT


def exact_mean(images: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return the float32 mean over `dims` (kept), independent of the order of summation."""
    count = 1
    for dim in dims:
        count *= images.shape[dim]
    total = (images * GRID).to(torch.int32).sum(dim=dims, keepdim=True, dtype=torch.int64)
    return (total.to(torch.float64) / (count * GRID)).to(torch.float32)


def luma(images: Tensor) -> Tensor:
    """Return (B, 1, H, W): the Rec. 601 grey value of colour images, grey images as they are."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.unbind(dim=1)
    return (red * 0.299 + green * 0.587 + blue * 0.114).unsqueeze(1)


def to_levels(images: Tensor) -> Tensor:
    """Return the images rounded to whole grey levels 0 … 255, still float32."""
    return (images * 255).add_(0.5).floor_().clamp_(0, 255)


def truncate_levels(images: Tensor) -> Tensor:
    """Return the images truncated to whole grey levels, still float32.

    A value less than 2⁻¹⁰ below a whole level counts as that level, so that rounding noise in an
    unchanged region never costs a grey level.
    """
    return (images * 255).add_(2.0**-10).floor_().clamp_(0, 255)
