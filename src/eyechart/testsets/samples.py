"""Samples of a test set: which image meets which corruption with which parameters.

The images themselves are made in `stimuli`; strengths that make Δv uniform are found in `uniform`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError
from eyechart.core.randomness import ImageRandom, hash64
from eyechart.images.identity import named_keys
from eyechart.images.image_list import Picture
from eyechart.images.imageset import ImageSet
from eyechart.labels.categories import CATEGORIES, NONE
from eyechart.labels.spaces import category_labels
from eyechart.suites.apply import draw_random
from eyechart.suites.assets import assets_mark
from eyechart.suites.strength import draw_from_domain, draw_severities, resolve
from eyechart.suites.suite import DRAWN, STRONGEST, Entry
from eyechart.testsets.plan import CLEAN, Plan

LEVELS = np.arange(1.0, 6.0)

FEW_LEVELS = 12
"""Up to so many levels of strength are all looked at."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows of one corruption, or of none at all (`entry` is None: the pictures as they are).

    `row`: numbers that are unique in the test set. `image`: places in the image set. `draw`: how
    often the picture was drawn before for this corruption. `severity`: where strength came from
    one, else NaN. `values`: each parameter, in the entry's own units.
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

    def take(self, places: IntArray) -> "Samples":
        """Return some of the rows."""
        return Samples(
            self.entry,
            self.row[places],
            self.image[places],
            self.draw[places],
            self.severity[places],
            {name: values[places] for name, values in self.values.items()},
        )


def clean_samples(images: IntArray, first: int) -> Samples:
    """Return one row for each of these pictures as it is."""
    count = len(images)
    nothing = np.full(count, np.nan)
    return Samples(None, first + np.arange(count), images, np.zeros_like(images), nothing, {})


def expand(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return picture and number of the draw for each of so many draws per picture."""
    image = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return image, np.arange(len(image)) - np.repeat(starts, counts)


def allocate(digests: Sequence[str], classes: Sequence[str | None], n: int, seed: int) -> IntArray:
    """Return how many of n samples each picture gets.

    Classes differ by at most one draw, and so do the pictures of a class. Who gets the odd one
    depends on the seed and the picture's digest, not on the order of the pictures.
    """
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
    """Return whole numbers that add up to `total` and differ by at most one, larger ones first."""
    return [total // parts + (part < total % parts) for part in range(parts)]


def choose_pictures(pictures: Sequence[Picture], plan: Plan) -> IntArray:
    """Return the places of the pictures that a plan is about, rising.

    Classes differ by at most one picture, as far as they have them: those of the data set, or
    people's 16. Which pictures of a class depends on the seed and on their file names alone, so
    that corrupted files, clean ones and those in other folders give the same choice.
    """
    places = np.arange(len(pictures))
    if plan.pictures is None:
        return places
    classes: list[str] = [picture.label or "" for picture in pictures]
    if plan.labels == "entry16":
        labels = [picture.label for picture in pictures]
        categories = category_labels(labels, [picture.category for picture in pictures])
        classes, places = [str(number) for number in categories], np.flatnonzero(categories != NONE)
    if plan.labels == "none":
        classes = [""] * len(pictures)
    if plan.pictures > len(places):
        raise UsageError(f"pictures must be at most {len(places)}, got {plan.pictures}.")

    def order(position: int) -> tuple[int, str]:
        name = pictures[position].name
        return hash64(plan.seed, "picture", _stem(name)), name

    members: dict[str, list[int]] = {}
    for position in sorted(places.tolist(), key=order):
        members.setdefault(classes[position], []).append(position)
    turns = sorted(
        (turn, hash64(plan.seed, "class", name), position)
        for name, positions in members.items()
        for turn, position in enumerate(positions)
    )
    return np.array(sorted(position for _, _, position in turns[: plan.pictures]), dtype=np.int64)


def _stem(name: str) -> str:
    """Return a file's name without its folder and suffix."""
    file = name.rpartition("/")[2]
    return file.rpartition(".")[0] or file


def usable_pictures(images: ImageSet, plan: Plan) -> IntArray:
    """Return the places of the pictures that can be drawn: with "entry16", those of the 16."""
    if plan.labels != "entry16":
        return np.arange(len(images))
    positions = np.flatnonzero(category_labels(images.labels, images.categories) != NONE)
    if not len(positions):
        raise UsageError(
            "No picture belongs to the 16 categories: give pictures labelled with ImageNet's"
            f" WordNet ids or with {CATEGORIES[0]}, {CATEGORIES[1]}, …, or use --labels native."
        )
    return positions


def counts_of(images: ImageSet, plan: Plan) -> IntArray:
    """Return how often each picture is drawn for a corruption without published levels."""
    classes: Sequence[str | None] = images.labels
    places = usable_pictures(images, plan)
    if plan.labels == "entry16":
        classes = [str(number) for number in category_labels(images.labels, images.categories)]
    if plan.labels == "none" or not plan.balanced:
        classes = [None] * len(images)
    counts = np.zeros(len(images), dtype=np.int64)
    counts[places] = allocate(
        [images.digests[position] for position in places],
        [classes[int(position)] for position in places],
        plan.n,
        plan.seed,
    )
    return counts


def plan_samples(images: ImageSet, plan: Plan) -> list[Samples]:
    """Return the rows of every corruption, and one for each clean picture that is used.

    With sampling "uniform", strengths are still to be found, severities are NaN, and there are more
    rows than will be used: a pool, so that some reach far.
    """
    plan.check()
    if images.files is None:
        for entry in plan.entries():
            # what is missing is said before the work
            assets_mark(entry)
    counts = counts_of(images, plan)
    groups: list[Samples] = []
    first = 0
    for entry in plan.entries():
        groups.append(_plan_entry(images, entry, counts, plan, first))
        first += len(groups[-1])
    if not images.has_clean:
        return groups
    used = np.unique(np.concatenate([samples.image for samples in groups]))
    return [clean_samples(used, first), *groups]


def _plan_entry(
    images: ImageSet, entry: Entry, counts: IntArray, plan: Plan, first: int
) -> Samples:
    if entry.at_levels and plan.sampling == "paper":
        # published levels: every picture at each of them, with the same random part
        places = usable_pictures(images, plan)
        image, severity = np.repeat(places, len(LEVELS)), np.tile(LEVELS, len(places))
        draw = np.zeros_like(image)
    else:
        image, draw = expand(counts * pool_factor(entry, plan))
        severity = np.full(len(image), np.nan)
    row = first + np.arange(len(image))
    samples = Samples(entry, row, image, draw, severity, {})
    if is_uniform(entry, plan) or images.files is not None:
        # files are as strong as they are: nobody says by which numbers
        return samples
    return with_values(images, samples, plan.seed)


def pool_factor(entry: Entry, plan: Plan) -> int:
    """Return how many rows are looked at for each that is used.

    Where strength leads to the picture's own draw, few draws lead far; where it has a few levels,
    all of them are looked at.
    """
    if not is_uniform(entry, plan):
        return 1
    if len(severities_of(entry)) > 2:
        return 2
    return 8 if DRAWN in entry.path.values() else 4


def is_uniform(entry: Entry | None, plan: Plan) -> bool:
    """Whether an entry's strengths are found from visual change, which moved pictures lack."""
    return entry is not None and plan.sampling == "uniform" and not entry.geometric


def with_values(images: ImageSet, samples: Samples, seed: int) -> Samples:
    """Return the samples with concrete parameters: from their severities, or the paper's domain.

    Severities that are not known are drawn where the entry has a range of them.
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
    """Return parameters in the entry's own units; where it has none, in px of each picture."""
    if entry.reference_side is not None:
        return resolve(entry, samples.severity, {}, entry.reference_side, random)
    sides = np.array([min(images.sizes[position]) for position in samples.image])
    values: dict[str, FloatArray] = {}
    for side in np.unique(sides):
        resolved = resolve(entry, samples.severity, {}, int(side), random)
        for name, value in resolved.items():
            values[name] = np.where(sides == side, value, values.get(name, value))
    return values


def keys_of(images: ImageSet, places: IntArray) -> Tensor:
    """Return the 64-bit keys of the pictures at these places."""
    distinct, inverse = np.unique(places, return_inverse=True)
    keys = named_keys([images.digests[position] for position in distinct], len(distinct))
    return keys[torch.from_numpy(inverse)]


def mildest(entry: Entry) -> float:
    """Return the severity at which a strength path begins.

    Kernels of whole numbers have no strength between none and their mildest.
    """
    moved = [entry.corruption.parameter(name) for name in entry.path]
    return 1.0 if moved and all(parameter.integer for parameter in moved) else 0.0


def severities_of(entry: Entry) -> FloatArray:
    """Return the severities to look at before targets are drawn.

    All of them where strength has a few levels only, otherwise both ends of its path.
    """
    if len(entry.path) == 1 and mildest(entry):
        ((name, ends),) = entry.path.items()
        step = 2 if entry.corruption.parameter(name).odd else 1
        levels = abs(int((float(ends[1]) - float(ends[0])) / step)) + 1
        if 1 < levels <= FEW_LEVELS:
            return np.linspace(1.0, STRONGEST, levels)
    return np.array([mildest(entry), STRONGEST])
