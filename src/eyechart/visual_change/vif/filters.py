"""The filters of the steerable pyramid and the windows of the channel, as arrays.

VIF uses only two of the six orientations of the fifth-order pyramid: the ones along the axes.
"""

import numpy as np
from numpy.typing import NDArray

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


def _band() -> Kernel:
    # even from top to bottom, odd from left to right
    left = np.pad(np.array(_BAND), ((0, 3), (0, 0)), mode="reflect")
    return np.hstack([left, np.zeros((7, 1)), -left[:, ::-1]])


FIRST_LOW = _mirrored(_FIRST_LOW)
"""5 × 5: the initial low-pass filter of the pyramid."""

LOW = _mirrored(_LOW)
"""9 × 9: the low-pass filter from one scale to the next, before subsampling by two."""

ACROSS = _band()
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
    """Return the side of the channel's window in coefficients; for four scales, 17, 9, 5 and 3."""
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
