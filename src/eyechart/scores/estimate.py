"""A number with its intervals: what resampled sets of pictures say about how sure it is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eyechart.curves.curve import percentile_interval

Interval = tuple[float, float]
Real = NDArray[np.float64]

LEVELS = (0.95, 0.83)
ENOUGH = 40
"""Pictures from which on resampling them is trusted: 8 categories of 5."""


@dataclass(frozen=True)
class Estimate:
    """A number with the intervals that hold it in 95 % and 83 % of resampled sets of pictures.

    `replicates`: the number in each of those sets. All estimates of a run resample the pictures
    alike, so that the first replicate of one belongs to the first of any other.
    """

    value: float
    interval: Interval
    narrow_interval: Interval
    replicates: Real = field(compare=False, repr=False)


def make_estimate(value: float, replicates: Real, pictures: int | None = None) -> Estimate:
    """Return a number with percentile intervals, widened where there are few `pictures`.

    Resampling is too sure of itself then: five pictures that are all right give an interval of no
    width. What is estimated is a mean over pictures of something in 0…1, which spreads no more than
    right and wrong do; so Wilson's interval for as many right or wrong pictures is wide enough.
    None: a number of another kind, whose intervals stay as they are.
    """
    intervals = [percentile_interval(replicates, level) for level in LEVELS]
    if pictures is not None and pictures < ENOUGH and 0 <= value <= 1:
        for place, level in enumerate(LEVELS):
            (low, high), (least, most) = intervals[place], wilson_interval(value, pictures, level)
            intervals[place] = (min(low, least), max(high, most))
    return Estimate(value, intervals[0], intervals[1], replicates)


def mean_estimate(estimates: Sequence[Estimate], pictures: int | None = None) -> Estimate:
    """Return the mean of numbers of the same pictures, such as of all corruptions."""
    value = float(np.mean([each.value for each in estimates]))
    replicates = np.mean([each.replicates for each in estimates], axis=0)
    return make_estimate(value, replicates, pictures)


def resampled_pictures(count: int, replicates: int, seed: int) -> Iterator[Real]:
    """Yield how often each of so many pictures is in a resampled set; the same for the same seed.

    One set at a time: a table of all would grow with the pictures.
    """
    numbers = np.random.default_rng(seed)
    for _ in range(replicates):
        yield np.bincount(numbers.integers(0, count, count), minlength=count).astype(np.float64)


def complement(estimate: Estimate) -> Estimate:
    """Return 1 less a share: the error for an accuracy."""
    (low, high), (near, far) = estimate.interval, estimate.narrow_interval
    return Estimate(
        1 - estimate.value, (1 - high, 1 - low), (1 - far, 1 - near), 1 - estimate.replicates
    )


def wilson_interval(share: float, count: int, level: float) -> Interval:
    """Return Wilson's score interval of a share of so many independent cases."""
    z = float(ndtri((1 + level) / 2))
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * sqrt(share * (1 - share) / count + z * z / (4 * count**2))
    return max(0.0, middle - half), min(1.0, middle + half)
