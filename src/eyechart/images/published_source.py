"""Published corrupted images, read from files instead of being generated: their interface, arrays.

A `CorruptedSource` knows names and positions up front, and reads pixels on demand. Its layouts are
in `testsets.published_sources`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError, reason_of
from eyechart.core.phrases import count_of
from eyechart.images.image_list import ListedImage
from eyechart.images.stimulus import SMALLEST_SIDE

SEVERITIES = (1, 2, 3, 4, 5)
"""The severities at which every image is available."""


class CorruptedSource(Protocol):
    """The same images under several corruptions at severities 1…5, all with the same size."""

    @property
    def listed(self) -> tuple[ListedImage, ...]:
        """File, name and label of each image."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of every image in px."""

    def read(
        self, corruption: str, severities: Sequence[int], indices: Sequence[int]
    ) -> list[Tensor | str]:
        """Return the images at these positions, each at its severity, under one corruption.

        An image is uint8 (3, H, W); one that cannot be read is the reason, as a sentence.
        """

    def select(self, indices: Sequence[int]) -> "CorruptedSource":
        """Return a subset: the images at these positions."""


LABELS, CLEAN, CLASSES = "labels.npy", "clean.npy", "classes.txt"
"""Files next to the arrays: class numbers and, if eyechart wrote the folder, clean images and class
names.
"""

Levels = NDArray[np.uint8]


def to_planes(pixels: Levels) -> Tensor:
    """Return images (B, H, W, 3) as a tensor (B, 3, H, W)."""
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))


def open_images(path: Path) -> Levels:
    """Return the images of a file as a memory-mapped array, uint8 (N, H, W, 3)."""
    array = _open(path)
    if array.dtype != np.uint8:
        raise UsageError(f"{path} must contain 8-bit images (uint8), got {array.dtype}.")
    if array.ndim != 4 or array.shape[3] != 3 or not len(array):
        raise UsageError(f"{path} must have the shape (N, height, width, 3), got {array.shape}.")
    if min(array.shape[1:3]) < SMALLEST_SIDE:
        raise UsageError(
            f"{path} must have images of at least {SMALLEST_SIDE} px, since visual change is not"
            f" defined for smaller ones, got {array.shape[2]} × {array.shape[1]} px."
        )
    return cast(Levels, array)


def open_labels(path: Path, rows: int) -> NDArray[np.generic]:
    """Return the class numbers in a file, which must contain exactly `rows` of them."""
    if not path.exists():
        raise UsageError(f"{path} is missing: it must contain the class number of every image.")
    labels = _open(path)
    # Floats or one-hot rows would be compared as wrong labels without an error.
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise UsageError(
            f"{path} must be a one-dimensional array of integer class numbers, got the shape"
            f" {labels.shape} and type {labels.dtype}."
        )
    if len(labels) != rows:
        raise UsageError(
            f"{path} has {count_of(len(labels), 'label')} for {count_of(rows, 'image')}: use the"
            " labels and images of the same dataset."
        )
    return labels


def _open(path: Path) -> NDArray[np.generic]:
    try:
        return mapped_array(path)
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror or error}.") from None
    except (ValueError, EOFError, SyntaxError, TypeError) as error:
        reason = reason_of(error, "it is empty")
        raise UsageError(
            f"{path} is not a NumPy array, or is truncated ({reason}): download it again."
        ) from None


def mapped_array(path: Path) -> NDArray[Any]:
    """Return the array in a .npy file, mapped into memory; pickled objects could run code."""
    array: NDArray[Any] = np.load(regular_file(path), mmap_mode="r", allow_pickle=False)
    return array
