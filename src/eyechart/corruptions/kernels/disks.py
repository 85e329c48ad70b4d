"""Average 8-bit images over small disks with few additions.

A disk consists of runs of pixels along its rows. The sum over a run is the sum over the run that is
two pixels shorter plus two pixels, so that each length needs only two additions, in exact integers.
"""

import numpy as np
from numpy.typing import NDArray

from eyechart.corruptions.kernels.filters import CV2_BORDERS
from eyechart.corruptions.kernels.opencv import opencv

LARGEST_RADIUS = 7
"""Disks must be smaller than this: sums over larger ones do not fit into 16 bits, and the published
code softens them differently."""

STEPS = 20
"""Number of float32 roundings behind a value, including those of a kernel and an image in float32
that this module does not use."""


def disk_means(
    levels: NDArray[np.uint8], radius: float, soft: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Return the means (C, H, W) in [0, 1] over a disk whose rim is softened by three weights.

    Borders are mirrored about the edge pixels. OpenCV is required.
    """
    cv2 = opencv()
    reach = int(radius)
    # the length of a row's run is 2 · half + 1
    halves = [int(np.sqrt(radius**2 - offset**2)) for offset in range(-reach, reach + 1)]
    # one more pixel on each side for the softening
    sides = [reach + 1] * 4
    mirror = CV2_BORDERS["mirror"]
    padded = np.stack([cv2.copyMakeBorder(plane, *sides, mirror) for plane in levels])
    # dividing a kernel of three weights instead of the image saves a pass over all pixels
    across = soft / (255 * sum(2 * half + 1 for half in halves))
    out = np.empty(levels.shape, dtype=np.float32)
    for sums, result in zip(_disk_sums(padded.astype(np.uint16), halves), out, strict=True):
        result[:] = cv2.sepFilter2D(sums, cv2.CV_32F, across, soft)[1:-1, 1:-1]
    return out


def _disk_sums(padded: NDArray[np.uint16], halves: list[int]) -> NDArray[np.uint16]:
    """Return the sums over the disk, for all pixels except a margin of the disk's reach."""
    reach = len(halves) // 2
    height, width = (size - 2 * reach for size in padded.shape[1:])
    # a copy, since the runs grow in place
    runs = padded[..., reach : reach + width].copy()
    total = np.zeros((len(padded), height, width), dtype=np.uint16)
    for half in range(reach + 1):
        if half:
            runs += padded[..., reach - half : reach - half + width]
            runs += padded[..., reach + half : reach + half + width]
        for row, own_half in enumerate(halves):
            if own_half == half:
                total += runs[:, row : row + height]
    return total
