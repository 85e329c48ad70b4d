"""Corrupted pictures that others made and published: read as they are, never made here.

Who they are and where they lie is known at once; their pixels are read when they are needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from eyechart.images.image_list import Picture

SEVERITIES = (1, 2, 3, 4, 5)
"""The levels at which every picture is there."""


@dataclass(frozen=True, eq=False)
class Readings:
    """What reading some rows gave.

    `good`: which rows could be read; `pictures`: those, uint8 (K, 3, H, W); `why`: a sentence for
    each of the others.
    """

    pictures: Tensor
    good: NDArray[np.bool_]
    why: tuple[str, ...] = ()


class Corrupted(Protocol):
    """The same pictures under several corruptions at severities 1…5, all of one size in px."""

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures, each with its name and label."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of every picture in px."""

    def read(self, corruption: str, severities: Sequence[int], places: Sequence[int]) -> Readings:
        """Return the pictures at these places, each at its severity, under one corruption."""

    def take(self, places: Sequence[int]) -> "Corrupted":
        """Return some of the pictures."""
