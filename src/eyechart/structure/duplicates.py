"""Pictures that are the same drawing: found by a perceptual hash, and confirmed pixel by pixel."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.fft import dctn

from eyechart.core.progress import Advance, no_advance

SIDE, KEPT = 32, 8
"""A hash looks at pictures of 32 × 32 px, and of their grey values at the 8 × 8 slowest waves."""

FARTHEST = 16
"""Bits of 63 in which the hashes of two versions of one drawing may differ."""

MOST_APART = 0.03
"""Mean difference of colours, of full scale, up to which two pictures are one drawing."""

TOLD = 200
"""Pictures after which it is told how far the search is."""

WHITE = 0.98
"""Colours from here on are the paper that icons are drawn on."""

Pixels = NDArray[np.uint8]


def as_small(picture: Pixels) -> Pixels:
    """Return a picture, (H, W, 3), at the size that hashes look at, so that few bytes are kept."""
    return np.asarray(Image.fromarray(picture).resize((SIDE, SIDE), Image.Resampling.BOX))


def small(picture: Pixels) -> NDArray[np.float32]:
    """Return a picture, (H, W, 3), as 32 × 32 colours between 0 and 1."""
    return as_small(np.ascontiguousarray(picture)).astype(np.float32) / np.float32(255)


def perceptual_hash(picture: Pixels) -> int:
    """Return 63 bits that barely change when a drawing is scaled or compressed.

    One bit for each slow wave of the grey values: whether it is stronger than most of them.
    """
    grey = small(picture) @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    waves = dctn(grey, norm="ortho")[:KEPT, :KEPT].ravel()[1:]
    bits = waves > np.median(waves)
    return sum(1 << bit for bit in np.flatnonzero(bits).tolist())


def near_duplicates(
    pictures: Sequence[Pixels], mirrored: bool = False, advance: Advance = no_advance
) -> NDArray[np.int64]:
    """Return all pairs of places that hold the same drawing, (M, 2), the earlier one first.

    `mirrored`: or the same drawing mirrored left to right. `advance` is called every so many
    images.
    """
    hashes = np.array([perceptual_hash(picture) for picture in pictures], dtype=np.uint64)
    colours = [small(picture) for picture in pictures]
    pairs = []
    for index in range(len(pictures)):
        if (index + 1) % TOLD == 0:
            advance(TOLD, "")
        views = [(hashes[index], colours[index])]
        if mirrored:
            views.append((np.uint64(perceptual_hash(pictures[index][:, ::-1])),
                        colours[index][:, ::-1]))  # fmt: skip
        near: set[int] = set()
        for bits, colour in views:
            close = np.bitwise_count(hashes[:index] ^ bits) <= FARTHEST
            near |= {
                other
                for other in np.flatnonzero(close).tolist()
                if other not in near and _apart(colours[other], colour) <= MOST_APART
            }
        pairs += [(other, index) for other in sorted(near)]
    advance(len(pictures) % TOLD, "")
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _apart(one: NDArray[np.float32], two: NDArray[np.float32]) -> float:
    """Return the mean difference of two pictures' colours where either shows anything."""
    is_drawn = (one.min(axis=2) < WHITE) | (two.min(axis=2) < WHITE)
    return float(np.abs(one - two)[is_drawn].mean()) if is_drawn.any() else 0.0
