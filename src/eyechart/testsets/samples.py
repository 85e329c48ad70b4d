"""Samples of a test set: which image gets which corruption with which parameters.

`stimuli` computes the images; `pilot` chooses strengths that make Δv about uniform.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError
from eyechart.core.randomness import ImageRandom, hash64
from eyechart.corruptions.suites.apply import draw_random
from eyechart.corruptions.suites.assets import assets_mark
from eyechart.corruptions.suites.strength import draw_from_domain, draw_severities, resolve
from eyechart.corruptions.suites.suite import Entry
from eyechart.images.image_list import ListedImage
from eyechart.images.imageset import ImageSet
from eyechart.images.labels.imagenet import CATEGORIES, NONE
from eyechart.images.labels.matching import category_labels
from eyechart.testsets.plan import CLEAN, Plan
from eyechart.testsets.testset_settings import PILOT

LEVELS = np.arange(1.0, 6.0)


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples of one corruption, or clean images if `entry` is None.

    `row`: row numbers, unique in the test set. `image`: positions in the image set. `draw`: how
    many earlier samples of this corruption use the same image. `severity`: NaN if the strength does
    not come from a severity. `values`: the value of each parameter, in the entry's units.
    """

    entry: Entry | None
    row: IntArray
    image: IntArray
    draw: IntArray
    severity: FloatArray
    values: Mapping[str, FloatArray]

    def __len__(self) -> int:
        return len(self.row)

    @property
    def name(self) -> str:
        """The corruption's name."""
        return CLEAN if self.entry is None else self.entry.name

    def select(self, indices: IntArray) -> "Samples":
        """Return a subset: the samples at these positions."""
        return Samples(
            self.entry,
            self.row[indices],
            self.image[indices],
            self.draw[indices],
            self.severity[indices],
            {name: values[indices] for name, values in self.values.items()},
        )


def clean_samples(images: IntArray, first: int) -> Samples:
    """Return one clean sample for each of these images."""
    count = len(images)
    nothing = np.full(count, np.nan)
    return Samples(None, first + np.arange(count), images, np.zeros_like(images), nothing, {})


def expand(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return the image and the draw number of each sample, given the number of draws per image.

    Example:
        >>> expand(np.array([2, 0, 1]))
        (array([0, 0, 2]), array([0, 1, 0]))
    """
    image = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return image, np.arange(len(image)) - np.repeat(starts, counts)


def allocate(digests: Sequence[str], classes: Sequence[str | None], n: int, seed: int) -> IntArray:
    """Return how many of n samples each image gets.

    Classes differ by at most one sample, and so do the images of a class. Which images get one
    additional sample depends on the seed and their digests, not on the order of the images.
    """
    # A hash instead of a random generator, so that the order of the images has no influence.
    order = [hash64(seed, "share", digest) for digest in digests]
    members: dict[str | None, list[int]] = {}
    for position, name in enumerate(classes):
        members.setdefault(name, []).append(position)
    counts = np.zeros(len(digests), dtype=np.int64)
    names = sorted(members, key=lambda name: hash64(seed, "class", str(name)))
    for share, name in zip(_split(n, len(names)), names, strict=True):
        positions = sorted(members[name], key=lambda position: order[position])
        counts[positions] = _split(share, len(positions))
    return counts


def _split(total: int, parts: int) -> list[int]:
    """Split `total` into `parts` integers that differ by at most one, with larger ones first."""
    return [total // parts + (part < total % parts) for part in range(parts)]


def choose_images(images: Sequence[ListedImage], plan: Plan) -> IntArray:
    """Return the positions of the images that a plan uses, in increasing order.

    Classes (of the dataset, or the 16 categories) differ by at most one image if all have enough
    images. Which images are chosen depends only on the seed and their file names, so that
    corrupted files, clean files and copies in other folders give the same subset.
    """
    indices = np.arange(len(images))
    if plan.max_images is None:
        return indices
    classes: list[str] = [image.label or "" for image in images]
    if plan.labels == "entry16":
        labels = [image.label for image in images]
        categories = category_labels(labels, [image.category for image in images])
        classes, indices = (
            [str(number) for number in categories],
            np.flatnonzero(categories != NONE),
        )
    if plan.labels == "none":
        classes = [""] * len(images)
    if plan.max_images > len(indices):
        raise UsageError(f"max_images must be at most {len(indices)}, got {plan.max_images}.")

    def order(position: int) -> tuple[int, str]:
        name = images[position].name
        # Without folder and suffix, so that copies in other layouts give the same subset.
        # Do not reword "picture": another word would choose other images for the same seed.
        return hash64(plan.seed, "picture", stem_of(name)), name

    members: dict[str, list[int]] = {}
    for position in sorted(indices.tolist(), key=order):
        members.setdefault(classes[position], []).append(position)
    # Round robin over the classes: every class's first image, then every class's second, and so on.
    turns = sorted(
        (turn, hash64(plan.seed, "class", name), position)
        for name, positions in members.items()
        for turn, position in enumerate(positions)
    )
    return np.array(sorted(position for _, _, position in turns[: plan.max_images]), dtype=np.int64)


def stem_of(name: str) -> str:
    """Return a file name without folder and suffix."""
    file = name.rpartition("/")[2]
    return file.rpartition(".")[0] or file


def usable_images(images: ImageSet, plan: Plan) -> IntArray:
    """Return the positions of images to sample; "entry16" uses only images of the 16 categories."""
    if plan.labels != "entry16":
        return np.arange(len(images))
    positions = np.flatnonzero(category_labels(images.labels, images.categories) != NONE)
    if not len(positions):
        raise UsageError(
            "No image belongs to the 16 categories: give images labeled with ImageNet's"
            f" WordNet ids or with {CATEGORIES[0]}, {CATEGORIES[1]}, …, or use --labels native."
        )
    return positions


def counts_of(images: ImageSet, plan: Plan) -> IntArray:
    """Return how often each image is sampled for a corruption without published levels."""
    classes: Sequence[str | None] = images.labels
    indices = usable_images(images, plan)
    if plan.labels == "entry16":
        classes = [str(number) for number in category_labels(images.labels, images.categories)]
    if plan.labels == "none" or not plan.balanced:
        classes = [None] * len(images)
    counts = np.zeros(len(images), dtype=np.int64)
    counts[indices] = allocate(
        [images.digests[position] for position in indices],
        [classes[int(position)] for position in indices],
        plan.n,
        plan.seed,
    )
    return counts


def plan_samples(images: ImageSet, plan: Plan) -> list[Samples]:
    """Return the samples of every corruption, and one for each clean image that is used.

    With sampling "pilot", strengths are not known yet and severities are NaN.
    """
    plan.check()
    if images.files is None:
        for entry in plan.entries():
            # Report missing assets before the computation starts.
            assets_mark(entry)
    counts = counts_of(images, plan)
    groups: list[Samples] = []
    first = 0
    for entry in plan.entries():
        groups.append(_plan_entry(images, entry, counts, plan, first))
        first += len(groups[-1])
    # Without clean images there is nothing to compare with.
    if not images.has_clean:
        return groups
    used = np.unique(np.concatenate([samples.image for samples in groups]))
    return [clean_samples(used, first), *groups]


def _plan_entry(
    images: ImageSet, entry: Entry, counts: IntArray, plan: Plan, first: int
) -> Samples:
    if entry.at_levels:
        # Published levels: every image at each level, with the same random numbers.
        indices = usable_images(images, plan)
        levels = LEVELS[:1] if entry.is_single else LEVELS
        image, severity = np.repeat(indices, len(levels)), np.tile(levels, len(indices))
        draw = np.zeros_like(image)
    else:
        image, draw = expand(counts)
        severity = np.full(len(image), np.nan)
    row = first + np.arange(len(image))
    samples = Samples(entry, row, image, draw, severity, {})
    if is_piloted(entry, plan) or images.files is not None:
        # Strengths are found later, and the parameters behind published files are unknown.
        return samples
    return with_values(images, samples, plan.seed)


def is_piloted(entry: Entry | None, plan: Plan) -> bool:
    """Return whether an entry's strengths are chosen by means of pilot samples.

    Corruptions with published levels are excluded, because they keep these levels, and corruptions
    without a curve, such as geometric ones under rulers that cannot measure them.
    """
    return (
        entry is not None
        and plan.sampling == PILOT
        and not plan.why_no_curve(entry)
        and not entry.at_levels
    )


def with_values(images: ImageSet, samples: Samples, seed: int) -> Samples:
    """Return the samples with parameter values, from their severities or the published domain.

    Unknown severities are drawn if the entry has a severity range.
    """
    entry = samples.entry
    assert entry is not None
    random = draw_random(
        entry, keys_of(images, samples.image), seed, samples.draw.tolist(), torch.device("cpu")
    )
    if entry.severity is not None and np.isnan(samples.severity).all():
        samples = replace(samples, severity=draw_severities(random, *entry.severity))
    if np.isnan(samples.severity).all():
        values = draw_from_domain(entry, random)
    else:
        values = _from_severity(images, samples, entry, random)
    return replace(samples, values=values)


def _from_severity(
    images: ImageSet, samples: Samples, entry: Entry, random: ImageRandom
) -> dict[str, FloatArray]:
    """Return parameters in the entry's units; without a reference side, in px of each image."""
    if entry.reference_side is not None:
        return resolve(entry, samples.severity, {}, entry.reference_side, random)
    sides = np.array([min(images.sizes[position]) for position in samples.image])
    # Strengths in px depend on the side of the image: resolve them once per side.
    values: dict[str, FloatArray] = {}
    for side in np.unique(sides):
        # `random` belongs to the whole list, so all samples are resolved and some are kept.
        resolved = resolve(entry, samples.severity, {}, int(side), random)
        for name, value in resolved.items():
            values[name] = np.where(sides == side, value, values.get(name, value))
    return values


def keys_of(images: ImageSet, indices: IntArray) -> Tensor:
    """Return the 64-bit keys of the images at these positions."""
    # Hash each image once; samples repeat images many times.
    distinct, inverse = np.unique(indices, return_inverse=True)
    return images.keys(distinct)[torch.from_numpy(inverse)]


def mildest(entry: Entry) -> float:
    """Return the severity at which a strength path begins.

    If all parameters are integers (such as kernel sizes), the path begins at severity 1, because
    there is no strength between the clean image and the mildest corruption.
    """
    moved = [entry.corruption.parameter(name) for name in entry.path]
    return 1.0 if moved and all(parameter.integer for parameter in moved) else 0.0
