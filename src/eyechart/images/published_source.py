"""Interface to published corrupted images, which are read from files instead of being generated.

Names and positions are known up front; pixels are read on demand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from eyechart.images.image_list import ListedImage

SEVERITIES = (1, 2, 3, 4, 5)
"""The severities at which every image is available."""


@dataclass(frozen=True, eq=False)
class Readings:
    """The result of reading some samples.

    `good`: which samples could be read; `images`: their images, uint8 (K, 3, H, W); `why`: the
    reason, as a sentence, for each sample that could not be read.
    """

    images: Tensor
    good: NDArray[np.bool_]
    why: tuple[str, ...] = ()


class Corrupted(Protocol):
    """The same images under several corruptions at severities 1…5, all with the same size."""

    @property
    def listed(self) -> tuple[ListedImage, ...]:
        """File, name and label of each image."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of every image in px."""

    def read(self, corruption: str, severities: Sequence[int], places: Sequence[int]) -> Readings:
        """Return the images at these positions, each at its severity, under one corruption."""

    def take(self, places: Sequence[int]) -> "Corrupted":
        """Return a subset: the images at these positions."""
