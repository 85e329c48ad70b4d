"""Median filter with a square window for 8-bit images, with replicated edges."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.devices import has_triton
from eyechart.corruptions.declaration import Values
from eyechart.corruptions.kernels.filters import band_matrix
from eyechart.corruptions.kernels.opencv import opencv

WIDEST_OF_OPENCV = 255
"""The widest window in px that OpenCV's median and the Triton kernel support."""


def median_filter(levels: Tensor, kernel: Values) -> Tensor:
    """Return the uint8 medians of uint8 images (B, C, H, W) over windows of `kernel` (odd) px."""
    cv2 = opencv()
    if levels.device.type == "cpu" and cv2 is not None:
        out = torch.empty_like(levels)
        for source, target, side in zip(levels.numpy(), out.numpy(), kernel, strict=True):
            for plane, result in zip(source, target, strict=True):
                result[:] = _median_cv2(cv2, plane, int(side))
        return out
    if has_triton(levels.device) and kernel.max() <= WIDEST_OF_OPENCV:
        from eyechart.corruptions.kernels.median_triton import median_in_triton

        return median_in_triton(levels, kernel)
    return median_by_counting(levels, kernel)


def _median_cv2(cv2: Any, plane: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Return the medians of one plane, by counting pixels if a window is too wide for OpenCV."""
    if side <= 1:
        return plane
    if side <= WIDEST_OF_OPENCV:
        return np.asarray(cv2.medianBlur(plane, side))
    # the median is the number of gray levels that more than half of the window's pixels exceed
    medians = np.full_like(plane, plane.min())
    # levels outside the range of the plane need no count: all pixels exceed them, or none
    for level in range(int(plane.min()), int(plane.max())):
        brighter = (plane > level).view(np.uint8)
        counts = cv2.boxFilter(
            brighter, cv2.CV_32S, (side, side), normalize=False, borderType=cv2.BORDER_REPLICATE
        )
        medians += counts > side * side / 2
    return medians


def median_by_counting(levels: Tensor, kernel: Values) -> Tensor:
    """Return the result of `median_filter` without OpenCV, by counting brighter pixels.

    The median is the number of gray levels that more than half of the window's pixels exceed.
    Windows are summed by products with banded matrices of small integers, which are exact in half
    precision.
    """
    batch, channels, height, width = levels.shape
    widest = int(kernel.max())
    offset = np.abs(np.arange(widest) - widest // 2)
    # float16 holds integers up to 2,048 exactly
    number = torch.float16 if levels.is_cuda and widest**2 < 2048 else torch.float32
    windows = torch.from_numpy(offset <= (kernel[:, None] - 1) / 2).to(levels.device, number)
    across = band_matrix(windows, width, "replicate").mT.contiguous()
    down = band_matrix(windows, height, "replicate")
    half = torch.from_numpy(kernel**2 / 2).to(levels.device, number).reshape(-1, 1, 1)
    rows = levels.permute(0, 2, 1, 3).to(number, memory_format=torch.contiguous_format)
    rows = rows.reshape(batch, height * channels, width)
    medians = torch.zeros(batch, height, channels * width, dtype=number, device=levels.device)
    brighter, counts, most = (torch.empty_like(rows) for _ in range(3))
    counts, most = counts.view_as(medians), most.view_as(medians)
    for level in range(255):
        torch.gt(rows, level, out=brighter)
        torch.bmm(down, torch.bmm(brighter, across).view_as(medians), out=counts)
        torch.gt(counts, half, out=most)
        medians += most
    medians = medians.reshape(batch, height, channels, width).permute(0, 2, 1, 3)
    return medians.to(torch.uint8, memory_format=torch.contiguous_format)
