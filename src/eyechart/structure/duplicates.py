"""Find near-duplicate images: candidates by perceptual hash, confirmed by pixel differences."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.fft import dctn

from eyechart.core.progress import Advance, no_advance

SIDE, KEPT = 32, 8
"""Side in pixels of the image that is hashed, and number of DCT frequencies used per axis."""

FARTHEST = 16
"""Maximum Hamming distance between the 63-bit hashes of near-duplicates."""

MOST_APART = 0.03
"""Maximum mean color difference between near-duplicates, relative to full scale."""

REPORT_EVERY = 200
"""Number of images between progress updates."""

WHITE = 0.98
"""Color values at or above this threshold count as white background."""

Pixels = NDArray[np.uint8]


def as_small(image: Pixels) -> Pixels:
    """Return an image (H, W, 3) at the size used for hashing, to save memory."""
    return np.asarray(Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.BOX))


def small(image: Pixels) -> NDArray[np.float32]:
    """Return an image (H, W, 3) as 32 × 32 colors in [0, 1]."""
    return as_small(np.ascontiguousarray(image)).astype(np.float32) / np.float32(255)


def perceptual_hash(image: Pixels) -> int:
    """Return a 63-bit hash that barely changes under scaling and compression.

    Each bit says whether a low-frequency DCT coefficient of the gray values exceeds the median.
    """
    gray = small(image) @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    # The first coefficient is the mean brightness, which does not depend on shape.
    waves = dctn(gray, norm="ortho")[:KEPT, :KEPT].ravel()[1:]
    # With the median as threshold, half of the bits are set at any contrast.
    bits = waves > np.median(waves)
    return sum(1 << bit for bit in np.flatnonzero(bits).tolist())


def near_duplicates(
    images: Sequence[Pixels], mirrored: bool = False, advance: Advance = no_advance
) -> NDArray[np.int64]:
    """Return the index pairs (M, 2) of all near-duplicates, smaller index first.

    Args:
        images: Images (H, W, 3).
        mirrored: Whether mirror images count as duplicates.
        advance: Called after every 200 images.
    """
    hashes = np.array([perceptual_hash(image) for image in images], dtype=np.uint64)
    colors = [small(image) for image in images]
    pairs = []
    for index in range(len(images)):
        if (index + 1) % REPORT_EVERY == 0:
            advance(REPORT_EVERY, "")
        views = [(hashes[index], colors[index])]
        if mirrored:
            views.append((np.uint64(perceptual_hash(images[index][:, ::-1])),
                        colors[index][:, ::-1]))  # fmt: skip
        near: set[int] = set()
        for bits, color in views:
            # The hash only preselects; different drawings may have similar low frequencies.
            close = np.bitwise_count(hashes[:index] ^ bits) <= FARTHEST
            near |= {
                other
                for other in np.flatnonzero(close).tolist()
                if other not in near and _apart(colors[other], color) <= MOST_APART
            }
        pairs += [(other, index) for other in sorted(near)]
    advance(len(images) % REPORT_EVERY, "")
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _apart(one: NDArray[np.float32], two: NDArray[np.float32]) -> float:
    """Return the mean color difference of two images, ignoring their common white background."""
    # Icons are mostly white background, which would make every mean difference small.
    is_drawn = (one.min(axis=2) < WHITE) | (two.min(axis=2) < WHITE)
    return float(np.abs(one - two)[is_drawn].mean()) if is_drawn.any() else 0.0
