"""The steerable pyramid, as needed for VIF: two bands per scale, cropped to whole blocks.

VIF uses only two of the six orientations of the fifth-order pyramid: the ones along the axes.
"""

from functools import lru_cache

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from eyechart.core.devices import has_triton
from eyechart.corruptions.kernels.arithmetic import uses_opencv

Kernel = NDArray[np.float64]

STRIP = 1 << 19
"""Approximate number of coefficients of a large image processed at once, to limit memory use."""

LARGE = 1 << 20
"""Number of coefficients above which an image is large: one megapixel."""

BLOCK = 3
"""Side of the blocks in which a subband is modeled: 3 × 3 coefficients."""

# The coefficients of `sp5_filters` in pyrtools (MIT license), originally from Simoncelli's
# matlabPyrTools. Both low-pass filters are symmetric under all reflections and transposition, so a
# triangle of one quadrant, from the corner to the center, determines them.
_FIRST_LOW = (
    (0.00341614,),
    (-0.01551246, 0.05586982),
    (-0.03848215, 0.1592557, 0.40304148),
)
_LOW = (
    (0.00170808,),
    (-0.00489834, -0.01046562),
    (-0.00775624, -0.01322234, 0.02793492),
    (-0.01888864, 0.008212, 0.06554076, 0.12852666),
    (-0.01924108, 0.02005976, 0.07962786, 0.16339236, 0.2019308),
)
# The band that differentiates along a row: odd from left to right, even from top to bottom. Its
# upper rows and left columns; the other band is its transpose (up to the sign, which VIF ignores).
_BAND = (
    (0.00277643, -0.00986904, -0.01021852),
    (0.00496194, -0.00893064, -0.03075356),
    (0.01026699, 0.01189859, -0.08226445),
    (0.01455399, 0.02755155, -0.11732297),
)


def _mirrored(triangle: tuple[tuple[float, ...], ...]) -> Kernel:
    half = len(triangle)
    quadrant = np.array(
        [[triangle[max(i, j)][min(i, j)] for j in range(half)] for i in range(half)]
    )
    return np.pad(quadrant, (0, half - 1), mode="reflect")


FIRST_LOW = _mirrored(_FIRST_LOW)
"""5 × 5: the initial low-pass filter of the pyramid."""

LOW = _mirrored(_LOW)
"""9 × 9: the low-pass filter from one scale to the next, before subsampling by two."""

# even from top to bottom, odd from left to right
_LEFT = np.pad(np.array(_BAND), ((0, 3), (0, 0)), mode="reflect")
ACROSS = np.hstack([_LEFT, np.zeros((7, 1)), -_LEFT[:, ::-1]])
"""7 × 7: the band that differentiates along rows."""

DOWN = ACROSS.T
"""7 × 7: the band that differentiates along columns."""


def sides_of_bands(height: int, width: int, scales: int) -> list[tuple[int, int]]:
    """Return the height and width of every scale's bands, cropped to whole blocks."""
    sides = []
    for _ in range(scales):
        sides.append((height // BLOCK * BLOCK, width // BLOCK * BLOCK))
        # rounded up: subsampling keeps the first row and column
        height, width = -(-height // 2), -(-width // 2)
    return sides


def window_side(level: int, scales: int) -> int:
    """Return the side of a scale's window, finest first; for four scales, 17, 9, 5 and 3."""
    return int(2 ** (scales - level) + 1)


def dropped_blocks(window: int) -> int:
    """Return how many blocks along each border are left out because their window may not fit."""
    return -(-(window // 2) // BLOCK)


def window_means(side: int, window: int) -> Kernel:
    """Return the matrix (blocks, side) that averages a line over the windows of its inner blocks.

    Blocks whose window may not fit are left out, so that no window crosses the border.
    """
    dropped = dropped_blocks(window)
    blocks = np.arange(dropped, side // BLOCK - dropped)
    starts = BLOCK * blocks + 1 - window // 2
    places = np.arange(side)
    inside = (places >= starts[:, None]) & (places < starts[:, None] + window)
    # one axis of a separable box filter
    return inside / window


def strips(height: int, width: int, coefficients: int = 1) -> list[slice]:
    """Return the rows that are processed at once: all of them, or a few of a large image.

    `coefficients`: the number of coefficients that are needed for each value.

    Example:
        >>> strips(224, 224)
        [slice(0, 224, None)]
        >>> len(strips(4000, 6000))
        46
    """
    if height * width * coefficients <= LARGE:
        return [slice(0, height)]
    rows = max(1, STRIP // (width * coefficients))
    return [slice(top, min(top + rows, height)) for top in range(0, height, rows)]


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
        if uses_opencv(gray):
            return _by_opencv(gray, scales, dtype)
        if has_triton(gray.device):
            from eyechart.visual_change.vif.vif_triton import subbands_by_triton

            return subbands_by_triton(gray, scales, dtype)
    return _by_convolution(gray.to(torch.float64), scales, dtype)


def _by_opencv(gray: Tensor, scales: int, dtype: torch.dtype) -> list[Tensor]:
    sides = sides_of_bands(gray.shape[1], gray.shape[2], scales)
    results = [torch.empty((len(gray), 2, *side), dtype=dtype) for side in sides]
    bands = [result.numpy() for result in results]
    # mirrored without repeating the edge, as in the reference ("reflect1")
    border = cv2.BORDER_REFLECT_101
    for image, plane in enumerate(gray):
        levels = plane.to(torch.float64).numpy()
        low: Kernel = np.asarray(cv2.filter2D(levels, -1, FIRST_LOW, borderType=border))
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
