"""The steerable pyramid, as needed for VIF: two bands per scale, cropped to whole blocks."""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from eyechart.core.devices import has_triton
from eyechart.corruptions.kernels.opencv import opencv
from eyechart.visual_change.vif.filters import ACROSS, DOWN, FIRST_LOW, LOW, Kernel, sides_of_bands

SMALLEST_SIDE = 18
"""Minimum height and width in px, at which the second scale has one inner block."""

MOST_SCALES = 4
FULL_SIDE = len(LOW) << (MOST_SCALES - 1)
"""Minimum length of the shorter side for `MOST_SCALES` scales: 72 px."""

PHASES = ((0, 0), (0, 1), (1, 0), (1, 1))
"""First row and column of the four subsampled grids: even or odd rows, even or odd columns."""


def count_scales(height: int, width: int) -> int:
    """Return how many scales fit an image.

    There are 4 scales if the shorter side is at least 72 px, 3 from 36 px, and 2 from 18 px. A
    scale fits if it is at least as large as the 9 × 9 low-pass filter.
    """
    # each scale halves the side: `bit_length` is the number of halvings for which the filter still
    # fits, plus one
    fitting = (min(height, width) // len(LOW)).bit_length()
    return min(MOST_SCALES, fitting)


def subbands(gray: Tensor, scales: int, dtype: torch.dtype) -> list[Tensor]:
    """Return the bands (B, 2, h, w) of each scale of gray images (B, H, W), finest first.

    The bands are computed in float64 and then converted to `dtype`: away from edges, the values of
    a band are much smaller than gray levels, and where both images are nearly flat, VIF depends on
    these small values.

    OpenCV computes them on a CPU, Triton on a GPU, and torch's convolution if neither is available
    or a gradient is required; the results agree within rounding.
    """
    if not gray.requires_grad:
        if gray.device.type == "cpu" and opencv() is not None:
            return _by_opencv(gray, scales, dtype)
        if has_triton(gray.device):
            from eyechart.visual_change.vif.pyramid_triton import subbands_by_triton

            return subbands_by_triton(gray, scales, dtype)
    return _by_convolution(gray.to(torch.float64), scales, dtype)


def _by_opencv(gray: Tensor, scales: int, dtype: torch.dtype) -> list[Tensor]:
    cv2 = opencv()
    sides = sides_of_bands(gray.shape[1], gray.shape[2], scales)
    results = [torch.empty((len(gray), 2, *side), dtype=dtype) for side in sides]
    bands = [result.numpy() for result in results]
    # mirrored without repeating the edge, as in the reference ("reflect1")
    border = cv2.BORDER_REFLECT_101
    for image, plane in enumerate(gray):
        low = cv2.filter2D(plane.to(torch.float64).numpy(), -1, FIRST_LOW, borderType=border)
        for scale, (height, width) in enumerate(sides):
            for band, kernel in enumerate((ACROSS, DOWN)):
                filtered = cv2.filter2D(low, -1, kernel, borderType=border)
                bands[scale][image, band] = filtered[:height, :width]
            if scale + 1 < scales:
                low = _every_second(low)
    return results


def _every_second(plane: Kernel) -> Kernel:
    """Return the low-passed plane subsampled by two along each axis.

    Even and odd rows and columns are filtered separately, so that only the kept values are
    computed.
    """
    cv2 = opencv()
    reach = len(LOW) // 2
    # padded once here, so that the phases need no border
    padded = cv2.copyMakeBorder(plane, reach, reach, reach, reach, cv2.BORDER_REFLECT_101)
    height, width = (-(-side // 2) for side in plane.shape)
    total = np.zeros((height, width))
    for row, column in PHASES:
        phase = np.ascontiguousarray(padded[row::2, column::2])
        kernel = np.ascontiguousarray(LOW[row::2, column::2])
        filtered = cv2.filter2D(phase, -1, kernel, anchor=(0, 0), borderType=cv2.BORDER_REPLICATE)
        total += filtered[:height, :width]
    return total


def _by_convolution(gray: Tensor, scales: int, dtype: torch.dtype) -> list[Tensor]:
    first, low_pass, both = _weights(gray.device)
    bands = []
    low = _correlate(gray[:, None], first)
    for scale, (height, width) in enumerate(sides_of_bands(gray.shape[1], gray.shape[2], scales)):
        bands.append(_correlate(low, both)[..., :height, :width].to(dtype))
        if scale + 1 < scales:
            low = _correlate(low, low_pass, stride=2)
    return bands


def _correlate(planes: Tensor, weights: Tensor, stride: int = 1) -> Tensor:
    reach = weights.shape[-1] // 2
    padded = functional.pad(planes, (reach, reach, reach, reach), mode="reflect")
    return functional.conv2d(padded, weights, stride=stride)


@lru_cache(maxsize=8)
def _weights(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    def weights(*kernels: Kernel) -> Tensor:
        return torch.from_numpy(np.stack(kernels))[:, None].to(device)

    return weights(FIRST_LOW), weights(LOW), weights(ACROSS, DOWN)
