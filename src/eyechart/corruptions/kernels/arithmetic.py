"""Arithmetic whose results do not depend on the order of summation, for reproducible pixels.

Floating-point sums depend on how a device splits them, and division by a constant differs in the
last bit between GPUs and CPUs, so this module multiplies by reciprocals instead. Means are computed
from integers, and float64 sums are rounded once, to a grid that is far coarser than their error.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.devices import has_triton


def uses_opencv(images: Tensor) -> bool:
    """Return whether OpenCV works on these images, as on a CPU; torch and Triton do elsewhere."""
    return images.device.type == "cpu"


def pixels_of(planes: NDArray[Any]) -> NDArray[Any]:
    """Return an image's planes (C, H, W) as pixels: (H, W, 3), or (H, W) if gray."""
    if len(planes) == 1:
        return np.asarray(planes[0])
    return np.asarray(cv2.merge(list(planes)))


def copy_planes(pixels: NDArray[Any], target: NDArray[Any]) -> None:
    """Write the planes of an image (H, W, 3) or (H, W) to `target` (C, H, W)."""
    if pixels.ndim == 2:
        target[:] = pixels
    else:
        cv2.split(pixels, list(target))


Rounding = Callable[[Tensor], Tensor]
"""A function that rounds every value by itself, and never maps a larger value to a smaller one."""

GRID = 2.0**20


def snap(values: Tensor) -> Tensor:
    """Return values rounded to multiples of 2⁻²⁰, as float32."""
    return torch.round(values * GRID).to(torch.float32).mul_(1 / GRID)


UNIT = 1 / 255
JUST_BELOW = 2.0**-10
"""A value that is below an integer gray level by less than this is truncated to that level."""


def to_unit(levels: Tensor) -> Tensor:
    """Return gray levels 0 … 255 as float32 in [0, 1]."""
    if has_triton(levels.device) and levels.dtype == torch.uint8:
        from eyechart.corruptions.kernels.color_triton import to_unit_in_triton

        return to_unit_in_triton(levels, UNIT)
    if levels.dtype == torch.float32:
        return levels * UNIT
    return levels.to(torch.float32).mul_(UNIT)


def to_bytes(images: Tensor, amount: float, target: Tensor) -> None:
    """Store images in [0, 1] as 8-bit levels in `target`: 255 · image + amount, truncated."""
    if has_triton(images.device) and images.dtype == torch.float32 and target.is_contiguous():
        from eyechart.corruptions.kernels.color_triton import to_bytes_in_triton

        to_bytes_in_triton(images, target, amount)
        return
    levels = (images * 255).add_(amount).clamp_(0, 255)
    if levels.device.type == "cpu" and target.dtype == torch.uint8:
        # the cast truncates; NumPy's is faster than torch's
        levels = torch.from_numpy(levels.numpy().astype(np.uint8))
    target.copy_(levels)


def look_up(levels: Tensor, table: Tensor) -> Tensor:
    """Return table[b, c, level] for every value of uint8 images; `table` is (B, C, 256)."""
    if not uses_opencv(levels):
        index = levels.flatten(2).to(torch.int64)
        return table.gather(2, index).reshape(levels.shape)
    out = torch.empty(levels.shape, dtype=table.dtype)
    for source, target, tables in zip(levels.numpy(), out.numpy(), table.numpy(), strict=True):
        for plane, result, channel_table in zip(source, target, tables, strict=True):
            cv2.LUT(plane, channel_table, result)
    return out


def exact_mean(images: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return the float32 mean over `dims` (kept) in [0, 1], independent of the summation order."""
    count = prod(images.shape[dim] for dim in dims)
    levels, full = images, 255.0
    if images.dtype != torch.uint8:
        levels, full = (images * GRID).to(torch.int32), GRID
    # an integer sum is exact in any order
    if levels.dtype == torch.uint8 and uses_opencv(levels) and dims == (2, 3):
        sums = [[cv2.sumElems(plane)[0] for plane in image] for image in levels.numpy()]
        total = torch.tensor(sums, dtype=torch.float64)[..., None, None]
    else:
        total = levels.sum(dim=dims, keepdim=True, dtype=torch.int64)
    return (total.to(torch.float64) * (1 / (count * full))).to(torch.float32)


def luma(images: Tensor) -> Tensor:
    """Return (B, 1, H, W): the Rec. 601 luma of color images; gray images are unchanged."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.unbind(dim=1)
    return (red * 0.299 + green * 0.587 + blue * 0.114).unsqueeze(1)


def to_levels(images: Tensor) -> Tensor:
    """Return the images rounded to integer gray levels 0 … 255, still float32."""
    return (images * 255).add_(0.5).floor_().clamp_(0, 255)


def truncate_levels(images: Tensor) -> Tensor:
    """Return the images truncated to integer gray levels, still float32.

    Values within `JUST_BELOW` of the next level are rounded up: a level of 100 that is 99.9999 due
    to rounding errors must not become 99.
    """
    return (images * 255).add_(JUST_BELOW).floor_().clamp_(0, 255)
