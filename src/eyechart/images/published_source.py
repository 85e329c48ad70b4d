"""Published corrupted images, read from files instead of being generated: CIFAR-10-C's arrays.

A `CorruptedSource` knows names and positions up front, and reads pixels on demand. The folders of
ImageNet-C are in `published_folders`. In CIFAR-10-C, CORRUPTION.npy has all images at severity 1,
then 2, … 5; arrays are memory-mapped, and only the requested images are read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True, eq=False)
class ReadResult:
    """The result of reading some samples.

    `good`: which samples could be read; `images`: their images, uint8 (K, 3, H, W); `why`: the
    reason, as a sentence, for each sample that could not be read.
    """

    images: Tensor
    good: NDArray[np.bool_]
    why: tuple[str, ...] = ()


class CorruptedSource(Protocol):
    """The same images under several corruptions at severities 1…5, all with the same size."""

    @property
    def listed(self) -> tuple[ListedImage, ...]:
        """File, name and label of each image."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of every image in px."""

    def read(self, corruption: str, severities: Sequence[int], places: Sequence[int]) -> ReadResult:
        """Return the images at these positions, each at its severity, under one corruption."""

    def take(self, places: Sequence[int]) -> "CorruptedSource":
        """Return a subset: the images at these positions."""


LABELS, CLEAN, CLASSES = "labels.npy", "clean.npy", "classes.txt"
"""Files next to the arrays: class numbers and, if eyechart wrote the folder, clean images and class
names.
"""

Levels = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class PublishedArrays:
    """Images in arrays (5 N, H, W, 3), sorted by severity.

    `places` are the positions of the selected images.
    """

    arrays: Mapping[str, Levels]
    listed: tuple[ListedImage, ...]
    size: tuple[int, int]
    count: int
    places: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def read(self, corruption: str, severities: Sequence[int], places: Sequence[int]) -> ReadResult:
        """Return the images at these positions, each at its severity."""
        # An array contains all images at severity 1, then all at severity 2, and so on.
        rows = (np.asarray(severities) - 1) * self.count + self.places[np.asarray(places)]
        return ReadResult(to_planes(self.arrays[corruption][rows]), np.ones(len(rows), dtype=bool))

    def take(self, places: Sequence[int]) -> "PublishedArrays":
        """Return a subset: the images at these positions."""
        images = tuple(self.listed[index] for index in places)
        return PublishedArrays(
            self.arrays, images, self.size, self.count, self.places[np.asarray(places)]
        )


def to_planes(pixels: Levels) -> Tensor:
    """Return images (B, H, W, 3) as a tensor (B, 3, H, W)."""
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))


def find_arrays(root: Path, known: Sequence[str]) -> tuple[dict[str, Path], list[str]] | None:
    """Find the arrays in a folder that has the layout of CIFAR-10-C.

    If the folder has a labels file, every image array counts as a corruption, regardless of its
    name. If no array is named after a known corruption, all arrays count as corruptions, provided
    the folder has no subfolders.

    Returns:
        A mapping from corruptions to their files, known corruptions first, and the names of files
        that are not used. None if the folder has a different layout.
    """
    files = {
        path.stem: path for path in sorted(root.glob("*.npy")) if path.name not in (LABELS, CLEAN)
    }
    arrays = {name: files[name] for name in known if name in files}
    has_labels = (root / LABELS).exists()
    if not arrays and has_labels and not any(path.is_dir() for path in root.iterdir()):
        return (files, []) if files else None
    # If some corruptions are known, other arrays count only if they contain images; the rest are
    # reported.
    unknown = {name: path for name, path in files.items() if name not in known}
    more = {name: path for name, path in unknown.items() if has_labels and _has_images(path)}
    unused = [path.name for name, path in unknown.items() if name not in more]
    return (arrays | more, unused) if arrays else None


def _has_images(path: Path) -> bool:
    """Return whether a file is an array of images."""
    try:
        open_images(path)
    except UsageError:
        return False
    return True


def open_arrays(root: Path, files: Mapping[str, Path]) -> PublishedArrays:
    """Return the images in these files with the labels from the same folder.

    Raises:
        UsageError: If the arrays differ in shape, or do not contain five severities with labels.
    """
    arrays = {name: open_images(path) for name, path in files.items()}
    shapes = {name: array.shape for name, array in arrays.items()}
    first = next(iter(shapes))
    for name, shape in shapes.items():
        if shape != shapes[first]:
            raise UsageError(
                f"All arrays must have the same shape, got {shapes[first]} in {files[first]} and "
                f"{shape} in {files[name]}: download the dataset again, or select other "
                "corruptions with --corruption."
            )
    rows, height, width, _ = shapes[first]
    if rows % len(SEVERITIES):
        raise UsageError(
            f"{files[first]} must contain the same number of images at each of 5 severities, got "
            f"{rows} in total: download it again."
        )
    count = rows // len(SEVERITIES)
    images = tuple(
        ListedImage(root / LABELS, str(number), label)
        for number, label in enumerate(_named(root / CLASSES, _labels(root / LABELS, rows)))
    )
    return PublishedArrays(arrays, images, (height, width), count, np.arange(count))


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


def _labels(path: Path, rows: int) -> list[int]:
    """Return the class number of each image; raise an error if severities have different labels."""
    labels = open_labels(path, rows)
    by_severity = labels.reshape(len(SEVERITIES), -1)
    # A position selects an image at every severity, so its label must not depend on it.
    if labels.min() < 0 or (by_severity != by_severity[0]).any():
        raise UsageError(
            f"{path} must contain the same non-negative class numbers for each of 5 severities;"
            " the file is damaged or belongs to another dataset."
        )
    return [int(label) for label in by_severity[0]]


def _named(path: Path, numbers: Sequence[int]) -> list[str]:
    """Return the name of each class number from a file; without a file, the number as text."""
    try:
        names = regular_file(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except FileNotFoundError:
        return [str(number) for number in numbers]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"Cannot read {path}: {error}.") from None
    # Two classes with the same name could not be told apart in results.
    if max(numbers) >= len(names) or not all(names) or len(set(names)) < len(names):
        raise UsageError(
            f"{path} must name each class once, one per line, but has"
            f" {count_of(len(names), 'line')} for class numbers up to {max(numbers)}: complete it,"
            " or remove it."
        )
    return [names[number] for number in numbers]


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
