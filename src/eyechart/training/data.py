"""Labeled images for training, all with the same size, each with its class and its key.

They come from one source, part of which is held out for testing, or from two.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import torch
from torch import Tensor

from eyechart.core.arguments import digits
from eyechart.core.devices import free_memory
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of, plural, verb
from eyechart.core.progress import Progress
from eyechart.core.randomness import hash64
from eyechart.images.image_files import unread_notes
from eyechart.images.image_list import ListedImage
from eyechart.images.image_sources import find_images
from eyechart.images.imageset import ImageSet, load_listed
from eyechart.images.labels.matching import native_labels
from eyechart.models.model import Channels

HELD_SHARE = 0.4
"""Fraction of a device's free memory that images may take; larger sets are read in blocks."""

AT_ONCE = 4096
"""Number of images that are copied to the device at once."""

MIN_PER_CLASS = 2
"""Minimum number of images per class."""


@dataclass(frozen=True)
class Transform:
    """A named transform that is applied to every training batch.

    `apply`: a function from uint8 (B, 3, H, W) to the same type and shape, on the batch's device.
    """

    name: str
    apply: Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class LabeledImages:
    """Images of equal size with their classes.

    `labels`: class indices, (N,) int64. `keys`: (N,) int64, one per image, computed from its file's
    digest. `pixels`: all images, uint8 (N, 3, H, W) on the CPU, if memory allows; otherwise None,
    and images are read on demand. `transform`: a transform that is applied to images when they are
    used for training.
    """

    images: ImageSet
    labels: Tensor
    keys: Tensor
    class_names: tuple[str, ...]
    pixels: Tensor | None = None
    transform: Transform | None = None

    def __len__(self) -> int:
        return len(self.images)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in px."""
        return self.images.sizes[0]

    def batch(self, indices: Sequence[int]) -> Tensor:
        """Return the images at these positions, uint8 (B, 3, H, W), without the transform."""
        return self.images.batch(indices) if self.pixels is None else self.pixels[list(indices)]

    def select(self, indices: Sequence[int]) -> "LabeledImages":
        """Return a subset of the images; all class names are kept."""
        positions = torch.tensor(list(indices), dtype=torch.int64)
        pixels = None if self.pixels is None else self.pixels[positions]
        return replace(
            self,
            images=self.images.select(positions.tolist()),
            labels=self.labels[positions],
            keys=self.keys[positions],
            pixels=pixels,
        )

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that identify the images, their order and their classes."""
        return f"{hash64(*self.images.digests, *self.labels.tolist(), *self.class_names):016x}"


class DeviceDataset:
    """The images on a device: all of them if they fit, otherwise copied on demand."""

    def __init__(self, data: LabeledImages, device: torch.device) -> None:
        self.data, self.device = data, device
        self.labels, self.keys = data.labels.to(device), data.keys.to(device)
        height, width = data.size
        self.pixels: Tensor | None = None
        if device.type == "cpu":
            self.pixels = data.pixels
        elif len(data) * 3 * height * width <= HELD_SHARE * free_memory(device):
            self.pixels = torch.empty(len(data), 3, height, width, dtype=torch.uint8, device=device)
            for start in range(0, len(data), AT_ONCE):
                stop = min(start + AT_ONCE, len(data))
                self.pixels[start:stop] = data.batch(range(start, stop)).to(device)

    def batch(self, indices: Tensor) -> Tensor:
        """Return the training images at these positions, uint8 (B, 3, H, W).

        `indices`: the positions, a tensor on the CPU.
        """
        if self.pixels is not None:
            images = self.pixels[indices.to(self.device)]
        else:
            images = self.data.batch(indices.tolist()).to(self.device)
        # Batch by batch: all images at once may not fit into memory.
        return images if self.data.transform is None else self.data.transform.apply(images)


def training_data(
    images: ImageSet, class_names: Sequence[str] | None = None, min_per_class: int = MIN_PER_CLASS
) -> LabeledImages:
    """Return the images ready for training; every class needs at least `min_per_class` images.

    `class_names`: the classes in order; by default, the sorted labels of the images.
    """
    labels = _labels_of(images)
    names = tuple(sorted(set(labels)) if class_names is None else class_names)
    if len(names) < 2:
        raise UsageError(
            f"{images.source} has images of only one class, {names[0]!r}: give images of"
            " at least two, such as the folder that contains the class folders."
        )
    if len(set(images.sizes)) > 1:
        one, two = sorted(set(images.sizes))[:2]
        raise UsageError(
            f"Training images must have the same size, but {images.source} has {one[1]} × {one[0]} "
            f"and {two[1]} × {two[0]} px: give --stimulus 224 or another size."
        )
    _check_counts(images.source, labels, min_per_class)
    classes = torch.from_numpy(native_labels(labels, len(names), names))
    data = LabeledImages(images, classes, images.keys(), names)
    height, width = data.size
    room = HELD_SHARE * free_memory(torch.device("cpu"))
    # If the decoded images did not fit into memory, a second copy does not fit either.
    if len(images.kept) < len(images) or len(images) * 3 * height * width > room:
        return data
    return replace(data, images=replace(images, kept={}), pixels=images.batch(range(len(images))))


def _labels_of(images: ImageSet) -> list[str]:
    if not len(images):
        raise UsageError(f"{images.source} has no images.")
    # A missing label is reported with an example, before anything is trained.
    bare = [image.name for image in images.listed if image.label is None]
    if bare:
        raise UsageError(
            f"{images_have(len(bare), images.source)} no label, such as {bare[0]}: put each image"
            " into the folder of its class, or give a list with labels."
        )
    return [str(label) for label in images.labels]


def images_have(count: int, source: str) -> str:
    """Return the start of a sentence, such as "1 image in x has" or "2 images in x have"."""
    return f"{count_of(count, 'image')} in {source} {verb(count, 'has')}"


def _check_counts(source: str, labels: Sequence[str], min_per_class: int = MIN_PER_CLASS) -> None:
    too_small = [
        (name, count) for name, count in sorted(Counter(labels).items()) if count < min_per_class
    ]
    if too_small:
        name, count = too_small[0]
        others = len(too_small) - 1
        more = f", and {others} more {plural(others, 'class')} {verb(others, 'has')} too few"
        raise UsageError(
            f"Every class needs at least {min_per_class} images, but {name!r} in {source} has "
            f"{count}{more if others else ''}:"
            " add images, or remove the class."
        )


def split(images: ImageSet, held_out: float = 0.2, lone: bool = False) -> tuple[ImageSet, ImageSet]:
    """Split images into a training set and a test set, which gets a fraction of every class.

    The split depends only on the images' digests, not on their order. Identical images stay
    together, even if they have different classes. `lone`: whether classes that cannot be split go
    to the training set instead of raising an error.
    """
    if not 0 < held_out < 1:
        raise UsageError(f"The held-out fraction must be between 0 and 1, got {digits(held_out)}.")
    labels = _labels_of(images)
    if not lone:
        _check_counts(images.source, labels)
    # Identical files have the same rank, so they end up in the same set.
    ranks = [hash64("split", digest) for digest in images.digests]
    of_class: dict[str, set[int]] = {}
    for rank, label in zip(ranks, labels, strict=True):
        of_class.setdefault(label, set()).add(rank)
    chosen: set[int] = set()
    for name, known in of_class.items():
        ranks_of_class = sorted(known)
        if len(ranks_of_class) < MIN_PER_CLASS and not lone:
            raise UsageError(
                f"All images of {name!r} in {images.source} are identical: add others, or remove"
                " the class."
            )
        # At least one image of each class in either set.
        cut = min(len(ranks_of_class) - 1, max(1, round(held_out * len(ranks_of_class))))
        chosen |= set(ranks_of_class[:cut])
    for name, known in of_class.items():
        if known <= chosen and not lone:
            raise UsageError(
                f"No image of {name!r} in {images.source} is left for training, because all of"
                " them are in other classes as well: keep each image in one class only."
            )
    indices = range(len(images))
    train = [position for position in indices if ranks[position] not in chosen]
    return images.select(train), images.select([p for p in indices if ranks[p] in chosen])


def reject_shared(train: ImageSet, test: ImageSet) -> None:
    """Raise a UsageError if an image is in both sets, judged by the digest of its file."""
    known = {d: p.name for d, p in zip(train.digests, train.listed, strict=True)}
    both = [p for d, p in zip(test.digests, test.listed, strict=True) if d in known]
    if len(both) == len(test) and train.source == test.source:
        raise UsageError(
            f"{train.source} is given for both training and testing: give other images for testing."
        )
    if both:
        images = f"{count_of(len(both), 'image')} {verb(len(both), 'is')}"
        raise UsageError(
            f"{images} in both the training set and the test set, such as {both[0].name}: remove"
            f" them from {train.source}."
        )


def every_class(images: Sequence[ListedImage], step: int = 10) -> list[ListedImage]:
    """Return the images of every `step`-th class, sorted by name; 10 gives ImageNet-100."""
    if step < 1:
        raise UsageError(f"--every must be a whole number of at least 1, got {step}.")
    names = sorted({image.label for image in images if image.label is not None})
    kept = set(names[::step])
    if len(names) > 1 and len(kept) < 2:
        raise UsageError(
            f"--every {step} leaves only one class of {len(names)}: give a smaller number."
        )
    return [image for image in images if image.label in kept]


def mean_and_deviation(data: LabeledImages, most: int = 10_000) -> tuple[Channels, Channels]:
    """Return the mean and standard deviation of red, green and blue, as fractions of full scale.

    Both are computed over up to `most` evenly spaced images and rounded to three digits.
    """
    # Evenly spaced, since datasets are usually sorted by class.
    step = max(1, len(data) // most)
    indices = list(range(0, len(data), step))
    total, square, count = torch.zeros(3), torch.zeros(3), 0
    for start in range(0, len(indices), 256):
        part = data.batch(indices[start : start + 256]).double() / 255
        # Not in place: the first sum promotes the totals to float64, which many pixels need.
        total = total + part.sum(dim=(0, 2, 3))
        square = square + (part * part).sum(dim=(0, 2, 3))
        count += part[:, 0].numel()
    mean = total / count
    # Rounding may make the variance of a uniform channel negative; 1e-4 keeps the division stable.
    spread = (square / count - mean**2).clamp_min(1e-4).sqrt()
    return _rounded(mean), _rounded(spread)


def _rounded(values: Tensor) -> Channels:
    red, green, blue = (round(float(value), 3) for value in values)
    return red, green, blue


@dataclass(frozen=True)
class TrainingSources:
    """Sources of training and test images.

    If there is only one source, a fraction of its images is held out for testing.

    `stimulus`: how images are resized and cropped. `every`: use only every n-th class, sorted by
    name; 10 gives ImageNet-100 from ImageNet. `leave_out`: an output folder to skip, since it may
    be inside the image folder. `n_classes`: the expected number of classes before some are left
    out, None if any number is accepted.
    """

    images: Path
    train_images: Path | None = None
    stimulus: str = "224"
    every: int = 1
    held_out: float = 0.2
    leave_out: Path | None = None
    n_classes: int | None = None

    def load(self, progress: Progress) -> tuple[ImageSet, ImageSet]:
        """Return the training images and the test images, which are disjoint."""
        load = partial(
            load_labeled, stimulus=self.stimulus, progress=progress, leave_out=self.leave_out
        )
        classes = self.n_classes
        if self.train_images is None:
            images = load(self.images, "images", self.every, n_classes=classes)
            train, test = split(images, self.held_out)
        else:
            train = load(self.train_images, "training images", self.every, n_classes=classes)
            # The test set gets the classes that were selected for training.
            kept = {image.label for image in train.listed}
            chosen = kept if self.every != 1 else None
            test = load(self.images, "test images", 1, kept=chosen)
        reject_shared(train, test)
        return train, test


def load_labeled(
    where: Path,
    title: str,
    every: int,
    stimulus: str,
    progress: Progress,
    *,
    kept: Collection[str | None] | None = None,
    leave_out: Path | None = None,
    n_classes: int | None = None,
) -> ImageSet:
    """Return the images in a folder or list: every n-th class, or the classes in `kept`."""
    listed: Sequence[ListedImage] = find_images(where, leave_out)
    count = len({image.label for image in listed if image.label is not None})
    if n_classes is not None and count != n_classes:
        raise UsageError(
            f"--every {every} expects {n_classes:,} classes, but {where} has {count:,}: give"
            " --every 1 if the classes are already selected, or a different --every."
        )
    if kept is not None:
        listed = [image for image in listed if image.label in kept]
    if every != 1:
        listed = every_class(listed, every)
    step = progress.begin(title, len(listed))
    return load_listed(listed, str(where), stimulus, step, unread_notes(where, leave_out))
